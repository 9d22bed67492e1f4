"""Names of metrics in alerts and recording rules, against what the exporters of these versions say."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import yaml

from trainyard.findings.finding import Severity
from trainyard.home import HOME
from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import entries, mapping, strings, text

_FOLDER = HOME / "schemas" / "metrics"
_NAME = re.compile(r"\bDCGM_[A-Z0-9_]+\b")
_COUNTED = re.compile(r"\b(?:rate|irate|increase)\(\s*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)")
_JOB_LABEL = re.compile(r"\b(?P<name>kube_job_\w+)\{[^{}]*?(?<![\w])job\s*(?:=~|=)\s*\"(?P<value>[^\"]*)\"")
_TAG = re.compile(r"dcgm-exporter[^\s:]{0,200}:(?:[0-9.]+-)?(?P<version>[0-9]+\.[0-9]+\.[0-9]+)(?=-|@|\s|$|\")")
_VERSION = re.compile(r"(?:[0-9]+\.[0-9]+\.[0-9]+-)?(?P<version>[0-9]+\.[0-9]+\.[0-9]+)(?=-|$)")
_RENAMED_IN = (4, 9)
_LABELS_IN_KUBE_STATE = "kube-state"


@dataclass(frozen=True, slots=True)
class Exporter:
    """The dcgm-exporter that manifests show."""

    version: tuple[int, ...]
    spot: Spot

    @property
    def renamed(self) -> bool:
        """Whether its metrics have the names of 4.9.0."""
        return self.version[:2] >= _RENAMED_IN


@rule("MET001", "metric-of-another-version", Severity.ERROR, needs=Unit)
@once
def metric_of_another_version(unit: Unit) -> Iterator[Problem]:
    """An alert or recording rule names a GPU metric that the exporter does not have under this name.

    dcgm-exporter 4.9.0 gave 23 metrics other names, and 11 of them other units. A rule on a name that does not exist
    has no series: it never fires, and looks healthy. Without an exporter among the manifests, a name that is nearly a
    known one, and both generations of names side by side, are told.

    Bad:
        # whole
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: dcgm-exporter}
        spec: {template: {spec: {containers: [
          {name: exporter, image: "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-ubi9"}]}}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{alert: GpuHot, expr: DCGM_FI_DEV_GPU_TEMP_CELSIUS > 85}]}]}
    Good:
        # whole
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: dcgm-exporter}
        spec: {template: {spec: {containers: [
          {name: exporter, image: "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-ubi9"}]}}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{alert: GpuHot, expr: DCGM_FI_DEV_GPU_TEMP > 85}]}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [
          {alert: GpuMetricsMissing, expr: absent(DCGM_FI_DEV_GPU_UTIL) and absent(DCGM_FI_DEV_GPU_UTIL_RATIO)}]}]}

    Source: https://github.com/NVIDIA/dcgm-exporter/blob/main/CHANGELOG.md
    """
    expressions = list(_expressions(unit))
    exporter = _exporter(unit) if expressions else None
    for expression, spot in expressions:
        for name in sorted(_alone(expression)):
            if exporter is not None and name in _renames() and _is_new(name) != exporter.renamed:
                yield Problem(
                    f"dcgm-exporter {_shown(exporter)} has no {name}: it calls it {_renames()[name]}",
                    spot.saying("no such series, so this never fires"),
                    (exporter.spot.saying("the exporter"),),
                    f"write {_renames()[name]}, and look at its unit",
                )
            near = _nearly_known(unit, name)
            if near:
                yield Problem(
                    f"{name} is not a metric of dcgm-exporter",
                    spot.saying("no such series, so this never fires"),
                    help=f"did you mean {near}?",
                )
    if exporter is None:
        yield from _two_generations(expressions)


def _two_generations(expressions: list[tuple[str, Spot]]) -> Iterator[Problem]:
    """Names from before and after the renaming, in rules that are evaluated on the same exporter."""
    used = [
        (name, spot) for expression, spot in expressions for name in sorted(_alone(expression)) if name in _renames()
    ]
    old = [(name, spot) for name, spot in used if not _is_new(name)]
    new = [(name, spot) for name, spot in used if _is_new(name)]
    if old and new:
        fewer, more = (new, old) if len(new) <= len(old) else (old, new)
        name, spot = fewer[0]
        yield Problem(
            f"no dcgm-exporter has both {name} and {more[0][0]}: 4.9.0 gave them other names",
            spot.saying("one of the two has no series"),
            tuple(other.saying("the other generation of names") for _, other in (*fewer[1:], *more)),
            f"write {_renames()[name]}, or join both names with `or`",
        )


@rule("MET002", "metric-not-switched-on", Severity.ERROR, needs=Unit)
@once
def metric_not_switched_on(unit: Unit) -> Iterator[Problem]:
    """A rule names a GPU metric that the exporter has, but does not export unless it is told to.

    dcgm-exporter exports the fields of its counters file. Others need a file of one's own, in a ConfigMap. A rule on a
    metric that is not exported never fires.

    Bad:
        # whole
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: dcgm-exporter}
        spec: {template: {spec: {containers: [
          {name: exporter, image: "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-ubi9"}]}}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{record: gpu:sm, expr: avg(DCGM_FI_PROF_SM_ACTIVE)}]}]}
    Good:
        # whole
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: dcgm-exporter}
        spec: {template: {spec: {containers: [
          {name: exporter, image: "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-ubi9"}]}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: counters}
        data: {dcgm-metrics.csv: "DCGM_FI_PROF_SM_ACTIVE, gauge, ratio of active SMs"}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{record: gpu:sm, expr: avg(DCGM_FI_PROF_SM_ACTIVE)}]}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{record: gpu:sm, expr: avg(DCGM_FI_PROF_SM_ACTIVE)}]}]}

    Source: https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv
    """
    expressions = list(_expressions(unit))
    exporter = _exporter(unit) if expressions else None
    for expression, spot in expressions if exporter is not None else ():
        for name in sorted(set(_NAME.findall(expression))):
            facts = _dcgm().get(name)
            if exporter is None or facts is None or facts.get("default") is True or name in _said_by_config(unit):
                continue
            yield Problem(
                f"dcgm-exporter does not export {name} by default, and no counters file asks for it",
                spot.saying("no such series, so this never fires"),
                (exporter.spot.saying("the exporter"),),
                f"add {name} to a counters file in a ConfigMap, and give it to the exporter",
            )


@rule("MET003", "rate-of-a-gauge", Severity.WARNING, needs=Unit)
@once
def rate_of_a_gauge(unit: Unit) -> Iterator[Problem]:
    """A rule takes the rate or the increase of a metric that goes up and down.

    `rate`, `irate` and `increase` take every fall for a restart of a counter, and add it up: the result means
    nothing. Gauges have `delta`, `deriv` and `changes`.

    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{alert: Xid, expr: "increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0"}]}]}
    Good:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{alert: Xid, expr: "changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0"}]}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: gpu}
        spec: {groups: [{name: gpu, rules: [{alert: Replays, expr: "rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[15m]) > 1"}]}]}

    Source: https://prometheus.io/docs/prometheus/latest/querying/functions/#rate
    """
    for expression, spot in _expressions(unit):
        for match in _COUNTED.finditer(expression):
            name = match["name"]
            if mapping(_metrics().get(name)).get("type") == "gauge":
                yield Problem(
                    f"{name} is a gauge, and {match[0].partition('(')[0]}() is for counters",
                    spot.saying("falls are taken for restarts"),
                    help="use changes(), delta() or deriv()",
                )


@rule("MET004", "job-is-not-the-job", Severity.ERROR, needs=Unit)
@once
def job_is_not_the_job(unit: Unit) -> Iterator[Problem]:
    """A rule looks for a Job by the label `job`, which is the name of the scrape job.

    kube-state-metrics gives the name of a Job as `job_name`. `job` is Prometheus' own: it says who was scraped. The
    rule finds no series and never fires.

    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: jobs}
        spec: {groups: [{name: jobs, rules: [
          {alert: Failed, expr: 'kube_job_status_failed{job="llama-sft"} > 0'}]}]}
    Good:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: jobs}
        spec: {groups: [{name: jobs, rules: [
          {alert: Failed, expr: 'kube_job_status_failed{job_name="llama-sft"} > 0'}]}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: jobs}
        spec: {groups: [{name: jobs, rules: [
          {alert: Failed, expr: 'kube_job_status_failed{job="kube-state-metrics"} > 0'}]}]}

    Source: https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/job-metrics.md
    """
    for expression, spot in _expressions(unit):
        for match in _JOB_LABEL.finditer(expression):
            if _LABELS_IN_KUBE_STATE not in match["value"]:
                yield Problem(
                    f"{match['name']} names its Job in job_name, not in job",
                    spot.saying("job is the scrape job"),
                    help=f'write job_name="{match["value"]}"',
                )


def _expressions(unit: Unit) -> Iterator[tuple[str, Spot]]:
    for item in unit.objects:
        if (item.group, item.kind) != ("monitoring.coreos.com", "PrometheusRule"):
            continue
        for index, group in entries(mapping(item.data.get("spec")).get("groups")):
            for position, each in entries(group.get("rules")):
                if isinstance(each.get("expr"), str):
                    yield each["expr"], item.at("spec", "groups", index, "rules", position, "expr")


def _exporter(unit: Unit) -> Exporter | None:
    for item in (*unit.objects, *(unit.platform or ())):
        found = _exporter_of(item)
        if found is not None:
            return found
    return None


def _exporter_of(item: Object) -> Exporter | None:
    spec = mapping(item.data.get("spec"))
    if item.kind == "ClusterPolicy":
        match = _VERSION.match(text(mapping(spec.get("dcgmExporter")).get("version")))
        spot = item.at("spec", "dcgmExporter", "version")
        return None if match is None else Exporter(_numbers(match["version"]), spot)
    for index, container in entries(mapping(mapping(spec.get("template")).get("spec")).get("containers")):
        match = _TAG.search(text(container.get("image")))
        if match is not None:
            spot = item.at("spec", "template", "spec", "containers", index, "image")
            return Exporter(_numbers(match["version"]), spot)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:6]) for part in version.split("."))


def _shown(exporter: Exporter) -> str:
    return ".".join(str(part) for part in exporter.version)


def _said_by_config(unit: Unit) -> str:
    """All that ConfigMaps say about the exporter's fields, as one text."""
    maps = (item for item in (*unit.objects, *(unit.platform or ())) if item.kind == "ConfigMap")
    return "\n".join(value for item in maps for value in strings(item.data.get("data")).values() if "DCGM_" in value)


def _alone(expression: str) -> set[str]:
    """The GPU metrics of an expression, without those that stand there under both of their names."""
    names = set(_NAME.findall(expression))
    return {name for name in names if _renames().get(name) not in names}


def _nearly_known(unit: Unit, name: str) -> str:
    """The metric that a name which nobody knows is nearly."""
    known = [*_dcgm(), *_renames()]
    if name in known or name in _said_by_config(unit):
        return ""
    return next(iter(get_close_matches(name, known, 1, 0.88)), "")


def _is_new(name: str) -> bool:
    return name not in _dcgm()


@cache
def _renames() -> Mapping[str, str]:
    """Each name that 4.9.0 changed, with its other one, both ways."""
    pairs = [(old, new) for old, facts in _dcgm().items() if (new := text(facts.get("new"))) and new != old]
    return dict(pairs) | {new: old for old, new in pairs}


def _dcgm() -> Mapping[str, Mapping[str, Any]]:
    return {name: facts for name, facts in _metrics().items() if name.startswith("DCGM_")}


@cache
def _metrics() -> Mapping[str, Mapping[str, Any]]:
    """Facts about every metric in schemas/metrics, by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = (yaml.load(file.read_text(encoding="utf-8"), Loader=loader) for file in sorted(_FOLDER.glob("*.yaml")))
    return {name: mapping(facts) for each in documents for name, facts in mapping(each.get("metrics")).items()}
