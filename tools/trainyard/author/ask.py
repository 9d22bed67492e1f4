"""Questions on a terminal. A bad answer is asked again, with the reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trainyard.author.answers import Refused
from trainyard.errors import UsageError
from trainyard.report.escape import inert, visible

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Asker:
    """Where answers come from: flags first, then the terminal, where there is one."""

    terminal: bool
    read: Callable[[str], str] = input

    def answer(
        self,
        flag: str,
        given: str | None,
        question: str,
        check: Callable[[str], Value],
        *,
        default: str = "",
        choices: Sequence[str] = (),
    ) -> Value:
        """One answer, checked. UsageError where there is no terminal to ask and the flag is missing or refused."""
        if given is not None:
            try:
                return check(given)
            except Refused as error:
                if not self.terminal:
                    raise UsageError(f"{flag}: {error}") from None
                self.tell(str(error))
        if not self.terminal:
            if default:
                return check(default)
            raise UsageError(f"{flag} is missing, and standard input is not a terminal where it could be asked for")
        if len(choices) > 1:
            self.tell(f"{question}: {', '.join(choices)}")
        while True:
            said = self.read(f"{question}{f' [{default}]' if default else ''}: ").strip() or default
            try:
                return check(said)
            except Refused as error:
                self.tell(str(error))

    def tell(self, text: str) -> None:
        """A line between questions."""
        print(f"  {inert(visible(text))}", flush=True)
