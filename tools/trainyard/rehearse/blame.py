"""What pods say that went wrong: the last line of an exception, the cause that mpirun tells, a line like an error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RANK = re.compile(r"(?:\[(?:rank|default)?\d+\]:\s?|\[\d+,\d+\]<std(?:err|out)>:\s?)?")
_TRACEBACK = "Traceback (most recent call last)"
_GOES_ON = ("During handling of the above exception", "The above exception was the direct cause")
_RULE = re.compile(r"-{70,}\Z")
_ERROR = re.compile(
    r"(?:^|[\]\s|])(?:error|fatal|[A-Za-z_.]*(?:Error|Exception|Exit)|[a-z]+: .*(?:not found|No such file))\b.*"
)
_HINT = re.compile(r"(?i)not enough|cannot |could not|unable to|denied|refused|not found|No such")
_CONSEQUENCES = (
    "ChildFailedError",
    "another rank is gone",
    "SignalException",
    "Connection closed by peer",
    "PeerLost",
    "ORTE_ERROR_LOG",
    "PRTE ERROR",
    "internal error has occurred in",
    "Primary job  terminated normally",
    "mpirun has exited due to process rank",
    "mpirun noticed that process rank",
    "prterun has exited due to process rank",
    "was invoked on rank",
)
"""What a program says because another has failed, or itself before."""
_SHARED_MEMORY = re.compile(
    r"(?i:\bbus error\b)|(?:Signals\.|\()SIGBUS\b|No space left on device: '/dev/shm|shared memory segment /dev/shm/"
    r"|unable to (?:allocate shared memory|mmap\b|write to file </torch_)"
)
_MOST = 40
_LONGEST_BLOCK = 40
_QUOTED_LINES = 3


def is_of_shared_memory(text: str) -> bool:
    """Whether a line says that /dev/shm is full, or tells of the signal that ends a process then.

    A list of what may have ended a process, such as Ray prints ("SIGSEGV or SIGBUS"), says neither.
    """
    return bool(_SHARED_MEMORY.search(text))


@dataclass(slots=True)
class _Reading:
    """Where in a pod's output it is."""

    traceback: bool = False
    block: list[str] | None = None
    """Lines since a rule, such as mpirun draws above and below what it has to say."""


@dataclass(slots=True)
class Blame:
    """The first lines of pods that name an error."""

    errors: list[tuple[str, str]] = field(default_factory=list)
    """Pod and text."""
    hints: list[tuple[str, str]] = field(default_factory=list)
    """The same of lines that only sound like one."""
    last: dict[str, str] = field(default_factory=dict)
    """The last line of each pod."""
    reading: dict[tuple[str, str], _Reading] = field(default_factory=dict)
    """By pod and by the mark of the rank that a line begins with."""

    def line(self, pod: str, text: str) -> None:
        """One line of a pod's output."""
        plain = _ANSI.sub("", text)
        rank = _RANK.match(plain)
        bare = plain[rank.end() :] if rank else plain
        at = self.reading.setdefault((pod, rank[0] if rank else ""), _Reading())
        if bare.strip(" -=*"):
            self.last[pod] = bare.strip()
        if _TRACEBACK in bare:
            at.traceback, at.block = True, None
        elif at.traceback:
            self._in_traceback(pod, bare, at)
        elif _RULE.match(bare.strip()):
            self._rule(pod, at)
        elif at.block is not None:
            at.block.append(bare)
            if len(at.block) > _LONGEST_BLOCK:
                self._never_closed(pod, at)
        else:
            self._alone(pod, bare)

    def of(self, pods: Sequence[str]) -> tuple[str, str] | None:
        """Of some pods the one that first named an error, and its words; None where none said anything."""
        for (pod, _), at in self.reading.items():
            self._never_closed(pod, at)
        for told in (self.errors, self.hints):
            for pod, text in told:
                if pod in pods:
                    return pod, text
        return next(((pod, self.last[pod]) for pod in pods if pod in self.last), None)

    def _in_traceback(self, pod: str, bare: str, at: _Reading) -> None:
        """Source lines are indented; the first line that is not says what was raised."""
        if not bare.strip() or bare.startswith((" ", "\t", "|", "+")) or bare.startswith(_GOES_ON):
            return
        at.traceback = False
        self._tell(self.errors, pod, bare)

    def _rule(self, pod: str, at: _Reading) -> None:
        lines = at.block
        if lines is None:
            at.block = []
            return
        at.block = None
        paragraphs = "\n".join(line.strip() for line in lines).strip().partition("\n\n")
        whole = " ".join(paragraphs[0].splitlines()[:_QUOTED_LINES])
        if whole:
            self._tell(self.errors if _HINT.search(whole) or _ERROR.search(whole) else self.hints, pod, whole)

    def _never_closed(self, pod: str, at: _Reading) -> None:
        """It was only a line across the page."""
        for line in at.block or ():
            self._alone(pod, line)
        at.block = None

    def _alone(self, pod: str, bare: str) -> None:
        if _ERROR.search(bare):
            self._tell(self.errors, pod, bare)
        elif _HINT.search(bare):
            self._tell(self.hints, pod, bare)

    def _tell(self, told: list[tuple[str, str]], pod: str, text: str) -> None:
        if len(told) < _MOST and not any(word in text for word in _CONSEQUENCES):
            told.append((pod, text.strip()))
