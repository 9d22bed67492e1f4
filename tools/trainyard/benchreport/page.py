"""The report as one HTML page that loads nothing: verdict, cluster, nodes, models, Kubernetes."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

import numpy as np

from trainyard.benchreport import chart
from trainyard.benchreport.report import Report
from trainyard.benchreport.runs import Run, Workload
from trainyard.benchreport.verdict import MEDIAN, Row, cluster_measures, value_of
from trainyard.benchreport.wording import cause, chance, finding, headline, need, number

WORST = 10
"""Nodes in the table that is open; the others are one click away."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    """The whole page. All text of runs and baselines is escaped."""
    style = resources.files("trainyard.benchreport").joinpath("page.css").read_text(encoding="utf-8")
    sections = [
        ("Findings", _findings(report)),
        ("Cluster", _cluster(report)),
        ("Nodes", _nodes(report)),
        ("Models", _models(report)),
        ("Kubernetes", _kubernetes(report)),
        ("Runs", _needs(report)),
        ("What it ran on", _fingerprint(report)),
    ]
    body = "".join(
        f'<section id="{_anchor(name)}"><h2>{name}</h2>{inner}</section>' for name, inner in sections if inner
    )
    links = "".join(f'<a href="#{_anchor(name)}">{name}</a>' for name, inner in sections if inner)
    title = escape(f"{report.baseline.name}: {headline(report.verdict)}")
    state = report.verdict.state.name.lower().replace("_", "-")
    newest = report.runs[-1][0]
    about = (
        f"{len(report.runs)} {'run' if len(report.runs) == 1 else 'runs'}, the newest {newest.name} of "
        f"{newest.finished}, against {len(report.baseline.runs)} of the baseline {report.baseline.name}; "
        f"{len(newest.nodes)} {'node' if len(newest.nodes) == 1 else 'nodes'}"
    )
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style></head>\n'
        f'<body><header class="{state}"><h1>{escape(headline(report.verdict))}</h1><p>{escape(about)}</p>'
        f"<nav>{links}</nav></header>\n<main>{body}</main></body></html>\n"
    )


def _findings(report: Report) -> str:
    found = report.verdict
    if found.differences:
        rows = [(run, line) for run, line in found.differences]
        return _table(("run", "differs in (baseline -> run)"), rows)
    lines = [finding(row) for row in found.findings] or ["No measure of the cluster or of a node is slower."]
    lines += [
        f"{change.measure} changed by {change.change:+.1%} with {change.run} ({chance(change.p)})"
        for change in report.changes
    ]
    lines += [f"post-mortem of {report.runs[-1][0].name}, {cause(one)}" for one in report.causes]
    if found.unjudged:
        some = ", ".join(found.unjudged[:WORST]) + (" ..." if len(found.unjudged) > WORST else "")
        lines.append(f"not judged, since they are not in every run: {some}")
    return _list(lines)


def _cluster(report: Report) -> str:
    """Each measure over all runs, the baseline's and the later ones."""
    history = report.history
    known = {run.name for run in report.baseline.runs}
    judged = {row.measure: row for row in report.verdict.cluster}
    charts = []
    for measure in [*cluster_measures(history), *(name for name in judged if name.startswith(MEDIAN))]:
        marks = {
            float(change.at): f"{change.change:+.1%} with {change.run}"
            for change in report.changes
            if change.measure == measure
        }
        points = []
        for at, run in enumerate(history):
            value = value_of(run, measure)
            kind = "old" if run.name in known else "new"
            points.append((float(at), value, kind, f"{run.name}: {number(value)} ({run.finished})"))
        drawn = chart.points(points, measure.rsplit("/", 1)[-1], "runs", marks=marks)
        charts.append(_figure(measure, _change(judged.get(measure)), drawn))
    key = '<p class="key"><i class="old"></i>baseline <i class="new"></i>later runs <i class="mark"></i>change</p>'
    return key + _grid(charts) if charts else ""


def _nodes(report: Report) -> str:
    newest = report.runs[-1][0]
    rows = report.verdict.nodes
    bad = {row.node for row in rows if row.slower}
    charts = []
    for measure in dict.fromkeys(row.measure for row in rows):
        ordered = sorted((row for row in rows if row.measure == measure), key=lambda row: row.change)
        points = [
            (float(at), row.change, "bad" if row.slower else "new", f"{row.node}: {row.change:+.1%}")
            for at, row in enumerate(ordered)
        ]
        slower = sum(row.slower for row in ordered)
        note = f"{slower} of {len(ordered)} slower" if slower else f"{len(ordered)} nodes, none slower"
        drawn = chart.points(points, "change beside the others", "nodes, slowest first", percent=True)
        charts.append(_figure(measure, note, drawn))
    usage = list(dict.fromkeys(name for node in newest.nodes.values() for name in node.usage))
    for name in usage:
        values = {node: there.usage[name] for node, there in newest.nodes.items() if name in there.usage}
        charts.append(
            _figure(
                name,
                f"median {number(float(np.median(list(values.values()))))}",
                chart.strip(values, name, bad & set(values)),
            )
        )
    alone = (
        '<p class="key">One node: what it measures is judged as the cluster\'s.</p>' if len(newest.nodes) == 1 else ""
    )
    return alone + _grid(charts) + _node_tables(report, newest, bad)


