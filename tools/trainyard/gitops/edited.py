"""A job is created once: what changes in a folder that the base branch already has does not reach it, or harms it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Place, Severity
from trainyard.kustomize.kustomization import join
from trainyard.repository.changed import Range, file_at
from trainyard.rules.registry import declare
from trainyard.yaml.nodes import Node, load_documents
from trainyard.yaml.sources import Sources

EDITED = declare(
    "GIT008",
    "edited-job",
    Severity.ERROR,
    """A job that the base branch already has is edited under its old name.

    A job's pods are made once, from the manifests it was created with: Argo CD and Flux are told to leave it alone
    afterwards, and the API server refuses another pod template. The edit would be merged and change nothing.
    Another base or cluster in its kustomization.yaml is worse: what the new base makes comes beside what the old one
    made, on the same claim, and a cluster that is left deletes the run.
    Copy the folder under a new name instead; delete the old folder when its run has ended.

    Judged only with `--changed BASE`, where BASE is another commit than the one checked out.

    Bad:
        # job.yaml, which BASE has with nodes: 4
        metadata: {name: llama-8b-sft}
        spec: {nodes: 8}

    Good:
        # job.yaml in a new folder
        metadata: {name: llama-8b-sft-8n}
        spec: {nodes: 8}

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
    """,
)


def edited_jobs(root: Path, range: Range, jobs: Sequence[str], sources: Sources) -> list[Finding]:
    """A finding for each of `jobs`, which are folders, that the base branch has otherwise."""
    if range.starts_at_head:
        return []
    found = []
    for job in jobs:
        if (change := _edit(root, range, job, sources) or _move(root, range, job, sources)) is None:
            continue
        what, place = change
        message = f"{what}, but the job of that name was created from what {range.text} has"
        help = "copy the folder under a new name: a job is created once and never edited"
        found.append(Finding(EDITED.id, EDITED.name, EDITED.severity, message, place, help=help, jobs=(job,)))
    return found


def _edit(root: Path, range: Range, job: str, sources: Sources) -> tuple[str, Place] | None:
    """A job.yaml that says something else under the same name."""
    documents = _both(root, range, f"{job}/job.yaml", sources)
    if documents is None:
        return None
    old, new = documents[0].plain(), documents[1]
    name = new.at(("metadata", "name"))
    if old == new.plain() or name is None or _name(old) != name.value:
        return None
    return f"{name.value} is edited", Place(f"TrainingJob/{name.value}", "metadata.name", name.mark, _THERE)


def _move(root: Path, range: Range, job: str, sources: Sources) -> tuple[str, Place] | None:
    """A kustomization.yaml that leaves a base or a cluster; a base that was deleted or renamed is not a move."""
    documents = _both(root, range, f"{job}/kustomization.yaml", sources)
    old, new = (document.at(("resources",)) for document in documents) if documents else (None, None)
    if old is None or new is None or type(old.value) is not list or type(new.value) is not list:
        return None
    kept = [entry.value for entry in new.value]
    left = [str(entry.value) for entry in old.value if entry.value not in kept and _is_there(job, entry, sources)]
    if not left:
        return None
    before = [entry.value for entry in old.value]
    mark = next((entry.mark for entry in new.value if entry.value not in before), new.key_mark or new.mark)
    return f"{job.rpartition('/')[2]} leaves {' and '.join(left)}", Place("", "", mark, _THERE)


_THERE = "this run exists already"


def _is_there(job: str, entry: Node, sources: Sources) -> bool:
    return type(entry.value) is str and sources.is_folder(join(job, entry.value))


def _both(root: Path, range: Range, file: str, sources: Sources) -> tuple[Node, Node] | None:
    """A file's first document in the base branch and now; None where either has none."""
    before = file_at(root, range.base, file)
    if before is None:
        return None
    try:
        return load_documents(before, file)[0], sources.documents(file)[0]
    except (InputError, IndexError):
        return None


def _name(job: Any) -> Any:
    metadata = job.get("metadata") if isinstance(job, dict) else None
    return metadata.get("name") if isinstance(metadata, dict) else None
