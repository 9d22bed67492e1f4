"""What the monitors of Prometheus may scrape: Services, and pods of jobs and of other templates."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.workload.of_unit import workloads
from trainyard.workload.plain import entries, mapping, sequence, strings, text
from trainyard.workload.selectors import Labels, pod_labels

GROUP = "monitoring.coreos.com"
_ENDPOINTS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}
_TEMPLATES = ("Deployment", "DaemonSet", "StatefulSet")
_DURATION = re.compile(r"(?<![0-9])([0-9]+)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


@dataclass(frozen=True, slots=True)
class Target:
    """A Service, or the pods of a template."""

    namespace: str
    labels: Labels
    ports: Mapping[str, Any]
    """Port by name."""
    spot: Spot
    """Where its labels stand."""
    ports_spot: Spot


def objects(unit: Unit) -> tuple[Object, ...]:
    """Everything that is known, the platform included."""
    return (*unit.objects, *(unit.platform or ()))


def monitors(unit: Unit) -> Iterator[Object]:
    """The ServiceMonitors and PodMonitors of a unit."""
    yield from (item for item in unit.objects if item.group == GROUP and item.kind in _ENDPOINTS)


def endpoints(monitor: Object) -> Iterator[tuple[Spot, Mapping[Any, Any]]]:
    """What a monitor scrapes of each target, with its place."""
    field = _ENDPOINTS[monitor.kind]
    for index, endpoint in entries(mapping(monitor.data.get("spec")).get(field)):
        yield monitor.at("spec", field, index), endpoint


def targets(unit: Unit, kind: str) -> Iterator[Target]:
    """What a monitor of a kind may select: Services, or pods."""
    if kind == "ServiceMonitor":
        for item in objects(unit):
            if (item.kind, item.api_version) == ("Service", "v1"):
                named = entries(mapping(item.data.get("spec")).get("ports"))
                ports = {text(port.get("name")): port for _, port in named if port.get("name")}
                place = item.at("metadata", "labels")
                yield Target(item.namespace, Labels(labels_of(item)), ports, place, item.at("spec", "ports"))
        return
    yield from _pods(unit)


def _pods(unit: Unit) -> Iterator[Target]:
    for workload in workloads(unit):
        for pod_set in workload.pod_sets:
            ports = {text(port.get("name")): port for each in pod_set.containers for port in _ports(each.data)}
            spec = pod_set.template.below("spec", "containers")
            place = pod_set.template.below("metadata", "labels")
            yield Target(workload.object.namespace, pod_labels(pod_set), ports, place, spec)
    for item in objects(unit):
        if item.kind not in _TEMPLATES or item.group != "apps":
            continue
        template = mapping(mapping(item.data.get("spec")).get("template"))
        labels = strings(mapping(template.get("metadata")).get("labels"))
        listed = entries(mapping(template.get("spec")).get("containers"))
        ports = {text(port.get("name")): port for _, each in listed for port in _ports(each)}
        place = item.at("spec", "template", "metadata", "labels")
        yield Target(item.namespace, Labels(labels), ports, place, item.at("spec", "template", "spec", "containers"))


def _ports(container: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    yield from (port for _, port in entries(container.get("ports")) if port.get("name"))


def scope(monitor: Object) -> str:
    """The namespaces that a monitor looks in, as words."""
    names = [name for name in sequence(_namespaces(monitor).get("matchNames")) if isinstance(name, str)]
    return " or ".join(names) or monitor.namespace or "default"


def in_scope(monitor: Object, namespace: str) -> bool:
    """Whether a monitor looks in a namespace; True where it cannot be known."""
    selector = _namespaces(monitor)
    if selector.get("any") is True or not namespace:
        return True
    names = sequence(selector.get("matchNames")) or [monitor.namespace]
    return namespace in names or "" in names


def _namespaces(monitor: Object) -> Mapping[Any, Any]:
    return mapping(mapping(monitor.data.get("spec")).get("namespaceSelector"))


def labels_of(item: Object) -> dict[str, str]:
    """The labels of an object."""
    return strings(mapping(item.data.get("metadata")).get("labels"))


def seconds(value: Any) -> float | None:
    """A duration of Prometheus, such as `1m30s`, in seconds; None where it is none."""
    found = _DURATION.findall(text(value))
    if not found or "".join(number + unit for number, unit in found) != value:
        return None
    return sum(int(number[:12]) * _SECONDS[unit] for number, unit in found)
