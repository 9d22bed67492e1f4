"""From two trees to their difference."""

import difflib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainyard.diff.model import Change, Difference, FindingLine, FolderDiff, Kind, ObjectDiff
from trainyard.diff.objects import object_diffs, without_twins
from trainyard.diff.side import JobSide, Side
from trainyard.errors import InputError
from trainyard.findings.finding import Finding
from trainyard.findings.suppress import SuppressedFinding
from trainyard.gitops.exempt import LIST
from trainyard.kustomize.kustomization import files_read
from trainyard.lint.pipeline import lint
from trainyard.repository.changed import changed_files, resolve
from trainyard.repository.discover import discover
from trainyard.repository.git import extract
from trainyard.repository.listed import PARTS, is_in_place

Key = tuple[str, str]
"""Rule and message."""

ALIKE = 0.6
"""Part of a job.yaml that a renamed job keeps."""


@dataclass(frozen=True, slots=True)
class FolderFindings:
    """What lint says of a folder."""

    findings: tuple[Finding, ...] = ()
    silenced: tuple[SuppressedFinding, ...] = ()

    def keys(self) -> set[Key]:
        """What makes each of them the same as another one, whether it is told or not."""
        return {_key(finding) for finding in (*self.findings, *(each.finding for each in self.silenced))}


Findings = Mapping[str, FolderFindings]
"""By folder."""


def compare(root: Path, base: str, use_cache: bool = True) -> Difference:
    """What the working tree of `root` changes since it left `base`. UsageError where git does not know `base`."""
    range = resolve(root, base, asked=base or "BASE")
    differing = changed_files(root, range)
    with tempfile.TemporaryDirectory(prefix="diff-jobs-") as temporary:
        copy = Path(temporary).resolve()
        extract(root, range.base, PARTS, copy)
        before, after = Side(copy), Side(root)
        shown = [pair for pair in _pairs(before, after, differing) if _differs(before, after, *pair, differing)]
        before.render(old for old, _ in shown if old)
        after.render(new for _, new in shown if new)
        old = _findings(copy, [name for name, _ in shown if name], None, use_cache=False)
        new = _findings(root, [name for _, name in shown if name], base, use_cache=use_cache)
        found = [
            _platform(before, after, *pair, old, new)
            if _is_platform(*pair)
            else _job(before, after, *pair, differing, old, new)
            for pair in shown
        ]
    told = [folder for folder in found if folder is not None]
    order = list(Kind)
    return Difference(
        base,
        range.base[:12],
        tuple(sorted(_grouped(told), key=lambda folder: (order.index(folder.kind), folder.folder))),
    )


Pair = tuple[str, str]
"""A folder in the base, and now; empty where it is not there."""


def _pairs(before: Side, after: Side, differing: frozenset[str]) -> Iterator[Pair]:
    old, new = before.jobs(), after.jobs()
    yield from ((job, job) for job in sorted(old & new))
    gone, come = old - new, new - old
    likeness = {(one, other): _alike(before, one, after, other) for one in gone for other in come}
    for one, other in sorted(likeness, key=lambda pair: (-likeness[pair], pair)):
        if likeness[one, other] >= ALIKE and one in gone and other in come:
            gone.remove(one)
            come.remove(other)
            yield one, other
    yield from (("", job) for job in sorted(come))
    yield from ((job, "") for job in sorted(gone))
    if any(file.startswith(("clusters/", "base/", "overlays/")) for file in differing):
        old, new = before.applied_folders(), after.applied_folders()
        yield from ((folder if folder in old else "", folder if folder in new else "") for folder in sorted(old | new))


def _alike(before: Side, old: str, after: Side, new: str) -> float:
    try:
        one, other = (
            (side.root / job / "job.yaml").read_text(errors="replace").splitlines()
            for side, job in ((before, old), (after, new))
        )
    except OSError:
        return 0.0
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _is_platform(old: str, new: str) -> bool:
    return not is_in_place(old or new)


def _differs(before: Side, after: Side, old: str, new: str, differing: frozenset[str]) -> bool:
    """Whether anything that a folder reads differs. A job's findings depend on its cluster's platform, too."""
    if old != new:
        return True
    reads: set[str] = set()
    for side in (before, after):
        try:
            reads |= files_read(side.root, old, side.sources)
        except InputError:
            return True
    if not _is_platform(old, new):
        clusters = {file.split("/")[1] for file in reads if file.startswith("clusters/")}
        reads |= {f"{old}/job.yaml"}
        if any(file.startswith(f"clusters/{cluster}/platform/") for cluster in clusters for file in differing):
            return True
        reads |= {f"clusters/{cluster}/{LIST}" for cluster in clusters}
    return not reads.isdisjoint(differing)


def _findings(root: Path, folders: Sequence[str], changed: str | None, use_cache: bool) -> Findings:
    if not folders:
        return {}
    outcome = lint(root, discover(folders, root, root), changed=changed, use_cache=use_cache)
    return {
        folder: FolderFindings(
            tuple(finding for finding in outcome.findings if folder in finding.jobs),
            tuple(silenced for silenced in outcome.suppressed if folder in silenced.finding.jobs),
        )
        for folder in folders
    }


