"""Exit codes, and how a run ends that is not let finish."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command import GPT2, LLAMA, POD, Repository, command, copied_linter, environment

pytestmark = pytest.mark.commands


@pytest.fixture
def warned(checkout: Repository) -> Repository:
    """A target with a warning and nothing worse."""
    checkout.write("manifests/pod.yaml", POD.replace("kind: Pod", "kind: Podd"))
    return checkout


@pytest.mark.claim("exit-codes")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--fail-on", "warning"], 1),
        (["--fail-on", "info"], 1),
        (["--fail-on", "warning", "--level", "error"], 1),
        (["--level", "error"], 0),
        (["--fail-on", "fatal"], 2),
        (["--workers", "0"], 2),
        (["--workers", "many"], 2),
        (["--worker", "2"], 2),
    ],
)
def test_codes(arguments: list[str], code: int, warned: Repository) -> None:
    done = warned.lint(*arguments, "manifests")

    assert done.returncode == code
    assert ("SCH002" in done.stdout) == (code == 1 or not arguments)
    assert done.stderr.count("\n") == (code == 2)


def test_an_error_and_a_bad_input(checkout: Repository) -> None:
    checkout.replace(f"{GPT2}/job.yaml", "micro: 15", "micro: 16")
    assert checkout.lint().returncode == 1

    (checkout.root / LLAMA / "job.yaml").unlink()
    assert checkout.lint("--level", "error").returncode == 2


def test_in_ci_advice_is_not_shown(checkout: Repository) -> None:
    in_ci = checkout.report("--level", "info", CI="true")["summary"]
    assert in_ci | {"seconds": 0} == checkout.report()["summary"] | {"seconds": 0}
    assert checkout.report(CI="true")["summary"]["infos"] == 0


def test_the_reader_may_leave(checkout: Repository, tmp_path: Path) -> None:
    checkout.write("jobs/research/broken/job.yaml", "")
    for arguments in (["--color", "always"], ["rules"], ["--help"], ["explain", "INP001"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            command(*arguments),
            cwd=checkout.root,
            env=environment(tmp_path),
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(writer)
        assert done.stderr == b""
        assert done.returncode == (2 if arguments[0] == "--color" else 0)


def test_no_standard_output_at_all(checkout: Repository, tmp_path: Path) -> None:
    for close in (">&-", ">&- 2>&-", "<&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {close}', "sh", *command()],
            cwd=checkout.root,
            env=environment(tmp_path),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk(checkout: Repository, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(),
            cwd=checkout.root,
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (
        2,
        "lint-jobs: cannot write to standard output: no space left on device\n",
    )


@pytest.mark.claim("exit-codes")
@pytest.mark.parametrize(
    ("script", "words"),
    [("kill -9 $$", "stopped the renderer (signal 9)"), ("exit 7", "stopped the renderer (exit code 7)")],
)
def test_a_renderer_that_breaks_is_told_of_each_job_and_manifests_are_judged(
    script: str, words: str, checkout: Repository, tmp_path: Path
) -> None:
    linter = copied_linter(tmp_path / "linter")
    (linter / ".tools/bin/render").unlink()
    (linter / ".tools/bin/render").write_text(f"#!/bin/sh\n{script}\n")
    (linter / ".tools/bin/render").chmod(0o755)
    checkout.write("manifests/pod.yaml", POD.replace("kind: Pod", "kind: Podd"))

    done = checkout.lint(GPT2, LLAMA, "manifests", PYTHONPATH=str(linter / "tools"))

    assert (done.returncode, done.stderr) == (3, "")
    first, second, *_, last = done.stdout.splitlines()
    assert first == f"error: {GPT2}: {words}"
    assert second == f"error: {LLAMA}: {words}"
    assert "manifests/pod.yaml" in done.stdout
    assert last.startswith("2 faults of the linter, ")


def test_a_renderer_that_is_missing_is_a_fault_of_the_run(checkout: Repository, tmp_path: Path) -> None:
    linter = copied_linter(tmp_path / "linter")
    (linter / ".tools/bin/render").unlink()

    done = checkout.lint(PYTHONPATH=str(linter / "tools"))

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("lint-jobs: fault: ")
    assert "render is missing" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_rule_that_breaks_is_named_and_its_traceback_can_be_had(checkout: Repository, tmp_path: Path) -> None:
    linter = copied_linter(tmp_path / "linter")
    with (linter / "tools/trainyard/rules/gang/requests.py").open("a") as module:
        module.write(
            "\n@rule('XXX001', 'breaks', Severity.ERROR, needs=Workload)\ndef breaks(workload):\n    '''Page.'''\n"
            "    raise ValueError('::error::\\x1b[31m')\n    yield\n"
        )
    tools = {"PYTHONPATH": str(linter / "tools")}

    done = checkout.lint(GPT2, **tools)

    assert (done.returncode, done.stderr) == (3, "")
    words = r"XXX001 broke: ValueError: ::error::\x1b[31m (LINT_JOBS_TRACEBACK=1 shows where)"
    assert done.stdout == f"error: {GPT2}: {words}\n\n1 fault of the linter in 1 of 1 job\n"
    shown = subprocess.run(
        command(GPT2),
        cwd=checkout.root,
        env=environment(tmp_path) | tools | {"LINT_JOBS_TRACEBACK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in shown.stderr
    assert "in breaks" in shown.stderr


def _children(process: int) -> list[int]:
    """All processes below one."""
    try:
        listed = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
    return [*listed, *(below for child in listed for below in _children(child))]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(how: signal.Signals, checkout: Repository, tmp_path: Path) -> None:
    linter = copied_linter(tmp_path / "linter")
    slow = linter / ".tools/bin/render"
    slow.unlink()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    variables = {"PYTHONPATH": str(linter / "tools"), "TMPDIR": str(tmp_path / "tmp")}
    run = subprocess.Popen(
        command(),
        cwd=checkout.root,
        env=environment(tmp_path) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    children: list[int] = []
    while time.monotonic() < deadline and not any(_is_sleep(child) for child in children):
        time.sleep(0.02)
        children = _children(run.pid)

    run.send_signal(how)
    out, err = run.communicate(timeout=30)

    assert (run.returncode, out, err) == (128 + how, b"", b"lint-jobs: interrupted\n")
    assert children
    assert not [child for child in children if _is_sleep(child)]
    assert list((tmp_path / "tmp").iterdir()) == []


def _is_sleep(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False
