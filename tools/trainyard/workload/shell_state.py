"""A shell between two commands of a script: its last exit code, variables, options, trap and jobs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trainyard.workload.model import Word

_STATUS = re.compile(r"\$(?:\?|\{\?\})\Z")
_OF_PIPE = re.compile(r"\$\{PIPESTATUS\[(\d{1,3})\]\}\Z")
_JOB = re.compile(r"\$(?:!|\{!\})\Z")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))\Z")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)\Z")


class UnknownError(Exception):
    """Nobody can tell without running it."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a command ended."""

    code: int | None
    """None where that is not known."""
    sure: bool = True
    """False where a program that nothing is known of is taken to have succeeded."""
    way: str = ""
    """What set it last: pipe, or, after, exit, background, wait, condition, not, trap."""
    by: str = ""
    """The words that did."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command in the background, where its process id is meant."""

    status: Status


Value = str | Status | Job


@dataclass(frozen=True, slots=True)
class State:
    """A shell between two commands."""

    status: Status = Status(0)
    pipe: tuple[Status, ...] = ()
    errexit: bool = False
    pipefail: bool = False
    failed: bool = False
    """True once the launcher ran, and failed."""
    followed: bool = False
    """True where a program that nothing is known of ran behind it."""
    ended: str = ""
    """exit, return, break or continue, on the way out of what each of them leaves."""
    variables: tuple[tuple[str, Value], ...] = ()
    """Those whose value is known here. The environment is not among them."""
    at_exit: Word | None = None
    """The script of the trap on EXIT."""
    jobs: tuple[Status, ...] = ()

    def having(self, code: int | None, way: str = "", by: str = "", *, sure: bool = True) -> "State":
        """The state after a command that ended so."""
        status = Status(code, sure, way, by)
        return replace(self, status=status, pipe=(status,))

    def assigned(self, name: str, value: Value | None) -> "State":
        """The state with a variable, None for a value that is not known."""
        others = tuple(pair for pair in self.variables if pair[0] != name)
        return replace(self, variables=others if value is None else (*others, (name, value)))


def value_of(state: State, word: Word) -> Value | None:
    """What a word of a script comes to, where it is plain or a variable that is followed."""
    written = word.written
    for quote in ("'", '"'):
        if len(written) > 1 and written[0] == written[-1] == quote:
            written = written[1:-1]
    if _STATUS.match(written):
        return state.status
    if _JOB.match(written):
        return Job(state.jobs[-1]) if state.jobs else None
    if match := _OF_PIPE.match(written):
        return state.pipe[int(match[1])] if int(match[1]) < len(state.pipe) else None
    if match := _VARIABLE.match(written):
        return dict(state.variables).get(match[1] or match[2])
    return None if re.search(r"[$`*?\'\"\\]", written) else written


def status_of(state: State, word: Word) -> Status:
    value = value_of(state, word)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return Status(int(value) % 256)
    return value if isinstance(value, Status) else Status(None)


def text_of(value: Value | None) -> str | None:
    """A value as a test compares it."""
    if isinstance(value, Status):
        return None if value.code is None else str(value.code)
    return value if isinstance(value, str) else None


def assigned(state: State, words: Iterable[Word]) -> State:
    """Variables that get the values which words such as `code=$?` give them."""
    for word in words:
        match = _ASSIGNED.match(word.written or word.text)
        if match is None:
            continue
        value = None if match[2] else value_of(state, replace(word, written=match[3]))
        state = state.assigned(match[1], "" if match[3] == "" and not match[2] else value)
    return state


def with_options(state: State, words: Sequence[str]) -> State:
    """The options that `set` and a shell's own command line turn on and off."""
    names = iter(words)
    for word in names:
        on = word.startswith("-")
        if word in ("--", "-") or not word.startswith(("-", "+")):
            break
        if word.startswith("--"):
            continue
        if "e" in word:
            state = replace(state, errexit=on)
        if "o" in word or "O" in word:
            named = next(names, "")
            state = replace(state, errexit=on) if named == "errexit" else state
            state = replace(state, pipefail=on) if named == "pipefail" else state
    return state


def trapped(state: State, words: Sequence[Word]) -> State:
    signals = {word.text.upper().removeprefix("SIG") for word in words[1:]}
    if "ERR" in signals and "exit" in words[0].text:
        raise UnknownError
    if not signals & {"EXIT", "0"}:
        return state
    return replace(state, at_exit=words[0] if words[0].text not in ("", "-") else None)


def waited(state: State, words: Sequence[Word]) -> Status:
    if not words:
        return Status(0, way="wait", by="wait")
    found = [value_of(state, word) for word in words]
    return found[-1].status if isinstance(found[-1], Job) and None not in found else Status(None)
