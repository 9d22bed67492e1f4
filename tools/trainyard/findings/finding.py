"""What the linter says: one finding for one cause, and the places it is about."""

from dataclasses import dataclass
from enum import IntEnum

BROKE = "INP002"
"""The rule of findings that stand for a fault of the linter."""


class Severity(IntEnum):
    """How much a finding matters. An error fails or loses data, a warning costs speed or money, info is advice."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The lower-case word that reports print."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a source file. Lines and columns count from 1, in characters; `length` is what a caret underlines."""

    file: str
    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A field that a finding is about: what it is in the rendered object, and where its value was written."""

    object: str
    """kind/namespace/name of the rendered object, kind/name where it has no namespace, empty for a whole file."""
    path: str
    """Field path in the rendered object."""
    position: Position | None
    """Where the value was written; None where that is not known."""
    label: str = ""
    """A few words that stand under the caret."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of a source file and the text that takes its place. Lines and columns count from 1, in characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    """The first character that stays."""
    text: str
    digest: str
    """sha256 of the file that the edit was made for."""


@dataclass(frozen=True, slots=True)
class Fix:
    """How a finding is put right in its source files."""

    says: str
    """One sentence."""
    safe: bool
    """False where the job would mean something else afterwards."""
    edits: tuple[Edit, ...] = ()
    refused: str = ""
    """Why no text can be edited for it, and where to do it by hand; then there are no edits."""


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A part of a job that no rule could judge. It is no finding."""

    job: str
    """Its folder, or the manifest file."""
    what: str
    """What rules would have said something about: `batch`."""
    why: str
    """Why they could not, as a clause."""
    place: Place


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, told once, with the jobs that it reaches."""

    rule: str
    name: str
    severity: Severity
    message: str
    place: Place
    related: tuple[Place, ...] = ()
    help: str = ""
    jobs: tuple[str, ...] = ()
    """Folders (or manifest files) of the jobs that the cause reaches, sorted."""
    input_error: bool = False
    """True where the input could not be judged, which is exit code 2, or 3 where that is the linter's fault."""
    fix: Fix | None = None
    """None where the rule knows none."""
