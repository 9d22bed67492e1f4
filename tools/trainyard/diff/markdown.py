"""A difference as one comment of a pull request, within the size that GitHub takes."""

import re
from collections.abc import Iterator, Sequence

from trainyard.diff.model import Difference, FindingLine, FolderDiff
from trainyard.report.escape import visible

MARKER = "<!-- trainyard diff-jobs -->"
"""By which the workflow finds its comment again."""

MOST = 65536
"""Characters that GitHub takes in a comment."""

_ENDING = 600
"""Characters kept for what says what was left out."""

_PLAIN = re.compile(r"[^A-Za-z0-9 ,/=%-]")


def markdown(difference: Difference, most: int = MOST) -> str:
    """The comment, at most `most` characters: first what each folder comes to, then as many rendered diffs as fit."""
    lines = [MARKER, f"### Jobs since {code(difference.base)} ({difference.commit}): {difference.headline}", ""]
    room = most - sum(len(line) + 1 for line in lines) - _ENDING
    kept: list[str] = []
    left: list[str] = []
    for folder in difference.folders:
        block = "\n".join(_folder(folder)) + "\n"
        if len(block) > room:
            left.append(folder.folder)
            continue
        kept.append(block)
        room -= len(block) + 1
    bare = [folder for folder in difference.folders if folder.folder not in left]
    details: dict[str, str] = {}
    for folder in bare:
        block = "\n".join(_objects(folder)) + "\n" if folder.detailed else ""
        if len(block) > room:
            left.append(f"rendered diff of {folder.folder}")
        elif block:
            details[folder.folder] = block
            room -= len(block) + 1
    for folder, block in zip(bare, kept, strict=True):
        lines += [block, details[folder.folder]] if folder.folder in details else [block]
    if left:
        lines.append(_left_out(left))
    return "\n".join(lines).rstrip("\n") + "\n"


def code(text: str) -> str:
    """Any text as code in a line: nothing in it is markup, a link, a mention or a reference to an issue.

    GitHub makes a link of an address even where its signs are entities, unless something stands behind the @.
    """
    written = _PLAIN.sub(lambda found: f"&#{ord(found[0])};", visible(text))
    return f"<code>{written.replace('&#64;', '&#64;<!---->')}</code>"


def fenced(lines: Sequence[str], language: str) -> str:
    """Lines as a block of code, whose fence is longer than any in them."""
    shown = [visible(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *shown, fence])


def _folder(folder: FolderDiff) -> Iterator[str]:
    yield f"**{folder.kind.value}** {code(folder.name)}: {folder.kind.meaning}"
    yield ""
    if folder.same:
        yield f"The same for {', '.join(code(name) for name in folder.same)}."
        yield ""
    for side, problem in (("The base", folder.problem_before), ("It", folder.problem)):
        if problem:
            yield f"{side} does not render: {code(problem)}"
            yield ""
    if folder.shown:
        yield from _table(folder)
        yield ""
    told = [*_findings("new", folder.new), *_findings("fixed", folder.fixed)]
    told += _findings("newly suppressed", folder.silenced)
    told += [f"- {code(said)}" for said in folder.counted]
    if told:
        yield from told
        yield ""


def _table(folder: FolderDiff) -> Iterator[str]:
    if folder.one_sided:
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {code(change.name)} | {code(change.after or change.before)} |" for change in folder.shown)
        return
    yield "| | before | after |"
    yield "|---|---|---|"
    for change in folder.shown:
        before, after = (code(value) if value else "" for value in (change.before, change.after))
        yield f"| {code(change.name)} | {before} | {after} |"


def _findings(what: str, told: Sequence[FindingLine]) -> Iterator[str]:
    for finding in told:
        where = f" ({code(finding.where)})" if finding.where else ""
        why = f", since: {code(finding.reason)}" if finding.reason else ""
        yield f"- {what}: **{finding.severity}** {code(finding.rule)} {code(finding.message)}{where}{why}"


def _objects(folder: FolderDiff) -> Iterator[str]:
    yield "<details><summary>rendered objects</summary>"
    yield ""
    for item in folder.detailed:
        yield code(item.title)
        yield ""
        yield fenced(item.lines, "diff")
        yield ""
    yield "</details>"
    yield ""


def _left_out(names: Sequence[str]) -> str:
    said: list[str] = []
    room = _ENDING - 250
    for name in names:
        if len(code(name)) + 2 > room:
            break
        said.append(code(name))
        room -= len(code(name)) + 2
    rest = len(names) - len(said)
    more = [f"{rest} more"] if rest else []
    listed = ", ".join([*said, *more])
    return f"Left out, since a comment holds {MOST:,} characters: {listed}. `tools/diff-jobs` shows all of it."
