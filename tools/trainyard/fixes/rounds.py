"""Fixes in rounds: make those that do not touch one another, judge again, take back what did not help, go on.

All of it happens in a copy of the files that the targets read. The repository is written once, at the end, so that
whatever stops a run leaves it as it was, and `--diff` shows to the letter what `--fix` writes.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.findings.finding import Finding, Fix, Severity
from trainyard.fixes import apply
from trainyard.fixes.readers import Readers
from trainyard.rules.registry import Rule

UNSAFE = "unsafe"
"""The value of --fix that allows every fix."""

ROUNDS = 40
"""How often the targets are judged again, at most."""

Judge = Callable[[], Sequence[Finding]]
"""What is found in the copy as it is now."""

_Sign = tuple[str, str, str, str]


@dataclass(slots=True)
class FixResult:
    """What fixing came to."""

    fixed: list[Finding] = field(default_factory=list)
    """Findings that are gone since their fixes were made, in order."""
    refused: list[tuple[Finding, str]] = field(default_factory=list)
    """Findings with a fix that was not made, and why."""
    before: dict[str, str] = field(default_factory=dict)
    """Texts of the files that fixes change, as they were, by real path below the root."""
    after: dict[str, str] = field(default_factory=dict)


class Rounds:
    """One run of fixing in a copy at `copy` of the repository at `root`."""

    def __init__(self, copy: Path, judge: Judge, rules: Mapping[str, Rule], *, unsafe: bool) -> None:
        self.copy = copy
        self.judge = judge
        self.rules = rules
        self.unsafe = unsafe
        self.made = FixResult()
        self._readers = Readers(copy)
        self._failed: Counter[_Sign] = Counter()
        self._most = 1 << 30

    def run(self) -> FixResult:
        """Fix what can be fixed. The copy is left as it comes out."""
        findings = self.judge()
        for _ in range(ROUNDS):
            chosen = self._choose(findings)
            if not chosen:
                break
            texts = self._texts(chosen)
            after = self._try(texts)
            harm = self._harm(findings, after, chosen)
            if not harm:
                self._keep(texts, chosen)
                findings = after
                continue
            self._put(self.made.after, texts)
            if len(chosen) == 1:
                self._failed[_sign(chosen[0])] += 1
                self.made.refused.append((chosen[0], harm))
            else:
                self._most = max(1, len(chosen) // 2)
        self.made.refused += [(finding, why) for finding in findings if (why := self._why_not(finding))]
        return self.made

    def _why_not(self, finding: Finding) -> str:
        """Why a fix is not made, where that can be told without trying."""
        fix = finding.fix
        if fix is None or fix.refused:
            return fix.refused if fix is not None else ""
        if any(os.path.isabs(file) for file in apply.by_file(self.copy, fix.edits)):
            return "its file lies outside the repository"
        if not fix.safe and not self.unsafe:
            return f"it changes what the job means: --fix={UNSAFE} makes it"
        others = self._readers.others(finding)
        if not others:
            return ""
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return f"{others[0]}{more} would change too, without this finding: fix all jobs at once, or edit it by hand"

    def _choose(self, findings: Sequence[Finding]) -> list[Finding]:
        """The first fixes, in order, that touch no other of them.

        What the stages before the rules find comes alone: a misspelt field is renamed before a rule misses it.
        """
        open_ = [f for f in findings if f.fix is not None and not self._failed[_sign(f)] and not self._why_not(f)]
        early = [finding for finding in open_ if self.rules[finding.rule].declared]
        chosen: list[Finding] = []
        taken: list[Fix] = []
        for finding in early or open_:
            fix = finding.fix
            assert fix is not None
            if any(fix.edits == other.edits for other in taken):
                chosen.append(finding)
            elif not any(apply.overlapping(fix.edits, other.edits) for other in taken):
                chosen.append(finding)
                taken.append(fix)
            if len(chosen) >= self._most:
                break
        return chosen

    def _texts(self, chosen: Sequence[Finding]) -> dict[str, str]:
        """The texts of all files that the fixes change, as they would be."""
        edits = dict.fromkeys(edit for finding in chosen if finding.fix is not None for edit in finding.fix.edits)
        texts = {}
        for file, here in apply.by_file(self.copy, edits).items():
            text = apply.read(self.copy / file)
            self.made.before.setdefault(file, text)
            texts[file] = apply.edited(text, here)
        return texts

    def _try(self, texts: Mapping[str, str]) -> Sequence[Finding]:
        for file, text in texts.items():
            (self.copy / file).write_bytes(text.encode())
        return self.judge()

    def _put(self, kept: Mapping[str, str], tried: Iterable[str]) -> None:
        for file in tried:
            (self.copy / file).write_bytes(kept.get(file, self.made.before[file]).encode())

    def _keep(self, texts: dict[str, str], chosen: Sequence[Finding]) -> None:
        self.made.after.update(texts)
        self.made.fixed += chosen

    def _harm(self, before: Sequence[Finding], after: Sequence[Finding], chosen: Sequence[Finding]) -> str:
        """Why fixes are taken back: one left its finding, or another finding came. Empty where all is well.

        What stops a target early hides what comes after it, so after such a fix only broken input counts. What is less
        bad than the fault of the same object was hidden by it: a name that nothing reads has no wrong value. Where
        unsafe fixes are asked for, a warning may be the price of one.
        """
        was, now = _signs(before), _signs(after)
        for sign, number in _signs(chosen).items():
            if now[sign] > was[sign] - number:
                return "it did not help: edit it by hand"
        early = any(self.rules[finding.rule].declared for finding in chosen)
        least = Severity.ERROR if self.unsafe else Severity.WARNING
        mended = {finding.place.object: finding.severity for finding in sorted(chosen, key=lambda each: each.severity)}
        for finding in after:
            hidden = finding.severity < mended.get(finding.place.object, finding.severity)
            counts = finding.input_error or (finding.severity >= least and not early and not hidden)
            if counts and now[_sign(finding)] > was[_sign(finding)]:
                return f"then there would be another finding: {finding.rule} {finding.message}"
        return ""


def _sign(finding: Finding) -> _Sign:
    """What stays of a finding when the lines above it move, and the numbers in its words change."""
    position = finding.place.position
    return finding.rule, position.file if position else "", finding.place.object, finding.place.path


def _signs(findings: Iterable[Finding]) -> Counter[_Sign]:
    return Counter(map(_sign, findings))
