"""list-jobs: which jobs a cluster has, and the list of them that its Flux reads, since Flux finds none by itself."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.yaml.nodes import Node
from trainyard.yaml.scalars import resolve
from trainyard.yaml.sources import Sources

JOB_FILES = ("kustomization.yaml", "job.yaml")
"""What a job folder holds. The first names its cluster."""

PARTS = ("base", "overlays", "clusters", "jobs")
"""What jobs and platforms are made of."""

HEAD = "# Written by tools/list-jobs from the job folders below jobs/: Flux has no generator that would find them.\n"

_ENTRY = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: {name}
  namespace: {team}
spec:
  path: ./{folder}
"""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_PATH = re.compile(r"^  path: \./(\S+)$", re.MULTILINE)
_FACTS = re.compile(r"\.\./\.\./\.\./clusters/([a-z0-9-]+)/facts\Z")
_AS_ALWAYS = re.compile(
    r"^resources:\n- [\w./-]+(?: +#.*)?\n- \.\./\.\./\.\./clusters/([a-z0-9-]+)/facts(?: +#.*)?$(?!\n[ \t])",
    re.MULTILINE,
)
"""How nearly every job names its cluster: found without parsing YAML."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job folder, and where it runs."""

    folder: str
    """jobs/<team>/<job>."""
    cluster: str

    @property
    def team(self) -> str:
        return self.folder.split("/")[1]

    @property
    def name(self) -> str:
        return self.folder.split("/")[2]


def _is_named_well(folder: str) -> bool:
    return all(_LABEL.match(part) for part in folder.split("/")[1:])


def is_in_place(folder: str) -> bool:
    """True for jobs/<team>/<job>, the only folders that Argo CD and Flux look at."""
    parts = folder.split("/")
    return len(parts) == 3 and parts[0] == "jobs"


def list_file(cluster: str) -> str:
    """The list that a cluster's Flux reads."""
    return f"clusters/{cluster}/flux/jobs/jobs.yaml"


def clusters(root: Path) -> list[str]:
    """Every cluster, by the name of its folder."""
    folder = root / "clusters"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def clusters_with_flux(root: Path) -> list[str]:
    """The clusters whose jobs are listed for Flux. One that only Argo CD serves has no such folder."""
    return [name for name in clusters(root) if (root / list_file(name)).parent.is_dir()]


def cluster_named(resource: object) -> str | None:
    """The cluster whose facts an entry of a job's `resources` is, spelt as Argo CD's selector compares it."""
    found = _FACTS.match(resource) if isinstance(resource, str) else None
    return found[1] if found else None


def cluster_of(sources: Sources, folder: str) -> str:
    """Where a job runs: on the cluster whose facts are the second of its resources. InputError where they are not."""
    file = f"{folder}/{JOB_FILES[0]}"
    quick = _AS_ALWAYS.findall(sources.text(file))
    if len(quick) == 1:
        return str(quick[0])
    node = _second_resource(sources, file)
    cluster = cluster_named(node.value) if node is not None else None
    if cluster is None:
        position = node.mark if node is not None else None
        line, column = (position.line, position.column) if position else (0, 0)
        message = "the second of its resources must be ../../../clusters/<name>/facts, of the cluster where it runs"
        raise InputError(message, file, line, column)
    return cluster


def cluster_position(sources: Sources, folder: str) -> Position | None:
    """Where a job says on which cluster it runs."""
    node = _second_resource(sources, f"{folder}/{JOB_FILES[0]}")
    return node.mark if node is not None else None


def all_jobs(root: Path, sources: Sources) -> list[Job]:
    """Every job of the repository, by folder. InputError for one that a list cannot name, or without a cluster."""
    found = []
    folders = {file.parent for name in JOB_FILES for file in root.glob(f"jobs/*/*/{name}")}
    for folder in sorted(path.relative_to(root).as_posix() for path in folders):
        if not _is_named_well(folder):
            raise InputError("a team and a job are named like DNS labels: a-z, 0-9 and -", ascii(folder)[1:-1])
        found.append(Job(folder, cluster_of(sources, folder)))
    known = clusters(root)
    for job in found:
        if job.cluster not in known:
            position = cluster_position(sources, job.folder)
            line, column = (position.line, position.column) if position else (0, 0)
            message = f"there is no cluster {job.cluster}: clusters/ holds {', '.join(known) or 'none'}"
            raise InputError(message, f"{job.folder}/{JOB_FILES[0]}", line, column)
    return found


def listing(jobs: Iterable[Job]) -> str:
    """What the list of a cluster with these jobs holds."""
    return HEAD + "---\n".join(map(_entry, jobs))


def altered(text: str) -> int | None:
    """The first line of a list that list-jobs writes otherwise for the jobs that it names; None if it is right."""
    named = sorted({each for each in _PATH.findall(text) if is_in_place(each) and _is_named_well(each)})
    wanted = listing(Job(folder, "") for folder in named)
    if text == wanted:
        return None
    pairs = enumerate(zip(text.split("\n"), wanted.split("\n"), strict=False), start=1)
    return next((number for number, (written, right) in pairs if written != right), text.count("\n") + 1)


def listed(sources: Sources, cluster: str) -> dict[str, Position]:
    """The folders that a cluster's list names, and where; none where it has no list."""
    found = {}
    for number, line in enumerate(sources.lines(list_file(cluster)), start=1):
        if match := _PATH.match(line):
            found[match[1]] = Position(list_file(cluster), number, match.start(1) - 1, len(match[1]) + 2)
    return found


def _second_resource(sources: Sources, file: str) -> Node | None:
    documents = sources.documents(file)
    return documents[0].at(("resources", 1)) if documents else None


def _entry(job: Job) -> str:
    return _ENTRY.format(name=_scalar(job.name), team=_scalar(job.team), folder=job.folder)


def _scalar(name: str) -> str:
    """A name as YAML text: 123 and 1e3 are names too."""
    return name if resolve(name, None, plain=True)[0] == "str" else json.dumps(name)


def is_stale(root: Path, cluster: str, jobs: Sequence[Job]) -> bool:
    """Whether the list of a cluster is missing, or not what `listing` gives."""
    try:
        written = (root / list_file(cluster)).read_text()
    except FileNotFoundError:
        return True
    return written != listing(job for job in jobs if job.cluster == cluster)
