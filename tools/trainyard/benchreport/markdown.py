"""The report for a pull request."""

import re

from trainyard.benchreport.report import Report
from trainyard.benchreport.said import cause, chance, finding, headline, need, number
from trainyard.benchreport.verdict import Row
from trainyard.report.escape import visible

MOST = 20
"""Findings that are listed; the page and the JSON have all."""


def markdown(report: Report) -> str:
    """GitHub's Markdown: the verdict, what is slower, and the table of the cluster."""
    found = report.verdict
    lines = [f"### Benchmark: {_plain(headline(found))}", ""]
    lines += [f"- {_plain(run)} differs from the baseline: {_plain(line)}" for run, line in found.differences[:MOST]]
    lines += [f"- {_plain(finding(row))}" for row in found.findings[:MOST]]
    if len(found.findings) > MOST:
        lines.append(f"- and {len(found.findings) - MOST} more")
    lines += [
        f"- {_plain(f'{change.measure} changed by {change.change:+.1%} with {change.run} ({chance(change.p)})')}"
        for change in report.changes[:MOST]
    ]
    lines += [f"- post-mortem, {_plain(cause(one))}" for one in report.causes[:MOST]]
    lines += [f"- {_plain(need(one))}" for one in found.needs if not one.met][:MOST]
    if found.cluster:
        lines += ["", "| measure | baseline | now | change |", "|---|---|---|---|", *map(_row, found.cluster)]
    count = len(report.runs)
    lines += [
        "",
        f"{count} {'run' if count == 1 else 'runs'} against {len(report.baseline.runs)} of "
        f"{_plain(report.baseline.name)}.",
    ]
    return "\n".join(lines) + "\n"


def _row(row: Row) -> str:
    change = f"**{row.change:+.1%}**" if row.slower else f"{row.change:+.1%}"
    return f"| {_plain(row.measure)} | {number(row.before)} | {number(row.after)} | {change} |"


def _plain(text: str) -> str:
    """Text that is no Markdown, no HTML and no mention."""
    return re.sub(r"([\\`*_\[\]<>|#@&!~$])", r"\\\1", visible(text)).replace("\\@", "@\u200b").replace("\\<", "&lt;")
