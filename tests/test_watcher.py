"""A test that never ends, or ends its process, ends the run with its name: real runs, set up as those of this one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[1]
LANES = re.findall(r'^lanes="(.*)"$', (HOME / "tools/test").read_text(), re.MULTILINE)[0].split()
MODULE = """\
import os, signal, time

def test_before(): pass

def test_harm():
    {}

def test_after(): pass
"""
ENDED = "was running when its process ended"
MEMORY = "needs more than 200 MiB of memory: its process is ended"
HANGS = "Timeout (0:00:02)!"
HARM = {
    "memory, bit by bit": ("held = [b'x' * (1 << 20) for _ in range(1 << 14)]", MEMORY),
    "memory at once": ("held = 'x' * (1 << 31); time.sleep(600)", MEMORY),
    "a killer": ("os.kill(os.getpid(), signal.SIGKILL)", ENDED),
    "an exit": ("os._exit(9)", ENDED),
    "a crash": ("import ctypes; ctypes.string_at(0)", ENDED),
    "a wait": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600) # for ever", HANGS),
    "a computation that lets nothing else run": ("7 ** 10**9 # for ever", HANGS),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose tests are set up as those here, with bounds that are soon hit."""
    (tmp_path / "tests").mkdir()
    conftest = (HOME / "tests/conftest.py").read_text()
    small = re.sub("(?m)^MEMORY = .*", "MEMORY = 200 << 20", conftest)
    assert small != conftest
    (tmp_path / "tests/conftest.py").write_text(small)
    for name in ("by_day.py", "watcher.py"):
        (tmp_path / "tests" / name).write_text((HOME / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text((HOME / "pyproject.toml").read_text())
    return tmp_path


def run(project: Path, harm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (project / "tests/test_more.py").write_text(MODULE.format("pass"))
    (project / "tests/test_some.py").write_text(MODULE.format(harm))
    seconds = 2 if "# for ever" in harm else 250
    command = [sys.executable, "-m", "pytest", "-o", f"faulthandler_timeout={seconds}", *arguments]
    return subprocess.run(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )


@pytest.mark.parametrize("name", HARM)
def test_a_run_in_one_process(project: Path, name: str) -> None:
    harm, words = HARM[name]

    done = run(project, harm)

    assert done.returncode != 0
    assert words in done.stdout
    assert "tools/test: tests/test_some.py::test_harm" in done.stdout


@pytest.mark.parametrize("name", ["memory, bit by bit", "an exit", "a wait"])
def test_a_run_in_a_process_a_core(project: Path, name: str) -> None:
    """The test is run once, and those of other files are run as well."""
    harm, words = HARM[name]

    done = run(project, harm, "--numprocesses=2", *LANES[2:])

    assert LANES[:2] == ["--numprocesses", "logical"]
    assert words in done.stdout
    assert "tools/test: tests/test_some.py::test_harm" in done.stdout
    assert "crashed while running 'tests/test_some.py::test_harm'" in done.stdout
    assert "1 failed, 4 passed" in done.stdout.splitlines()[-1]
    assert done.returncode == 1


def test_a_run_in_which_nothing_happens(project: Path) -> None:
    done = run(project, "pass")

    assert (done.returncode, "tools/test:" in done.stdout) == (0, False)
