"""Comments that silence a finding, with a reason, at the line that it points to:

`rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies`
"""

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from trainyard import limits
from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.rules.aliases import present
from trainyard.rules.registry import Rule, declare

FORM = "# lint-jobs: ignore[RULE, RULE] reason"
ALWAYS_ON = ("INP", "SUP")
"""Families that no comment silences: input that was not judged, and the suppressions themselves."""

SERVER = "API"
"""The family that an API server raises: lint-jobs asks none, and so cannot say that a suppression of it is unused."""

_MARK = re.compile(r"#[ \t]*lint-jobs:")
_DIRECTIVE = re.compile(r"#[ \t]*lint-jobs:[ \t]*ignore[ \t]*\[([^\]#]*)\](.*)\Z", re.DOTALL)
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What the YAML parser counts as the end of a line."""

_BLANKS = " \t\r\n\x85\u2028\u2029\ufeff"
_COMMENT_LINE = re.compile(r"[ \t]*#")

UNUSED = declare(
    "SUP001",
    "suppression-unused",
    Severity.WARNING,
    """A suppression names a rule that finds nothing at its line.

    The mistake it excused is gone, or the comment stands at another line than the finding. Left in place, it would
    silence the next mistake there. It is judged only where every job that reads the file was linted.

    Bad:
        nodes: 4  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
        rendezvousPort: 29500
    Good:
        nodes: 4
        rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
    """,
)

NO_REASON = declare(
    "SUP002",
    "suppression-without-reason",
    Severity.ERROR,
    """A suppression gives no reason of at least three words, so it silences nothing.

    Whoever reads the file next has to know why the rule does not hold here, and when the comment may go.

    Bad:
        rendezvousPort: 29500  # lint-jobs: ignore[NET002]
    Good:
        rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
    """,
)

NO_SUCH_RULE = declare(
    "SUP003",
    "suppression-of-no-rule",
    Severity.ERROR,
    """A suppression names something that is not a rule or that cannot be silenced.

    A misspelt id silences nothing. INP rules say that input could not be judged, SUP rules watch the suppressions:
    neither can be silenced. `tools/lint-jobs rules` lists every id. A former id of a rule silences it too.

    Bad:
        rendezvousPort: 29500  # lint-jobs: ignore[NET2] no CNI of this cluster enforces policies
    Good:
        rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
    """,
)

NOT_UNDERSTOOD = declare(
    "SUP004",
    "suppression-not-understood",
    Severity.ERROR,
    """A comment starts with `lint-jobs:` and is not a suppression.

    There is one form: the rules in brackets, then the reason. There are no switches for whole files.

    Bad:
        rendezvousPort: 29500  # lint-jobs: disable NET002
    Good:
        rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
    """,
)


NOT_ALLOWED = declare(
    "SUP005",
    "suppression-not-allowed",
    Severity.ERROR,
    """A comment in a job folder names a rule on security, which it cannot silence.

    Who writes a job cannot say that its rights are fine. The owners of the cluster can, in
    clusters/<name>/suppressions.yaml, which they review: rule, job and reason. Rules on security are those of the
    family SEC, GIT004, GIT005, GIT012 and GIT020 to GIT024. The list may name any rule that a comment may.

    Bad:
        # jobs/research/llama-8b-sft/patch.yaml
        hostPID: true  # lint-jobs: ignore[SEC005] the profiler needs it

    Good:
        # clusters/gpu-east/suppressions.yaml
        apiVersion: trainyard.dev/v1alpha1
        kind: SuppressionList
        metadata: {name: gpu-east}
        suppressions:
        - rule: SEC005
          job: jobs/research/llama-8b-sft
          reason: the profiler of this week's hunt looks into other processes
    """,
)

LEAST_WORDS = 3
_WORD = re.compile(r"\w+")


def explains(reason: str) -> bool:
    """True of a reason that says anything: a few words, or as many letters where no blanks part them."""
    return len(_WORD.findall(reason)) >= LEAST_WORDS or sum(map(str.isalpha, reason)) >= 6 * LEAST_WORDS


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment. Lines count from 1."""

    file: str
    line: int
    """Where the comment stands."""
    target: range
    """Lines whose findings it concerns: its own or, for a comment alone on its line, the first below the comments;
    and all lines of a text that starts or ends there."""
    rules: tuple[str, ...]
    """Ids as written, former ones among them; empty where the comment was not understood."""
    reason: str
    position: Position

    @property
    def target_line(self) -> int:
        """The first line that it concerns."""
        return self.target.start

    def silences(self, finding: Finding) -> bool:
        """True where this comment covers the finding's own position and names its rule."""
        position = finding.place.position
        return (
            position is not None
            and position.file == self.file
            and position.line in self.target
            and finding.rule in map(present, self.rules)
            and explains(self.reason)
            and not always_on(finding)
        )