def _platform(
    before: Side, after: Side, old: str, new: str, findings_before: Findings, findings: Findings
) -> FolderDiff | None:
    one = before.renderings[old] if old else None
    other = after.renderings[new] if new else None
    was_made, is_made = one.objects if one else [], other.objects if other else []
    was, now = findings_before.get(old, FolderFindings()), findings.get(new, FolderFindings())
    result = FolderDiff(
        kind=Kind.PLATFORM,
        folder=new or old,
        before=old,
        objects=without_twins(object_diffs(was_made, is_made), was_made),
        settings=(),
        numbers=(),
        new=_beyond(now, was),
        fixed=_beyond(was, now) if new else (),
        silenced=_newly_silenced(now, was),
        problem_before=one.error if one else "",
        problem=other.error if other else "",
    )
    return result if result.objects or result.new or result.fixed or result.silenced or result.problem else None


def _beyond(found: FolderFindings, other: FolderFindings) -> tuple[FindingLine, ...]:
    """What is told here, and neither told nor silenced there."""
    known = other.keys()
    return tuple(_told(finding) for finding in found.findings if _key(finding) not in known)


def _newly_silenced(found: FolderFindings, before: FolderFindings) -> tuple[FindingLine, ...]:
    """What somebody gives a reason for here and did not before. Another reason is told, too."""
    known = {(_key(each.finding), each.reason) for each in before.silenced}
    new = [each for each in found.silenced if (_key(each.finding), each.reason) not in known]
    return tuple(replace(_told(each.finding), reason=each.reason) for each in new)


def _job(
    before: Side,
    after: Side,
    old: str,
    new: str,
    differing: frozenset[str],
    findings_before: Findings,
    findings: Findings,
) -> FolderDiff | None:
    one, other = (JobSide(before, old) if old else None), (JobSide(after, new) if new else None)
    was_made, is_made = (
        side.renderings[folder].objects if folder else [] for side, folder in ((before, old), (after, new))
    )
    was, now = findings_before.get(old, FolderFindings()), findings.get(new, FolderFindings())
    kind = _kind(old, new, differing)
    names = (old.rpartition("/")[2], new.rpartition("/")[2])
    known_before = {key for finding in was.findings for key in (_key(finding), _key(finding, *names))}
    known = now.keys()
    objects: tuple[ObjectDiff, ...] = ()
    settings: tuple[Change, ...] = ()
    numbers: tuple[Change, ...] = ()
    if not (one and other and (one.problem or other.problem)):  # what is not known is not unset
        objects = object_diffs(was_made, is_made, renamed=names if kind is Kind.RENAMED else ("", ""))
        settings = tuple(_changes(one.settings if one else {}, other.settings if other else {}, every=False))
        numbers = tuple(_changes(one.numbers if one else {}, other.numbers if other else {}, every=True))
    result = FolderDiff(
        kind=kind,
        folder=new or old,
        before=old,
        objects=objects,
        settings=settings,
        numbers=numbers,
        new=tuple(_told(finding) for finding in now.findings if _key(finding) not in known_before),
        silenced=_newly_silenced(now, was),
        fixed=tuple(
            _told(finding)
            for finding in was.findings
            if new and known.isdisjoint((_key(finding), _key(finding, *names)))
        ),
        problem_before=one.problem if one else "",
        problem=other.problem if other else "",
    )
    changed = any(change.before != change.after for change in result.numbers)
    told = result.new or result.fixed or result.silenced or result.problem or result.problem_before
    silent = not (result.objects or told or changed)
    return None if silent and kind is Kind.SHARED else result


def _kind(old: str, new: str, differing: frozenset[str]) -> Kind:
    if not old:
        return Kind.NEW
    if not new:
        return Kind.REMOVED
    if old != new:
        return Kind.RENAMED
    return Kind.EDITED if any(file.startswith(f"{new}/") for file in differing) else Kind.SHARED


def _changes(before: Mapping[str, str], after: Mapping[str, str], every: bool) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, ""), after.get(name, "")
        if every or one != other:
            yield Change(name, one, other)


def _key(finding: Finding, old: str = "", new: str = "") -> Key:
    """What makes two findings the same: not their lines, and for a renamed job not its name."""
    message = finding.message.replace(old, new) if old and new else finding.message
    return finding.rule, message


def _told(finding: Finding) -> FindingLine:
    at = finding.place.position
    where = "" if at is None else f"{at.file}:{at.line}" if at.line else at.file
    return FindingLine(finding.severity.label, finding.rule, finding.message, where)


def _grouped(folders: Iterable[FolderDiff]) -> list[FolderDiff]:
    """Jobs that a shared edit changes alike, told once."""
    found: list[FolderDiff] = []
    groups: dict[object, int] = {}
    for folder in folders:
        name = folder.folder.rpartition("/")[2]
        key = (
            tuple(_without(item.title, name) + "\n" + _without("\n".join(item.lines), name) for item in folder.objects),
            tuple(change for change in (*folder.settings, *folder.numbers) if change.before != change.after),
            tuple(
                (told.rule, _without(told.message, name), told.reason)
                for told in (*folder.new, *folder.fixed, *folder.silenced)
            ),
        )
        if folder.kind is not Kind.SHARED or folder.problem or folder.problem_before:
            found.append(folder)
        elif key in groups:
            first = found[groups[key]]
            found[groups[key]] = replace(first, same=(*first.same, folder.folder))
        else:
            groups[key] = len(found)
            found.append(folder)
    return found


def _without(text: str, name: str) -> str:
    return text.replace(name, "<job>")
