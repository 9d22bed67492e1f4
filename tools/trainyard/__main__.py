"""`python -m trainyard COMMAND ...`: the one program behind the commands of tools/."""

import gc
import importlib
import signal
import sys
from types import FrameType

COMMANDS = {
    "bench-report": "benchreport.command",
    "diff-jobs": "diff.command",
    "lint-jobs": "lint.cli",
    "list-jobs": "repository.listed",
    "new-job": "author.command",
    "plan-job": "plan.command",
    "rehearse-job": "rehearse.command",
    "verify-jobs": "verify.command",
}
"""The module whose `main` is a command, below this package. tools/COMMAND makes the Python that each needs."""


def main() -> int:
    """Run the command that the first argument names. Returns its exit code."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if name not in COMMANDS:
        print(f"trainyard: {f'no command is called {name}' if name else 'which command?'}; {_usage()}", file=sys.stderr)
        return 2
    if name == "lint-jobs":
        # Nearly nothing there refers to itself: looking for what does took an eighth of a run and freed nothing.
        gc.disable()
    command = importlib.import_module(f"trainyard.{COMMANDS[name]}")
    code: int = command.main(sys.argv[2:])
    return code


def _usage() -> str:
    return f"usage: python -m trainyard {{{','.join(COMMANDS)}}} ...; each has --help"


def _stop(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(128 + number)


if __name__ == "__main__":
    try:
        signal.signal(signal.SIGTERM, _stop)
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
