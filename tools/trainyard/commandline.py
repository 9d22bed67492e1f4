"""What all command lines have alike: however a run ends, it is one line and an exit code.

lint-jobs, which starts for every commit, ends its runs itself and takes the rest from here.
"""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from trainyard.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_INTERRUPTED, Fault, InputError, UsageError
from trainyard.home import IS_INSTALLED, as_called

Progress = Callable[[str], None]
"""Is told what is being done, and empty text at the end."""
TRACEBACK = "LINT_JOBS_TRACEBACK"
"""Environment variable that shows where a fault comes from."""


def run(program: str, work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """The exit code of `work`; where it raises, one line on standard error, never a traceback, and the code of that.

    SIGTERM and SIGHUP interrupt it as SIGINT does, so that what it started ends and nothing is left half-written. What
    an InputError says of help, and the notes of any error, follow the line.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _interruptible():
            return work()
    except (UsageError, InputError) as error:
        return _ended(program, str(error), EXIT_BAD_INPUT, error)
    except Fault as error:
        return _ended(program, f"fault: {error}", EXIT_FAULT, error)
    except KeyboardInterrupt:
        return _ended(program, interrupted, EXIT_INTERRUPTED)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        full = _full(error)
        said = f"{full}; set TMPDIR to a folder with room" if full else f"{type(error).__name__}: {error}"
        return _ended(program, f"fault: {said} ({TRACEBACK}=1 shows where)", EXIT_FAULT, error)


class Parser(argparse.ArgumentParser):
    """Takes no abbreviation, shows the epilog as it is written, and refuses a command line in one line."""

    def __init__(self, **settings: Any) -> None:
        """The settings of an ArgumentParser; `prog` is named as in a checkout."""
        for name in ("description", "epilog"):
            settings[name] = as_called(settings.get(name) or "")
        if IS_INSTALLED and "prog" in settings:
            settings["prog"] = as_called(f"tools/{settings['prog']}").removeprefix("tools/")
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """UsageError, which ends the run with code 2."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: Any = None) -> None:
        """On standard output, as `say` does."""
        if file is None:
            say(self.format_help())
        else:
            super().print_help(file)


def judged(parser: argparse.ArgumentParser, arguments: Sequence[str], helped: int) -> int:
    """The exit code of a command line that is read and not followed: `helped` where it asks for help."""

    def judge() -> int:
        try:
            parser.parse_args(arguments)
        except SystemExit:
            return helped
        return 0

    return run(parser.prog, judge)


def count(most: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number from 1 to `most`."""

    def read(text: str) -> int:
        value = int(text)
        if not 1 <= value <= most:
            raise ValueError(text)
        return value

    read.__name__ = "count"
    return read


def number(called: str, most: float = sys.float_info.max, least: float = 0.0) -> Callable[[str], float]:
    """The type of an argument that is a number above 0, from `least` to `most`; `called` is what a refusal calls it."""

    def read(text: str) -> float:
        value = float(text)
        if not (value > 0 and least <= value <= most):
            raise ValueError(text)
        return value

    read.__name__ = called
    return read


@contextmanager
def output() -> Iterator[None]:
    """What is written to standard output in here goes nowhere once its reader has left, which is no error.

    UsageError where it cannot be written for another reason, such as a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"cannot write to standard output: {(error.strerror or 'unknown').lower()}") from None


def say(text: str) -> None:
    """Print text as it is, and at once; the last line ends as others do."""
    with output():
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def progress() -> Progress | None:
    """Shows one live line on a terminal, which empty text takes away; None where standard error is not a terminal."""
    return _live if sys.stderr.isatty() else None


def _live(text: str) -> None:
    sys.stderr.write(f"\r\x1b[2K{text}")
    sys.stderr.flush()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in here, unless they are ignored, as nohup has it."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _full(error: Exception) -> str:
    """The words of the system where an error, or the first of those that shutil gathers, is a full disk or quota."""
    first = error.args[0] if error.args else None
    words = first[0][-1] if isinstance(first, list) and first and isinstance(first[0], tuple) else ""
    for code in (errno.ENOSPC, errno.EDQUOT):
        if isinstance(error, OSError) and (error.errno == code or f"[Errno {code}]" in str(words)):
            return os.strerror(code).lower()
    return ""


def _ended(program: str, text: str, code: int, error: Exception | None = None) -> int:
    from trainyard.report.escape import inert, visible

    print(f"{program}: {inert(visible(text))}", file=sys.stderr)
    if isinstance(error, InputError) and error.help:
        print(f"  help: {inert(visible(error.help))}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(f"\n{note.rstrip()}", file=sys.stderr)
    return code
