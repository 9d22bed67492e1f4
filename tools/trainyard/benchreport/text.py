"""The report for a terminal."""

from trainyard.benchreport.report import Report
from trainyard.benchreport.wording import cause, chance, finding, headline, need
from trainyard.report.escape import visible_lines

MOST = 20


def text(report: Report) -> str:
    """The verdict, and a line for each thing that led to it."""
    found = report.verdict
    lines = [headline(found)]
    lines += [f"  {run}: {line}" for run, line in found.differences[:MOST]]
    lines += [f"  {finding(row)}" for row in found.findings[:MOST]]
    if len(found.findings) > MOST:
        lines.append(f"  and {len(found.findings) - MOST} more (--format json has all)")
    for change in report.changes:
        lines.append(f"  {change.measure} changed by {change.change:+.1%} with {change.run} ({chance(change.p)})")
    lines += [f"  post-mortem, {cause(one)}" for one in report.causes]
    if found.unjudged:
        lines.append(f"  not judged, since not in every run: {', '.join(found.unjudged[:MOST])}")
    lines += ["runs:", *(f"  {need(one)}" for one in found.needs)] if found.needs else []
    return "\n".join(visible_lines("\n".join(lines))) + "\n"