@dataclass(frozen=True, slots=True)
class SuppressedFinding:
    """A finding that is not told."""

    finding: Finding
    reason: str
    by: Position
    """Where the reason is written."""
    is_listed: bool = False
    """True where the owners of a cluster silenced it, and no comment."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Rules that a comment in a job folder cannot silence."""

    rules: Container[str] = ()
    """Present ids."""
    jobs: tuple[str, ...] = ()
    """Folders of jobs."""

    def forbids(self, rule: str, file: str) -> bool:
        """True where a comment in that file may not name the rule."""
        return rule in self.rules and file.startswith(("jobs/", *(f"{job}/" for job in self.jobs)))


def find(file: str, text: str) -> list[Suppression]:
    """The suppressions in a YAML file, in order. A `#` in a quoted or block text is content, no comment.

    Empty for text that is not YAML: that is reported where the file is parsed. InputError where there are too many.
    """
    if "lint-jobs:" not in text:
        return []
    found = list(islice(_suppressions(file, text.removeprefix("\ufeff")), limits.SUPPRESSIONS + 1))
    if len(found) > limits.SUPPRESSIONS:
        at = found[-1].position
        message = f"more than {limits.SUPPRESSIONS} comments begin with lint-jobs: none of them counts"
        raise InputError(message, file, at.line, at.column)
    return found


def apply(
    findings: Iterable[Finding],
    suppressions: Iterable[Suppression],
    *,
    rules: Container[str],
    complete_files: Container[str],
    guard: Guard | None = None,
) -> tuple[list[Finding], list[SuppressedFinding]]:
    """The findings that are left, with those about the suppressions after them, and those that were silenced.

    `rules` are the ids that exist. `complete_files` are the files all of whose readers were linted in this run: only
    there can a suppression be called unused. Call it with findings of all severities, before any is left out.
    """
    suppressions = list(suppressions)
    guard = guard or Guard()
    by_file: dict[str, list[Suppression]] = {}
    for suppression in suppressions:
        by_file.setdefault(suppression.file, []).append(suppression)
    used: set[tuple[Suppression, str]] = set()
    kept = []
    silenced = []
    for finding in findings:
        here = by_file.get(finding.place.position.file, []) if finding.place.position else []
        matches = [each for each in here if each.silences(finding) and not guard.forbids(finding.rule, each.file)]
        if matches:
            used.update((each, finding.rule) for each in matches)
            silenced.append(SuppressedFinding(finding, matches[0].reason, matches[0].position))
        else:
            kept.append(finding)
    for suppression in suppressions:
        kept += _judge(suppression, used, rules, guard, judge_use=suppression.file in complete_files)
    return kept, silenced


def _judge(
    suppression: Suppression,
    used: set[tuple[Suppression, str]],
    rules: Container[str],
    guard: Guard,
    *,
    judge_use: bool,
) -> Iterator[Finding]:
    at = suppression.position
    if not suppression.rules:
        yield told(NOT_UNDERSTOOD, at, "comment is not a suppression", f"write `{FORM}`")
        return
    named = ", ".join(suppression.rules)
    explained = explains(suppression.reason)
    if not explained:
        what = f"a reason of fewer than {LEAST_WORDS} words" if suppression.reason else "no reason"
        yield told(NO_REASON, at, f"suppression of {named} gives {what}", f"write `{FORM}`")
    for rule in dict.fromkeys(suppression.rules):
        if (wrong := misnamed(rule, at, rules)) is not None:
            yield wrong
        elif guard.forbids(present(rule), suppression.file):
            message = f"{rule} is a rule on security: no comment in a job folder silences it"
            help = (
                "correct what it reports, or ask the cluster's owners to list it in clusters/<name>/suppressions.yaml"
            )
            yield told(NOT_ALLOWED, at, message, help)
        elif judge_use and not rule.startswith(SERVER) and explained and (suppression, present(rule)) not in used:
            nothing = f"{present(rule)} finds nothing at {_lines(suppression.target)}"
            message = f"suppression of {rule} silences nothing: {nothing}"
            yield told(UNUSED, at, message, "delete it, or put it at the line that the finding names")