def _node_tables(report: Report, newest: Run, bad: set[str]) -> str:
    """A line a node: its measures, changes and usage. The worst are open, the rest is folded."""
    change: dict[tuple[str, str], Row] = {(row.node, row.measure): row for row in report.verdict.nodes}
    measures = list(dict.fromkeys(name for node in newest.nodes.values() for name in node.measures))
    usage = list(dict.fromkeys(name for node in newest.nodes.values() for name in node.usage))

    least = dict.fromkeys(newest.nodes, 0.0)
    for (node, _), row in change.items():
        if node in least:
            least[node] = min(least[node], row.change)
    order = sorted(newest.nodes, key=lambda node: (node not in bad, least[node], node))
    lines = []
    for node in order:
        there = newest.nodes[node]
        cells = [node]
        for measure in measures:
            values = there.measures.get(measure, ())
            row_of = change.get((node, measure))
            text = number(min(values)) if values else ""
            cells.append(text + (f" ({row_of.change:+.1%})" if row_of else ""))
        cells += [number(there.usage[name]) if name in there.usage else "" for name in usage]
        lines.append((cells, node in bad))
    head = ("node", *measures, *usage)
    table = _table(head, [cells for cells, _ in lines[:WORST]], [flag for _, flag in lines[:WORST]])
    if len(lines) <= WORST:
        return table
    rest = _table(head, [cells for cells, _ in lines[WORST:]], [flag for _, flag in lines[WORST:]])
    return f"{table}<details><summary>{len(lines) - WORST} more nodes</summary>{rest}</details>"


def _models(report: Report) -> str:
    """Speed and loss of the newest run beside the newest of the baseline."""
    newest, usual = report.runs[-1][0], report.baseline.runs[-1]
    charts = []
    for name, workload in newest.workloads.items():
        before = usual.workloads.get(name, Workload())
        for field in ("tokens_per_second", "samples_per_second", "loss"):
            series = {
                who: [(float(line["step"]), float(line[field])) for line in of.steps if field in line]
                for who, of in ((newest.name, workload), (usual.name, before))
            }
            if series[newest.name]:
                note = f"last {number(series[newest.name][-1][1])}"
                charts.append(_figure(f"{name}: {field}", note, chart.lines(series, field, "step")))
        if workload.phases:
            charts.append(_figure(f"{name}: a step", "seconds, by node", _phases(workload)))
    key = '<p class="key"><i class="line"></i>newest run <i class="line old"></i>newest of the baseline</p>'
    return key + _grid(charts) if charts else ""


def _phases(workload: Workload) -> str:
    """Bars of at most ten nodes, those that take longest by themselves first."""
    own = {node: sum(said.values()) - said.get("communication", 0.0) for node, said in workload.phases.items()}
    shown = sorted(own, key=lambda node: -own[node])[:WORST]
    return chart.bars({node: workload.phases[node] for node in shown}, "s")


def _kubernetes(report: Report) -> str:
    """Where the time before the first step went, beside the median of the baseline."""
    newest = report.runs[-1][0]
    charts = []
    for name, workload in newest.workloads.items():
        if not workload.kubernetes:
            continue
        before: dict[str, list[float]] = {}
        for run in report.baseline.runs:
            for part, seconds in run.workloads.get(name, Workload()).kubernetes.items():
                before.setdefault(part, []).append(seconds)
        rows = {newest.name: dict(workload.kubernetes)}
        if before:
            rows["baseline, median"] = {part: float(np.median(seconds)) for part, seconds in before.items()}
        charts.append(_figure(name, "from creation to the first step", chart.bars(rows, "s")))
    return _grid(charts)


def _needs(report: Report) -> str:
    return _list([need(found) for found in report.verdict.needs])


def _fingerprint(report: Report) -> str:
    rows = [(part, key, value) for part, said in report.baseline.fingerprint.items() for key, value in said.items()]
    return _table(("", "", "baseline"), rows)


def _change(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.change:+.1%}, {chance(row.adjusted)}" if row.slower else f"{row.change:+.1%}"


def _figure(title: str, note: str, drawn: str) -> str:
    return f"<figure><figcaption><b>{escape(title)}</b> <span>{escape(note)}</span></figcaption>{drawn}</figure>"


def _grid(figures: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>' if figures else ""


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], bad: Sequence[bool] = ()) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = []
    for at, row in enumerate(rows):
        kind = ' class="bad"' if at < len(bad) and bad[at] else ""
        lines.append(f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
