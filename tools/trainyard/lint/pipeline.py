"""From targets to findings: the one place where the stages meet."""

import gc
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.cache import Cache, Digests
from trainyard.commandline import Progress
from trainyard.errors import InputError
from trainyard.findings.finding import Finding
from trainyard.gitops.capacity import overbooked
from trainyard.gitops.cluster_folders import entry_targets, told_by_no_job
from trainyard.gitops.exempt import exemptions
from trainyard.gitops.fetched import fetched_otherwise
from trainyard.gitops.synced import altered_lists, synced_otherwise, unsynced
from trainyard.lint.judge import Judge
from trainyard.lint.outcome import Outcome, conclude
from trainyard.lint.result import input_finding
from trainyard.repository.changed import changed_files, resolve
from trainyard.repository.discover import NO_JOB, SETTINGS, STDIN, Discovery, TargetKind
from trainyard.yaml.sources import Sources, decoded

if TYPE_CHECKING:
    from trainyard.lint.settings import Settings
    from trainyard.repository.changed import Range


_GARBAGE = 200_000
"""New objects after which Python looks for garbage: those of a few jobs."""


def lint(
    root: Path,
    found: Discovery,
    *,
    changed: "str | Range | None" = None,
    shard: tuple[int, int] = (1, 1),
    use_cache: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
    stdin: bytes = b"",
    unsaved: Mapping[str, str] | None = None,
) -> Outcome:
    """Judge every target. Input errors are findings too, with `input_error` set, and stop their own target only.

    `unsaved` are texts that stand for those of files that are there, by path without symlinks: an editor's.
    Of `shard` (i, n), from 1, every n-th target is judged; what is about no target is told by the first.
    UsageError where git does not know `changed`; Fault where a program that is needed is missing or breaks.
    """
    # What a job leaves behind is freed as its last name goes. Cycles are few, and looking for them often is dear.
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    sources = Sources(root, unsaved)
    digests = Digests(root, unsaved)
    own, refused = _own(root, sources)
    images, kubernetes = ((), "") if own is None else (own.images, own.kubernetes)
    cache = Cache(root, digests) if use_cache else None
    judge = Judge(root, sources, digests, cache, workers, progress, images=images, kubernetes=kubernetes)
    applied = entry_targets(root) if found.whole else []
    named = {target.name for target in found.targets}
    everything = [*found.targets, *(target for target in applied if target.name not in named)]
    targets, errors = everything, list(found.errors)
    if any(target.name == STDIN for target in targets):
        try:
            sources.add(STDIN, decoded(stdin, STDIN))
        except InputError as error:
            errors.append(error)
            targets = [target for target in targets if target.name != STDIN]
    number, count = shard
    targets = targets[number - 1 :: count]
    others = {target.name for target in everything} - {target.name for target in targets}
    errors = errors if number == 1 else []
    edits: list[Finding] = []
    if changed is not None:
        from trainyard.gitops.edited import edited_jobs

        range = resolve(root, changed) if isinstance(changed, str) else changed
        differing = changed_files(root, range)
        if not judge.is_linter(differing) and SETTINGS not in differing:
            targets = [target for target in targets if judge.touched(target, differing)]
        if found.whole:
            errors = [error for error in errors if _left_by(root, error.file, differing)]
        jobs = [target.name for target in targets if target.kind is TargetKind.JOB]
        edits = edited_jobs(root, range, jobs, sources)
    folders = [target.name for target in found.targets if target.kind is TargetKind.JOB]
    if changed is not None:
        folders = synced_otherwise(folders, differing)
    beside = unsynced(root, folders, sources, whole=found.whole and number == 1)
    beside += altered_lists(root, [target.name for target in targets], sources)
    if count > 1:
        beside = [finding for finding in beside if others.isdisjoint(finding.jobs)]
    if found.whole and number == 1:
        jobs = [target.name for target in everything if target.kind is not TargetKind.MANIFESTS]
        beside += fetched_otherwise(root, jobs, sources)
    if found.whole:
        jobs = [target.name for target in targets if target.kind is TargetKind.JOB]
        beside += overbooked(root, jobs, sources, changed=changed is not None)
    judgements = told_by_no_job(judge.judgements(targets), {target.name for target in applied}, sources)
    exempt = exemptions(root, sources)
    beside += exempt.findings
    errors += refused
    unread = [input_finding(error, error.file) for error in (*errors, *exempt.errors)]
    whole = found.whole and changed is None and count == 1 and not errors
    uncounted = {target.name for target in applied}
    outcome = conclude(sources, unread + edits + beside, judgements, whole, uncounted, exempt.entries)
    if own is not None:
        from trainyard.lint.settings import settled
        from trainyard.rules.index import all_rules

        outcome = settled(own, outcome, all_rules(), whole=whole)
    if not outcome.units:
        none = NO_JOB if changed is None else f"no job reads what changed since {range.text}"
        return replace(outcome, note=none)
    return outcome


def _own(root: Path, sources: Sources) -> "tuple[Settings | None, list[InputError]]":
    """The settings of a repository, where it has any, or why they cannot be read."""
    if not sources.is_file(SETTINGS):
        return None, []
    from trainyard.lint.settings import settings

    try:
        return settings(root, sources), []
    except InputError as error:
        return None, [error]


def _left_by(root: Path, path: str, differing: frozenset[str]) -> bool:
    """True where a change is why something cannot be judged. What the change deletes altogether is none."""
    if not any(file == path or file.startswith(f"{path}/") for file in differing):
        return False
    try:
        return any(not name.startswith(".") for name in os.listdir(root / path))
    except OSError:
        return os.path.lexists(root / path)
