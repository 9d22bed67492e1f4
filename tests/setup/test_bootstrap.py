"""tools/bootstrap.py: whole or not at all, whatever happens meanwhile."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from set_up.command import Progress
from set_up.part import Part, ensure, locked
from set_up.targets import TARGETS
from tests.setup.conftest import HOME, Run

pytestmark = pytest.mark.commands

FRESH = ["bin", "lint", "lock"]
"""What .tools holds after a set-up of the linter, where uv and Go came from PATH."""


def holds(checkout: Path) -> list[str]:
    own = {"uv", "go"}  # where the machine has none that fits
    return sorted({path.name for path in (checkout / ".tools").iterdir()} - own)


def start(checkout: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, checkout / "tools/bootstrap.py", "lint"], env=environment, stderr=subprocess.PIPE, text=True
    )


def steps(stderr: str) -> list[str]:
    """What the set-up said, without the seconds."""
    return [re.sub(r"^set-up +[\d.]+ s  ", "", line) for line in stderr.splitlines()]


@pytest.mark.claim("sets-itself-up")
def test_it_says_what_it_does_and_is_silent_afterwards(checkout: Path, run: Run) -> None:
    first = run(sys.executable, checkout / "tools/bootstrap.py", "lint")
    second = run(sys.executable, checkout / "tools/bootstrap.py", "lint")

    assert first.returncode == 0, first.stderr
    assert [step for step in steps(first.stderr) if not step.startswith("installing ")] == [
        "building kustomize, kubeconform, render with Go",
        "building validation with Go",
        "making the Python environment for lint",
        "done",
    ]
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert holds(checkout) == FRESH
    version = run(checkout / ".tools/bin/kustomize", "version").stdout.strip()
    assert f"sigs.k8s.io/kustomize/kustomize/v5 {version} " in (checkout / "tools/go/go.mod").read_text()


@pytest.mark.parametrize("moment", ["bin", "lint"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_set_up_that_was_ended_is_made_good(
    ready: Path, environment: dict[str, str], run: Run, moment: str, how: signal.Signals
) -> None:
    for part in {moment, "lint"}:
        (ready / ".tools" / part / "stamp").unlink()
    before = (ready / ".tools/bin/render").stat().st_ino, (ready / ".tools/lint/bin").stat().st_ino
    process = start(ready, environment)
    wait_for(ready / f".tools/tmp-new-{moment}", process)

    process.send_signal(how)
    process.communicate()
    after = (ready / ".tools/bin/render").stat().st_ino, (ready / ".tools/lint/bin").stat().st_ino
    again = run(ready / "tools/lint-jobs")

    assert after == before, "nothing was replaced"
    assert again.returncode == 0, again.stderr
    assert holds(ready) == FRESH


def test_a_link_in_the_place_of_a_part_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    tools, shared, source = tmp_path / "tools", tmp_path / "shared", tmp_path / "source"
    for folder in (tools, shared):
        folder.mkdir()
    source.write_text("new")
    (shared / "kept").write_text("of another checkout")
    (tools / "part").symlink_to(shared)
    (tools / "tmp-old-other").symlink_to(shared)  # a set-up before left it

    with locked(tools, Progress()):
        ensure(tools, Part("part", (source,), (), lambda folder: (folder / "made").touch()))

    assert {path.name for path in tools.iterdir()} == {"part", "lock"}
    assert not (tools / "part").is_symlink()
    assert {path.name for path in (tools / "part").iterdir()} == {"made", "stamp"}
    assert {path.name for path in shared.iterdir()} == {"kept"}


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def test_two_at_once_are_one_set_up(checkout: Path, environment: dict[str, str]) -> None:
    first = start(checkout, environment)
    wait_for(checkout / ".tools/lock", first)
    second = start(checkout, environment)

    said = [steps(process.communicate()[1]) for process in (first, second)]

    assert [first.returncode, second.returncode] == [0, 0], said
    assert sorted(step for both in said for step in both if not step.startswith("installing ")) == [
        "building kustomize, kubeconform, render with Go",
        "building validation with Go",
        "done",
        "done",
        "making the Python environment for lint",
        "waiting for another set-up of this checkout",
    ]
    assert holds(checkout) == FRESH


def test_without_go_modules_it_ends_with_one_line_and_the_reason(checkout: Path, run: Run, tmp_path: Path) -> None:
    offline = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "none")}
    done = run(sys.executable, checkout / "tools/bootstrap.py", "lint", **offline)

    lines = [line for line in steps(done.stderr) if not line.startswith("installing ")]
    assert done.returncode == 3
    assert lines[0] == "building kustomize, kubeconform, render with Go"
    assert lines[1] == "set-up: building kustomize, kubeconform, render with Go failed: go ended with 1"
    assert all(line.startswith("  | ") for line in lines[2:])
    assert "module lookup disabled by GOPROXY=off" in done.stderr
    assert holds(checkout) == ["lock"]


def test_the_control_plane_is_announced_with_what_it_takes(ready: Path, run: Run, tmp_path: Path) -> None:
    offline = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "none")}
    done = run(sys.executable, ready / "tools/bootstrap.py", "controlplane", **offline)

    lines = [line for line in steps(done.stderr) if not line.startswith("installing ")]
    assert done.returncode == 3
    assert re.match(r"building the control plane, once: about \d+ minutes and \d+ GB of disk on two cores", lines[0])
    assert lines[1] == "building etcd with Go (1 of 6)"
    assert lines[2] == "set-up: building etcd with Go (1 of 6) failed: go ended with 1"
    assert holds(ready) == FRESH


def test_without_python_packages_it_ends_with_one_line_and_the_reason(ready: Path, run: Run, tmp_path: Path) -> None:
    (ready / ".tools/lint/stamp").unlink()

    offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "none")}
    done = run(sys.executable, ready / "tools/bootstrap.py", "lint", **offline)

    lines = steps(done.stderr)
    assert done.returncode == 3
    assert lines[0] == "making the Python environment for lint"
    assert re.fullmatch(r"set-up: making the Python environment for lint failed: uv ended with \d", lines[1])
    assert all(line.startswith("  | ") for line in lines[2:])
    assert holds(ready) == FRESH


def test_a_checkout_that_cannot_be_written_is_one_line(checkout: Path, run: Run) -> None:
    (checkout / ".tools").write_text("a file where the folder belongs")

    done = run(sys.executable, checkout / "tools/bootstrap.py", "lint")

    assert (done.returncode, done.stderr) == (3, f"set-up: {checkout}/.tools: File exists\n")


def test_programs_of_the_pinned_version_are_taken_from_path(
    checkout: Path, set_up_once: Path, run: Run, path_with: Callable[..., str]
) -> None:
    kustomize = set_up_once / ".tools/bin/kustomize"
    path = path_with(kubeconform="echo v0.0.1")

    done = run(sys.executable, checkout / "tools/bootstrap.py", "lint", PATH=f"{kustomize.parent}:{path}")

    assert done.returncode == 0, done.stderr
    assert "building kubeconform, render with Go" in steps(done.stderr)
    assert (checkout / ".tools/bin/kustomize").read_bytes() == kustomize.read_bytes()


def test_old_pythons_can_read_it() -> None:
    ast.parse((HOME / "tools/bootstrap.py").read_text(), feature_version=(3, 7))


AS_PYTHON_3_9 = """
import runpy, sys
sys.version_info = (3, 9, 2, "final", 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_an_old_python_is_told_what_is_needed(checkout: Path, run: Run, tmp_path: Path) -> None:
    script = checkout / "tools/bootstrap.py"

    done = run(sys.executable, "-c", AS_PYTHON_3_9, script, "lint", PATH=str(tmp_path / "empty"))

    assert done.returncode == 3
    assert done.stderr == (
        f"set-up: Python 3.11 or newer is needed, but {sys.executable} is 3.9.2 and PATH has no newer one; "
        "install Python 3.11 or newer\n"
    )


def test_an_old_python_hands_over_to_a_newer_one_on_path(checkout: Path, run: Run, tmp_path: Path) -> None:
    script = checkout / "tools/bootstrap.py"
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer/python3.14").symlink_to("/bin/false")
    (tmp_path / "newer/python3.11").symlink_to(sys.executable)

    done = run(sys.executable, "-c", AS_PYTHON_3_9, script, "nonsense", PATH=str(tmp_path / "newer"))

    assert (done.returncode, done.stderr) == (2, f"usage: bootstrap.py {'|'.join(TARGETS)}\n")


def test_modules_of_others_do_not_take_the_place_of_its_own(checkout: Path, run: Run, tmp_path: Path) -> None:
    """A stranger's checkout is the current folder, and PYTHONPATH names it: its modules are not run."""
    mark = tmp_path / "was-run"
    for name in ("sitecustomize", "usercustomize", "json", "re", "shutil", "set_up"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    evil = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "json.py")}
    assert run(sys.executable, "-c", "import json", **evil).returncode == 0
    assert mark.exists(), "this is how it would be seen"
    mark.unlink()

    done = run("python3", "-I", checkout / "tools/bootstrap.py", "nonsense", **evil)

    assert (done.returncode, done.stderr) == (2, f"usage: bootstrap.py {'|'.join(TARGETS)}\n")
    assert not mark.exists()


