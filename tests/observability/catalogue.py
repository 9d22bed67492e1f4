"""Metrics that are known (exporters' catalogues, the trainer's contract), and queries for them (rules, dashboards)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HOME = Path(__file__).resolve().parents[2]
BASE = HOME / "base/observability"
CATALOGUES = sorted((HOME / "schemas/metrics").glob("*.yaml"))
CONTRACT = HOME / "schemas/trainer-metrics.yaml"
COUNTERS = HOME / "base/gpu-operator/config-map-dcgm-metrics.yaml"

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
"""A variable of a dashboard, in a query."""

DURATIONS = ("__rate_interval", "__interval", "__range")


def read(file: Path) -> Any:
    """The one document of a YAML file."""
    return yaml.safe_load(file.read_text())


@dataclass(frozen=True, slots=True)
class Metric:
    """A series that may stand in a query."""

    name: str
    type: str
    """gauge or counter, as functions see it: the parts of a summary or histogram are counters."""
    labels: frozenset[str]
    exporter: str


@dataclass(frozen=True, slots=True)
class Query:
    """An expression of a rule or a panel."""

    where: str
    expression: str


def series(name: str, kind: str, labels: frozenset[str], exporter: str) -> Iterator[Metric]:
    """The series of one metric: a summary and a histogram have several."""
    match kind:
        case "gauge" | "counter":
            yield Metric(name, kind, labels, exporter)
        case "summary":
            for part in ("sum", "count"):
                yield Metric(f"{name}_{part}", "counter", labels, exporter)
        case "histogram":
            for part in ("sum", "count"):
                yield Metric(f"{name}_{part}", "counter", labels, exporter)
            yield Metric(f"{name}_bucket", "counter", labels | {"le"}, exporter)
        case _:
            raise AssertionError(f"{name} has no such type as {kind}")


def known_metrics() -> dict[str, Metric]:
    """Every series that some exporter or the trainer writes, or a recording rule, by name."""
    found: dict[str, Metric] = {}
    for file in CATALOGUES:
        catalogue = read(file)
        shared = {*catalogue["labels"], *catalogue["targetLabels"]}
        for name, metric in catalogue["metrics"].items():
            labels = frozenset(shared | set(metric.get("labels", [])))
            for one in series(name, metric["type"], labels, catalogue["exporter"]):
                assert one.name not in found, f"{one.name} stands in two catalogues"
                found[one.name] = one
    target = set(read(HOME / "schemas/metrics/prometheus.yaml")["targetLabels"])
    for metric in read(CONTRACT)["metrics"]:
        labels = frozenset(target | set(metric.get("labels", [])))
        found |= {one.name: one for one in series(metric["name"], metric["type"], labels, "trainer")}
    for rule in rules():
        if "record" in rule:
            labels = frozenset({"namespace", "job", "pod", "rank", "node", "gpu"})
            found[rule["record"]] = Metric(rule["record"], "gauge", labels, "recording")
    return found


def rules() -> list[dict[str, Any]]:
    """Every recording and alert rule."""
    files = sorted(BASE.glob("prometheus-rule-*.yaml"))
    return [rule for file in files for group in read(file)["spec"]["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Every alert rule by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def dashboards() -> dict[str, dict[str, Any]]:
    """Every dashboard by the name of its file."""
    return {file.name: json.loads(file.read_text()) for file in sorted((BASE / "dashboards").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a dashboard that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def as_prometheus_gets(expression: str) -> str:
    """A panel's expression with its variables filled in."""
    return VARIABLE.sub(lambda found: "5m" if (found[1] or found[2]) in DURATIONS else "some", expression)


def queries() -> list[Query]:
    """Every PromQL expression of the rules, the panels and the variables of dashboards."""
    found = [Query(rule.get("alert") or rule["record"], str(rule["expr"])) for rule in rules()]
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                if target["datasource"]["type"] == "prometheus":
                    found.append(Query(f"{name}: {panel['title']}", as_prometheus_gets(target["expr"])))
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                selected = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
                assert selected, variable
                found.append(Query(f"{name}: ${variable['name']}", as_prometheus_gets(selected[1])))
    return found


def custom_counters() -> dict[str, str]:
    """The fields that dcgm-exporter is asked for, and the type of each."""
    lines = read(COUNTERS)["data"]["dcgm-metrics.csv"].splitlines()
    rows = [line.split(",", 2) for line in lines if not line.startswith("#")]
    assert all(len(row) == 3 for row in rows), "dcgm-exporter reads three columns"
    found = {name.strip(): kind.strip() for name, kind, _ in rows}
    assert len(found) == len(rows), "a field is asked for twice"
    return found
