"""What is judged where documents are open: what reads them, and nothing else."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from trainyard.cache import Cache, Digests
from trainyard.errors import InputError, UsageError
from trainyard.gitops.cluster_folders import entry_targets
from trainyard.lint.judge import Judge
from trainyard.repository.discover import (
    Discovery,
    Target,
    TargetKind,
    discover,
    has_kustomization,
    is_job_place,
    is_trainyard,
)
from trainyard.repository.survey import is_manifest, survey
from trainyard.yaml.sources import Sources


def reading(root: Path, documents: Collection[str], unsaved: Mapping[str, str]) -> Discovery:
    """The targets that read any of the documents, which are paths below `root`, with the errors of what is no target.

    Of a document in a job folder, that job; of any other, every job or kustomization that it is a part of. A manifest
    that none reads is a target itself, unless it may be a patch or a template, and what is no manifest is none.
    """
    sources, digests = Sources(root, unsaved), Digests(root, unsaved)
    judge = Judge(root, sources, digests, Cache(root, digests), None, None)
    targets: dict[str, Target] = {}
    errors: dict[str, InputError] = {}
    for document in sorted(documents):
        found = _own(root, document)
        if found is None:
            here = frozenset((document,))
            found = _all(root, document, sources)
            found = Discovery(tuple(each for each in found.targets if judge.touched(each, here)), (), whole=False)
            if not found.targets and is_manifest(sources, document) and _stands_alone(root, document):
                found = discover([document], root, root)
        targets |= {target.name: target for target in found.targets}
        errors |= {str(error): error for error in found.errors}
    return Discovery(tuple(targets.values()), tuple(errors.values()), whole=False)


def _own(root: Path, document: str) -> Discovery | None:
    """The job whose folder a document lies in, whether that can be judged or not; None where it lies in none."""
    trainyard = is_trainyard(root)
    for folder in Path(document).parents:
        name = folder.as_posix()
        in_place = trainyard and is_job_place(name)
        if not in_place and not (has_kustomization(root / folder) and os.path.isfile(root / folder / "job.yaml")):
            continue
        found = discover([name], root, root)
        if in_place or any(target.kind is TargetKind.JOB for target in found.targets):
            return found
    return None


def _all(root: Path, document: str, sources: Sources) -> Discovery:
    """Everything that may read a document."""
    if is_trainyard(root):
        jobs = discover([], root, root)
        return Discovery((*jobs.targets, *entry_targets(root)), (), whole=False)
    try:
        return survey(root, [document], sources)
    except UsageError:  # under no version control
        folders = [folder.as_posix() for folder in Path(document).parents if has_kustomization(root / folder)]
        return Discovery(tuple(Target(name, TargetKind.KUSTOMIZATION) for name in folders), (), whole=False)


def _stands_alone(root: Path, document: str) -> bool:
    """False in hidden folders, in Helm charts, whose templates are not YAML, and for what may be a patch."""
    folders = Path(document).parents
    hidden = any(part.startswith(".") for part in Path(document).parts)
    return not (
        hidden
        or has_kustomization(root / folders[0])
        or any((root / each / "Chart.yaml").is_file() for each in folders)
    )


def below(root: Path, path: str) -> str | None:
    """The path of a file below the root, without symlinks; None for what lies elsewhere or is no file."""
    real, base = os.path.realpath(path), os.path.realpath(root)
    if not real.startswith(base + os.sep) or not os.path.isfile(real):
        return None
    return os.path.relpath(real, base)
