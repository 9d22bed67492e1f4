"""The report for a pull request."""

from trainyard.benchreport.report import Report
from trainyard.benchreport.verdict import Row
from trainyard.benchreport.wording import cause, chance, finding, headline, need, number
from trainyard.diff.markdown import code

MOST = 20
"""Findings that are listed; the page and the JSON have all."""


def markdown(report: Report) -> str:
    """GitHub's Markdown: the verdict, what is slower, and the table of the cluster."""
    found = report.verdict
    lines = [f"### Benchmark: {code(headline(found))}", ""]
    lines += [f"- {code(run)} differs from the baseline: {code(line)}" for run, line in found.differences[:MOST]]
    lines += [f"- {code(finding(row))}" for row in found.findings[:MOST]]
    if len(found.findings) > MOST:
        lines.append(f"- and {len(found.findings) - MOST} more")
    lines += [
        f"- {code(f'{change.measure} changed by {change.change:+.1%} with {change.run} ({chance(change.p)})')}"
        for change in report.changes[:MOST]
    ]
    lines += [f"- post-mortem, {code(cause(one))}" for one in report.causes[:MOST]]
    lines += [f"- {code(need(one))}" for one in found.needs if not one.met][:MOST]
    if found.cluster:
        lines += ["", "| measure | baseline | now | change |", "|---|---|---|---|", *map(_row, found.cluster)]
    count = len(report.runs)
    lines += [
        "",
        f"{count} {'run' if count == 1 else 'runs'} against {len(report.baseline.runs)} of "
        f"{code(report.baseline.name)}.",
    ]
    return "\n".join(lines) + "\n"


def _row(row: Row) -> str:
    change = f"**{row.change:+.1%}**" if row.slower else f"{row.change:+.1%}"
    return f"| {code(row.measure)} | {number(row.before)} | {number(row.after)} | {change} |"
