"""A job is created once: what is changed in a job.yaml that the base branch already has never reaches it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard.changed import Range, file_at
from trainyard.errors import InputError
from trainyard.finding import Finding, Place, Severity
from trainyard.nodes import load_documents
from trainyard.rules.registry import declare
from trainyard.sources import Sources

EDITED = declare(
    "GIT008",
    "edited-job",
    Severity.ERROR,
    """A job that the base branch already has is edited under its old name.

    A job's pods are made once, from the manifests it was created with: Argo CD and Flux are told to leave it alone
    afterwards, and the API server refuses another pod template. The edit would be merged and change nothing.
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
    """A finding for each of `jobs`, which are folders, whose job.yaml says something else in the base branch."""
    if range.starts_at_head:
        return []
    found = []
    for job in jobs:
        file = f"{job}/job.yaml"
        before = file_at(root, range.base, file)
        if before is None:
            continue
        try:
            old = load_documents(before, file)[0].plain()
            new = sources.documents(file)[0]
        except (InputError, IndexError):
            continue
        name = new.at(("metadata", "name"))
        if old == new.plain() or name is None or _name(old) != name.value:
            continue
        place = Place(f"TrainingJob/{name.value}", "metadata.name", name.mark, "this run exists already")
        message = f"{name.value} is edited, but the job of that name was created from what {range.text} has"
        help = "copy the folder under a new name: a job is created once and never edited"
        found.append(Finding(EDITED.id, EDITED.name, EDITED.severity, message, place, help=help, jobs=(job,)))
    return found


def _name(job: Any) -> Any:
    metadata = job.get("metadata") if isinstance(job, dict) else None
    return metadata.get("name") if isinstance(metadata, dict) else None