def misnamed(rule: str, at: Position, rules: Container[str]) -> Finding | None:
    """What is wrong with the name of a rule that is to be silenced."""
    if present(rule) not in rules:
        return told(NO_SUCH_RULE, at, f"{rule} is not a rule", _remedy(rule, rules))
    if rule.startswith(ALWAYS_ON):
        return told(NO_SUCH_RULE, at, f"{rule} cannot be suppressed", "correct what it reports")
    return None


def _remedy(rule: str, rules: Container[str]) -> str:
    if rule.upper() in rules:
        return f"write {rule.upper()}"
    return "`tools/lint-jobs rules` lists the rules"


def _lines(target: range) -> str:
    return f"line {target.start}" if len(target) == 1 else f"lines {target.start}-{target.stop - 1}"


def told(rule: Rule, at: Position, message: str, remedy: str) -> Finding:
    """A finding about a suppression."""
    return Finding(rule.id, rule.name, rule.severity, message, Place("", "", at), help=remedy)


def always_on(finding: Finding) -> bool:
    """True of a finding that nothing silences."""
    return finding.input_error or finding.rule.startswith(ALWAYS_ON)


@dataclass(frozen=True, slots=True)
class _Content:
    """Where a scalar stands: offsets from, to."""

    first: int
    start: int
    """From where on a `#` is content: the header line of a block text may end in a comment."""
    end: int


def _suppressions(file: str, text: str) -> Iterator[Suppression]:
    contents = _contents(text)
    if contents is None:
        return
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
    lines = _LINE_BREAK.split(text)
    below = _rows_below_comments(lines)
    whole = _whole_texts(contents, starts)
    after = 0
    for mark in _MARK.finditer(text):
        if mark.start() < after or not _is_comment(text, mark.start(), contents):
            continue
        row = bisect_right(starts, mark.start()) - 1
        after = starts[row] + len(lines[row])
        comment = text[mark.start() : after].rstrip()
        directive = _DIRECTIVE.match(comment)
        first, last = whole.get(below[row], (below[row], below[row]))
        yield Suppression(
            file=file,
            line=row + 1,
            target=range(first + 1, last + 2),
            rules=_names(directive[1]) if directive else (),
            reason=directive[2].strip(" \t:-") if directive else "",
            position=Position(file, row + 1, mark.start() - starts[row] + 1, len(comment)),
        )


def _rows_below_comments(lines: list[str]) -> list[int]:
    """For each row the first that is not a comment alone on its line, itself included."""
    below = [len(lines)] * (len(lines) + 1)
    for row in range(len(lines) - 1, -1, -1):
        below[row] = below[row + 1] if _COMMENT_LINE.match(lines[row]) else row
    return below


def _whole_texts(contents: list[_Content], starts: list[int]) -> dict[int, tuple[int, int]]:
    """For each row where a text of several lines starts or ends, the rows of all such texts: first, last."""
    whole: dict[int, tuple[int, int]] = {}
    for content in contents:
        begins = bisect_right(starts, content.first) - 1
        ends = bisect_right(starts, content.end - 1) - 1
        if begins < ends:
            for row in (begins, ends):
                first, last = whole.get(row, (row, row))
                whole[row] = min(first, begins), max(last, ends)
    return whole


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name for part in listed.split(",") if (name := part.strip()))


def _contents(text: str) -> list[_Content] | None:
    import yaml

    found = []
    try:
        for token in yaml.scan(text, Loader=yaml.CSafeLoader):
            if isinstance(token, yaml.ScalarToken):
                first, end = token.start_mark.index, token.end_mark.index
                end = first + len(text[first:end].rstrip())
                start = first
                if token.style in ("|", ">") and (header_end := _LINE_BREAK.search(text, first)):
                    start = header_end.start()
                found.append(_Content(first, start, end))
    except (yaml.YAMLError, UnicodeEncodeError):
        return None
    return found


def _is_comment(text: str, offset: int, contents: list[_Content]) -> bool:
    if offset and text[offset - 1] not in _BLANKS:
        return False
    before = bisect_right(contents, offset, key=lambda content: content.start) - 1
    return before < 0 or offset >= contents[before].end
