"""`lint-jobs --fix` and `--diff`: what is fixed, in the files or only shown."""

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainyard.commandline import Progress
from trainyard.errors import Fault, InputError
from trainyard.findings.finding import Finding
from trainyard.fixes import apply
from trainyard.fixes.rounds import FixResult, Rounds
from trainyard.gitops.cluster_folders import entry_targets
from trainyard.kustomize.kustomization import files_read
from trainyard.limits import FILE_BYTES
from trainyard.lint.masked import without_tokens
from trainyard.lint.outcome import Outcome
from trainyard.lint.pipeline import lint
from trainyard.report.escape import inert, visible
from trainyard.repository.asked import readable
from trainyard.repository.discover import SETTINGS, Discovery, Target, TargetKind
from trainyard.repository.listed import PARTS
from trainyard.rules.index import all_rules
from trainyard.yaml.sources import Sources


def fixes(
    root: Path,
    found: Discovery,
    outcome: Outcome,
    *,
    unsafe: bool,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FixResult:
    """What fixing the findings of a run comes to. Nothing of the repository is written."""
    fixable = [finding for finding in outcome.findings if finding.fix is not None]
    targets = _targets([*found.targets, *entry_targets(root)], outcome, fixable)
    if not targets:
        return FixResult()
    with tempfile.TemporaryDirectory(prefix="lint-jobs-") as folder:
        copy = Path(os.path.realpath(folder))
        _copy(root, targets, copy)
        told = 0

        def judge() -> tuple[Finding, ...]:
            nonlocal told
            told += 1
            if progress:
                progress(f"fixing, round {told}")
            here = Discovery(targets, (), found.whole and len(targets) == len(found.targets))
            return lint(copy, here, use_cache=False, workers=workers).findings

        try:
            return Rounds(copy, judge, all_rules(), unsafe=unsafe).run()
        finally:
            if progress:
                progress("")


def diff(made: FixResult) -> Iterator[str]:
    """The lines of a unified diff. What a terminal or a CI runner would obey is shown instead, and secrets are cut."""
    for file in sorted(made.after):
        before, after = (texts[file].splitlines(keepends=True) for texts in (made.before, made.after))
        for line in difflib.unified_diff(before, after, f"a/{file}", f"b/{file}"):
            yield inert(visible(without_tokens(line.rstrip("\r\n"))))
            if not line.endswith("\n"):
                yield "\\ No newline at end of file"


def _targets(found: Iterable[Target], outcome: Outcome, fixable: Iterable[Finding]) -> tuple[Target, ...]:
    """Those that a fix concerns; all that were judged where one edits what several may share."""
    judged = tuple(target for target in found if target.name in outcome.units)
    jobs: set[str] = set()
    for finding in fixable:
        jobs.update(finding.jobs)
        files = {edit.file for edit in finding.fix.edits} if finding.fix is not None else set()
        if not all(file.startswith(tuple(f"{job}/" for job in finding.jobs)) or file in finding.jobs for file in files):
            return judged
    return tuple(target for target in judged if target.name in jobs)


def _copy(root: Path, targets: Iterable[Target], copy: Path) -> None:
    """Copy the parts of a repository that targets lie in or read."""
    sources = Sources(root)
    own = readable(root)
    files: set[str] = set() if own is None else {SETTINGS, own.baseline or SETTINGS}
    for target in targets:
        files.update(target.files or (f"{target.name}/",))
        if target.kind is not TargetKind.MANIFESTS:
            try:
                files |= files_read(root, target.name, sources)
            except InputError:
                continue
    try:
        for name in sorted({os.path.normpath(file).split("/")[0] for file in files}.union(PARTS)):
            part = root / name
            if part.is_dir() and name != ".":
                shutil.copytree(part, copy / name, symlinks=True, ignore=_not_copied)
            elif part.is_file():
                shutil.copy2(part, copy / name, follow_symlinks=False)
    except (OSError, shutil.Error) as error:
        raise Fault(f"cannot copy what is to be fixed: {error}") from None


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """What no kustomization may read: hidden folders, and what is larger than any file that is read."""
    left = set()
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path):
            continue
        hidden = name.startswith(".") and os.path.isdir(path)
        odd = not os.path.isdir(path) and (not os.path.isfile(path) or os.path.getsize(path) > FILE_BYTES)
        if hidden or odd or name == "__pycache__":
            left.add(name)
    return left


def write(root: Path, made: FixResult) -> dict[str, str]:
    """Write what was fixed to the files of the repository. Returns why some could not be, by file."""
    return apply.write(root, made.after, made.before)
