"""How the other commands end: plan-job stands for all, since one module ends them."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard import commandline
from trainyard.errors import Fault, InputError, UsageError

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[2]
PLAN = [sys.executable, "-P", "-m", "trainyard", "plan-job"]
TOOLS = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HOME / "tools")}


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no such\x1bthing"), 2, "tool: no such\\x1bthing\n"),
        (InputError("is empty", "job.yaml", 3, 1, "write it"), 2, "tool: job.yaml:3:1: is empty\n  help: write it\n"),
        (Fault("it is broken"), 3, "tool: fault: it is broken\n"),
        (KeyboardInterrupt(), 130, "tool: interrupted\n"),
        (ZeroDivisionError("oh"), 3, "tool: fault: ZeroDivisionError: oh (LINT_JOBS_TRACEBACK=1 shows where)\n"),
    ],
)
def test_an_error_is_a_line_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commandline.run("tool", lambda: raising(error)) == code
    assert capsys.readouterr() == ("", said)


def test_the_traceback_of_a_fault_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINT_JOBS_TRACEBACK", "1")

    with pytest.raises(ZeroDivisionError):
        commandline.run("tool", lambda: raising(ZeroDivisionError()))


def test_signals_interrupt_unless_they_are_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    def told(number: signal.Signals) -> int:
        signal.raise_signal(number)
        return 0

    before, terminated = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.getsignal(signal.SIGTERM)
    try:
        assert commandline.run("tool", lambda: told(signal.SIGTERM), "interrupted; nothing is lost") == 130
        assert commandline.run("tool", lambda: told(signal.SIGHUP)) == 0
        assert signal.getsignal(signal.SIGTERM) is terminated
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capsys.readouterr().err == "tool: interrupted; nothing is lost\n"


def test_the_reader_may_leave_and_the_code_stands() -> None:
    for arguments in (["--help"], ["--score", "schemas/hardware/published-runs.yaml"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [*PLAN, *arguments], cwd=HOME, env=TOOLS, stdout=writer, stderr=subprocess.PIPE, check=False
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PLAN, "--help"], cwd=HOME, env=TOOLS, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (done.returncode, done.stderr) == (2, "plan-job: cannot write to standard output: no space left on device\n")


def test_a_full_temporary_folder_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fill() -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill_while_copying() -> int:
        words = f"[Errno {errno.ENOSPC}] No space left on device: 'a' -> 'b'"
        raise shutil.Error([("a", "b", words), ("c", "d", words)])

    for work in (fill, fill_while_copying):
        assert commandline.run("new-job", work) == 3
        assert capsys.readouterr().err == (
            "new-job: fault: no space left on device; set TMPDIR to a folder with room "
            "(LINT_JOBS_TRACEBACK=1 shows where)\n"
        )


@pytest.mark.parametrize("text", ["0", "11", "1.5", "many"])
def test_counts(text: str) -> None:
    assert commandline.count(10)("10") == 10
    with pytest.raises(ValueError, match=text):
        commandline.count(10)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_numbers(text: str) -> None:
    assert commandline.number("rate")("2e-5") == 2e-5
    with pytest.raises(ValueError, match=text):
        commandline.number("rate")(text)


def test_a_number_has_bounds() -> None:
    tokens = commandline.number("number of tokens", least=1, most=1e18)
    assert (tokens("1"), tokens("1e18")) == (1, 1e18)
    for text in ("0.5", "2e18"):
        with pytest.raises(ValueError, match=text):
            tokens(text)
