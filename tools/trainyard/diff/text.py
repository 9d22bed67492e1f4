"""A difference for people at a terminal."""

from collections.abc import Iterator, Sequence

from trainyard.diff.model import Change, Difference, FindingLine, FolderDiff
from trainyard.report.escape import inert, visible

_RESET = "\x1b[0m"
_COLORS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def text(difference: Difference, color: bool = False) -> str:
    """All of it; every line is harmless to a terminal and to a CI runner."""
    lines = [_safe(f"since {difference.base} ({difference.commit}): {difference.headline}")]
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
    wide = max((len(visible(change.name)) for change in folder.shown), default=0)
    for change in folder.shown:
        said = change.after or change.before if folder.one_sided else moved(change)
        yield inert(f"  {visible(change.name):<{wide}}  {visible(said)}")
    yield from _findings("new finding", folder.new)
    yield from _findings("fixed", folder.fixed)
    yield from _findings("newly suppressed", folder.silenced)
    shown = {f"{item.title} is {item.what}": item for item in folder.detailed}
    yield from (_safe(f"  {said}") for said in folder.counted if said not in shown)
    for said, item in shown.items():
        yield _safe(f"  {said}")
        for line in item.lines:
            code = _COLORS.get(line[:1], "") if color else ""
            yield f"    {code}{_safe(line)}{_RESET if code else ''}"


def moved(change: Change) -> str:
    """A value before and after, or the value where it stayed."""
    if change.before == change.after:
        return change.after
    return f"{change.before or 'unset'} -> {change.after or 'unset'}"


def _findings(what: str, told: Sequence[FindingLine]) -> Iterator[str]:
    for finding in told:
        where = f" ({finding.where})" if finding.where else ""
        why = f", since: {finding.reason}" if finding.reason else ""
        yield _safe(f"  {what}: {finding.severity}[{finding.rule}] {finding.message}{where}{why}")


def _safe(line: str) -> str:
    return inert(visible(line))
