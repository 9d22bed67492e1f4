"""What can go wrong, as types. Each ends as one readable line, never as a traceback."""

from dataclasses import dataclass

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_BAD_INPUT = 2
EXIT_FAULT = 3
EXIT_INTERRUPTED = 130


@dataclass(slots=True)
class InputError(Exception):
    """The input cannot be judged: exit code 2. `line` and `column` count from 1; 0 means the whole file."""

    message: str
    file: str
    line: int = 0
    column: int = 0
    help: str = ""

    def __post_init__(self) -> None:
        if "\n" in self.message:  # a name that a stranger chose
            self.message = " ".join(self.message.split())

    def __str__(self) -> str:
        place = self.file if not self.line else f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.message}"


class UsageError(Exception):
    """The command line asks for something that does not exist: exit code 2."""


class Fault(Exception):
    """The toolkit or its set-up is broken, not the input: exit code 3."""