def test_every_program_runs_the_set_up_in_isolation() -> None:
    started = [
        (file.name, line.strip())
        for file in sorted((HOME / "tools").iterdir())
        if file.is_file() and file.read_bytes().startswith(b"#!/bin/sh")
        for line in file.read_text().splitlines()
        if "bootstrap.py" in line and not line.startswith("#")
    ]

    assert len(started) >= 14
    assert [each for each in started if "python3 -I " not in each[1]] == []


def test_without_uv_and_pip_it_says_what_to_install(checkout: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "no-pip").mkdir()
    hide = "import runpy, sys; sys.modules.update(pip=None, ensurepip=None); sys.argv = sys.argv[1:]; "
    hide += "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"

    done = run(sys.executable, "-c", hide, checkout / "tools/bootstrap.py", "uv", PATH=str(tmp_path / "no-pip"))

    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        f"set-up: neither uv nor pip is here: {sys.executable} has no pip and no ensurepip; "
        "install uv, or pip for this Python (Debian and Ubuntu: apt-get install python3-venv)"
    )
    assert holds(checkout) == ["lock"]


@pytest.mark.slow_build
def test_uv_is_installed_where_there_is_none(checkout: Path, run: Run, tmp_path: Path) -> None:
    without_pip = tmp_path / "without-pip"
    assert run(sys.executable, "-m", "venv", "--without-pip", without_pip).returncode == 0

    done = run(without_pip / "bin/python", checkout / "tools/bootstrap.py", "uv", PATH="/usr/bin:/bin")

    assert done.returncode == 0, done.stderr
    pinned = re.search(r"^uv==(\S+)", (checkout / "requirements/uv.txt").read_text(), re.MULTILINE)
    assert pinned
    assert run(done.stdout.strip(), "--version").stdout.split()[1] == pinned[1]


@pytest.mark.slow_build
def test_go_is_installed_where_it_is_too_old(checkout: Path, run: Run, path_with: Callable[..., str]) -> None:
    path = path_with(go="echo go version go1.19.8 linux/amd64")

    done = run(sys.executable, checkout / "tools/bootstrap.py", "lint", PATH=path)

    assert done.returncode == 0, done.stderr
    assert "installing Go" in steps(done.stderr)
    assert os.access(checkout / ".tools/bin/render", os.X_OK)
