"""The report for programs."""

from dataclasses import asdict
from math import isfinite
from typing import Any

from trainyard.benchreport.report import Report
from trainyard.benchreport.wording import headline


def document(report: Report) -> dict[str, Any]:
    """Everything that was found, as JSON has it: fractions, seconds and the measures' own units."""
    found = report.verdict
    return {
        "state": found.state.name.lower().replace("_", " "),
        "exit_code": found.state.value,
        "headline": headline(found),
        "baseline": report.baseline.name,
        "runs": [run.name for run, _ in report.runs],
        "differences": [{"run": run, "differs": line} for run, line in found.differences],
        "findings": [_plain(asdict(row)) for row in found.findings],
        "cluster": [_plain(asdict(row)) for row in found.cluster],
        "nodes": [_plain(asdict(row)) for row in found.nodes],
        "unjudged": list(found.unjudged),
        "needs": [asdict(need) | {"met": need.met} for need in found.needs],
        "changes": [asdict(change) for change in report.changes],
        "causes": [asdict(cause) for cause in report.causes],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in row.items()}
