"""A difference for people at a terminal."""

from collections.abc import Iterator, Sequence

from trainyard.diff.model import Change, Difference, FolderDiff, Kind, Told
from trainyard.report.escape import inert, visible

_RESET = "\x1b[0m"
_COLORS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def text(difference: Difference, color: bool = False) -> str:
    """All of it; every line is harmless to a terminal and to a CI runner."""
    lines = [f"since {difference.base} ({difference.commit}): {difference.headline}"]
    for folder in difference.folders:
        lines += ["", *_folder(folder, color)]
    return "".join(f"{line}\n" for line in lines)


def _folder(folder: FolderDiff, color: bool) -> Iterator[str]:
    yield _safe(f"{folder.kind.value} {folder.name}: {folder.kind.meaning}")
    if folder.same:
        yield _safe(f"  the same for {', '.join(folder.same)}")
    for side, problem in (("the base", folder.problem_before), ("it", folder.problem)):
        if problem:
            yield _safe(f"  {side} does not render: {problem}")
    yield from _table(shown_numbers(folder), folder.kind)
    yield from _table(folder.settings, folder.kind)
    yield from _findings("new finding", folder.new)
    yield from _findings("fixed", folder.fixed)
    for item in folder.objects:
        added = item.what == "added" and folder.kind is Kind.SHARED
        yield _safe(f"  {item.title} is {item.what}{', and to running jobs too' if added else ''}")
        for line in item.lines if item.what == "changed" else ():
            code = _COLORS.get(line[:1], "") if color else ""
            yield f"    {code}{visible(line)}{_RESET if code else ''}"


def shown_numbers(folder: FolderDiff) -> tuple[Change, ...]:
    """The numbers that say something: all of a job that is new or moved, else those that differ."""
    if folder.kind in (Kind.NEW, Kind.RENAMED):
        return tuple(change for change in folder.numbers if change.after or change.before)
    return tuple(change for change in folder.numbers if change.before != change.after)


def _table(changes: Sequence[Change], kind: Kind) -> Iterator[str]:
    wide = max((len(visible(change.name)) for change in changes), default=0)
    for change in changes:
        said = change.after if kind is Kind.NEW else moved(change)
        yield f"  {visible(change.name):<{wide}}  {visible(said)}"


def moved(change: Change) -> str:
    """A value before and after, or the value where it stayed."""
    if change.before == change.after:
        return change.after
    return f"{change.before or 'unset'} -> {change.after or 'unset'}"


def _findings(what: str, told: Sequence[Told]) -> Iterator[str]:
    for finding in told:
        where = f" ({finding.where})" if finding.where else ""
        yield _safe(f"  {what}: {finding.severity}[{finding.rule}] {finding.message}{where}")


def _safe(line: str) -> str:
    return inert(visible(line))
