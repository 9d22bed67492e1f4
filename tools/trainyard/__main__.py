"""`trainyard COMMAND ...`: the one program behind the commands of tools/, and that of the installed package."""

import gc
import importlib
import signal
import sys
from types import FrameType

from trainyard import __version__
from trainyard.home import HOME, IS_INSTALLED

COMMANDS = {
    "bench-report": "benchreport.command",
    "diff-jobs": "diff.command",
    "lint-jobs": "lint.cli",
    "list-jobs": "repository.list_command",
    "new-job": "author.command",
    "plan-job": "plan.command",
    "rehearse-job": "rehearse.command",
    "verify-jobs": "verify.command",
}
"""The module whose `main` is a command, below this package. tools/COMMAND makes the Python that each needs."""
OF_A_CHECKOUT = ("bench-report", "rehearse-job", "verify-jobs")
"""Commands that need more than a package can carry: a PyTorch, a sandbox, an API server."""
SHORT = {name.removesuffix("-jobs").removesuffix("-job"): name for name in COMMANDS}
"""What a command may be called as well: `lint` is `lint-jobs`."""
OF_LINT = ("explain", "export-policy", "rules")
"""Subcommands of lint-jobs that may stand alone."""
OF_A_PACKAGE = {"upgrade": "upgrade.command"}
"""Commands for repositories that use the package and are no forks, and their modules; tools/ has none of them."""


def main() -> int:
    """Run the command that the first argument names. Returns its exit code."""
    word, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if word in ("-h", "--help"):
        print(_usage())
        return 0
    if word == "--version":
        print(f"trainyard {__version__}")
        return 0
    if IS_INSTALLED and word == "completion":
        return _completion(rest)
    name, arguments = ("lint-jobs", [word, *rest]) if word in OF_LINT else (SHORT.get(word, word), rest)
    if name not in COMMANDS and name not in OF_A_PACKAGE:
        print(f"trainyard: {f'no command is called {word}' if word else 'which command?'}; {_usage()}", file=sys.stderr)
        return 2
    if IS_INSTALLED and name in OF_A_CHECKOUT:
        print(f"trainyard: {word} needs a checkout of Trainyard: run tools/{name} there", file=sys.stderr)
        return 2
    if name == "lint-jobs":
        # Nearly nothing there refers to itself: looking for what does took an eighth of a run and freed nothing.
        gc.disable()
    command = importlib.import_module(f"trainyard.{(COMMANDS | OF_A_PACKAGE)[name]}")
    code: int = command.main(arguments)
    return code


def console() -> None:
    """Run, and end the process with the exit code: 130 where it is stopped."""
    try:
        signal.signal(signal.SIGTERM, _stop)
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


def _completion(arguments: list[str]) -> int:
    """Print what makes a shell complete the command line: `eval "$(trainyard completion bash)"`."""
    scripts = {file.name: file for file in (HOME / "completion").iterdir()}
    if len(arguments) != 1 or arguments[0] not in scripts:
        print(f"trainyard: usage: trainyard completion {{{','.join(sorted(scripts))}}}", file=sys.stderr)
        return 2
    print(scripts[arguments[0]].read_text())
    return 0


def _usage() -> str:
    known = [short for short, name in SHORT.items() if not (IS_INSTALLED and name in OF_A_CHECKOUT)]
    own = ["completion", *OF_A_PACKAGE] if IS_INSTALLED else []
    return f"usage: trainyard {{{','.join(sorted([*known, *OF_LINT, *own]))}}} ...; each has --help"


def _stop(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(128 + number)


if __name__ == "__main__":
    console()
