"""Prints what a run found: for people, for programs, for code hosts and for test viewers.

A format is a module with `write(report, out, look)`. It is imported when it is asked for, since start-up time counts.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from trainyard.errors import EXIT_BAD_INPUT, EXIT_CLEAN, EXIT_FAULT, EXIT_FINDINGS, UsageError
from trainyard.findings.finding import BROKE, Finding, NotJudged, Severity
from trainyard.findings.suppress import SuppressedFinding

if TYPE_CHECKING:
    from trainyard.rules.registry import Rule

_MODULES = {
    "text": "text",
    "json": "document",
    "sarif": "sarif",
    "junit": "junit",
    "github": "github",
    "codequality": "codequality",
}

FORMATS = tuple(_MODULES)

LineOf = Callable[[str, int], str | None]
"""The text of a source line, counted from 1 and without its line break; None where it cannot be read."""


def _no_line(_file: str, _line: int) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run has to say."""

    findings: tuple[Finding, ...]
    """In the order in which they are printed."""
    units: tuple[str, ...]
    """Names of all jobs or manifests that were judged, those without findings included."""
    suppressed: tuple[SuppressedFinding, ...] = ()
    """What was found and is not told, with the reasons."""
    cached: int = 0
    """Units that are unchanged since the last run."""
    seconds: float = 0.0
    """Wall time of the run."""
    fail_on: Severity = Severity.ERROR
    """From which severity on a finding fails the run."""
    line_of: LineOf = field(default=_no_line, repr=False, compare=False)
    noun: str = "job"
    """What one unit is called; its plural takes an s."""
    note: str = ""
    """Why there is nothing to report on, where no unit had to be judged."""
    fixed: tuple[Finding, ...] = ()
    """What `--fix` put right, as it was found; it is not among the findings any more."""
    not_judged: tuple[NotJudged, ...] = ()
    """Parts of the units that no rule could judge."""
    unfixed: tuple[tuple[Finding, str], ...] = ()
    """What `--fix` knew how to put right and did not, and why."""

    @property
    def exit_code(self) -> int:
        """3 where the linter broke, else 2 where input could not be judged, else 1 where a finding fails the run."""
        if any(finding.rule == BROKE for finding in self.findings):
            return EXIT_FAULT
        if any(finding.input_error for finding in self.findings):
            return EXIT_BAD_INPUT
        return EXIT_FINDINGS if any(self.fails(finding) for finding in self.findings) else EXIT_CLEAN

    def fails(self, finding: Finding) -> bool:
        """True where this finding fails the run."""
        return finding.input_error or finding.severity >= self.fail_on

    def in_part(self) -> dict[str, list[NotJudged]]:
        """The units of which something was not judged, each with that, in the order of the units."""
        found: dict[str, list[NotJudged]] = {}
        for each in self.not_judged:
            found.setdefault(each.job, []).append(each)
        return {unit: found[unit] for unit in self.units if unit in found}

    def affected(self) -> set[str]:
        """The judged units that findings reach."""
        return {job for finding in self.findings for job in finding.jobs}.intersection(self.units)


@dataclass(frozen=True, slots=True)
class Look:
    """What formats need to know beside the findings."""

    color: bool = False
    """Text alone: use terminal colours."""
    width: int = 100
    """Text alone: columns of the terminal."""
    rules: Mapping[str, "Rule"] = field(default_factory=dict)
    """SARIF alone: the rules that ran, for their pages."""


def write(
    report: Report,
    form: str,
    out: TextIO,
    *,
    color: bool = False,
    width: int = 100,
    rules: Mapping[str, "Rule"] | None = None,
) -> None:
    """Write one report to `out` in one of FORMATS. UsageError for another format."""
    if form not in _MODULES:
        raise UsageError(f"no format is called {form}; there are {', '.join(FORMATS)}")
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding=None if form == "text" else "utf-8", errors="backslashreplace")
    import_module(f"{__name__}.{_MODULES[form]}").write(report, out, Look(color, width, rules or {}))
