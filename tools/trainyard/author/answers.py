"""What the author of a job says, and what is wrong with it."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from trainyard.author.choices import Choices
from trainyard.errors import UsageError
from trainyard.repository.git import tried

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_PATH = re.compile(r"/data(/[^/\s]+)*\Z")
_LONGEST_NAME = 54


class Refused(UsageError):
    """An answer that cannot be taken; its text says why, and what could be."""

    def __init__(self, reason: str, findings: str = "") -> None:
        """`findings`: what the linter says, as it prints it; a note of the error."""
        super().__init__(reason)
        if findings:
            self.add_note(findings)


@dataclass(frozen=True, slots=True)
class Answers:
    """A job, as far as only its author knows it."""

    name: str
    cluster: str
    team: str
    launcher: str
    model: str
    nodes: int
    claim: str
    path: str
    """Folder of the dataset inside the pods."""
    queue: str = ""

    @property
    def folder(self) -> str:
        """Where the job lies."""
        return f"jobs/{self.team}/{self.name}"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the author wants otherwise than it would be proposed."""

    batch: int | None = None
    """Samples of an optimizer step."""
    learning_rate: float | None = None
    steps: int | None = None
    tokens: float | None = None
    sequence: int | None = None
    """Tokens of a sample."""


def check_name(name: str) -> str:
    """A name for a job. Refused where Kubernetes would not take what is named after it."""
    if not _NAME.match(name):
        raise Refused(f"{name!a} is not a valid name: a-z, 0-9 and -, beginning with a letter and not ending with -")
    if len(name) > _LONGEST_NAME:
        raise Refused(f"{name} has {len(name)} characters: at most {_LONGEST_NAME}, since its pods are named after it")
    return name


def check_choice(answer: str, choices: tuple[str, ...], what: str) -> str:
    """One of the names there are."""
    if answer in choices:
        return answer
    if not choices:
        raise Refused(f"there is no {what}")
    near = difflib.get_close_matches(answer, choices, 1)
    said = f"; did you mean {near[0]}?" if near else f": there are {', '.join(choices)}"
    raise Refused(f"there is no {what} {answer!a}{said}")


def check_nodes(answer: str, choices: Choices, cluster: str) -> int:
    """A number of nodes that the cluster has."""
    most = choices.facts(cluster)["Cluster"]["spec"].get("nodes")
    if not answer.isascii() or not answer.isdigit() or len(answer) > 6 or int(answer) < 1:
        raise Refused(f"{answer!a} is not a number of nodes: 1 or more")
    if isinstance(most, int) and int(answer) > most:
        raise Refused(f"{answer} nodes are too many: {cluster} has {most}")
    return int(answer)


def check_path(answer: str) -> str:
    """A folder below /data."""
    if not _PATH.match(answer) or ".." in answer.split("/"):
        raise Refused(f"{answer!a} is not a folder of the dataset claim, which is mounted on /data: say /data/<folder>")
    return answer


def check_new(root: Path, folder: str) -> None:
    """Refused where the folder is there, or a run of that name was: its claim would be found with its checkpoints."""
    if (root / folder).exists() or (root / folder).is_symlink():
        raise Refused(f"{folder} is there already: a job is created once and never edited, so take another name")
    # Without git nobody knows.
    if before := tried(root, "log", "--all", "-1", "--format=%h of %as", "--", f"{folder}/job.yaml"):
        raise Refused(
            f"a job was called {folder} before (commit {before}): one of the same name would go on from its "
            "checkpoints, so take another name"
        )
