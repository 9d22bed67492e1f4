"""Ports of Services against those of the pods behind them."""

from collections.abc import Iterator
from difflib import get_close_matches

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.once import once
from trainyard.rules.common.remedies import held
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries, mapping, text
from trainyard.workload.services import headless, selects_pods


@rule("NET005", "target-port-unknown", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def target_port_unknown(workload: Workload) -> Iterator[Problem]:
    """A Service sends to a port by a name that no container of its pods gives a port.

    The Service has no endpoint for this port: connections to it are refused, though the pods are there and listen.

    Bad:
        kind: Service
        metadata: {name: dashboard, namespace: research}
        apiVersion: v1
        spec: {clusterIP: null, ports: [{name: http, port: 80, targetPort: dashboard}]}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: metrics, containerPort: 9090}]}]}}}
        ---
        kind: Service
        metadata: {name: metrics, namespace: research}
        apiVersion: v1
        spec: {clusterIP: null, ports: [{name: http, port: 80, targetPort: metric}]}
    Good:
        kind: Service
        metadata: {name: dashboard, namespace: research}
        apiVersion: v1
        spec: {clusterIP: null, ports: [{name: http, port: 80, targetPort: dashboard}]}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: dashboard, containerPort: 8265}]}]}}}
    Near miss:
        kind: Service
        metadata: {name: dashboard, namespace: research}
        apiVersion: v1
        spec: {clusterIP: null, ports: [{name: http, port: 80, targetPort: 8265}]}

    Source: https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports
    """
    for service in workload.of_kind("Service"):
        behind = [pod_set for pod_set in workload.pod_sets if selects_pods(service, pod_set)]
        names = {name for pod_set in behind for name in _port_names(pod_set)}
        if not behind or any(container.by_controller for pod_set in behind for container in pod_set.containers):
            continue
        for index, port in entries(mapping(service.data.get("spec")).get("ports")):
            target = port.get("targetPort")
            if not isinstance(target, str) or target.isdigit() or target in names or headless(service):
                continue
            known = f"only {', '.join(sorted(names))}" if names else "no port with a name"
            yield Problem(
                f"Service {service.name} sends to port {target}, but its pods have {known}",
                service.at("spec", "ports", index, "targetPort", label="no such port"),
                tuple(pod_set.template.below("spec", "containers", label="the pods") for pod_set in behind),
                "give the container's port this name, or write its number",
                _only(service.at("spec", "ports", index, "targetPort"), names),
            )


def _only(spot: Spot, names: set[str]) -> Remedy | None:
    """The port that was meant, or the one that there is."""
    near = get_close_matches(str(held(spot)), names, 1) or (list(names) if len(names) == 1 else [])
    return put(spot, near[0]).saying(f"write {near[0]}").unsafe() if near else None


def _port_names(pod_set: PodSet) -> Iterator[str]:
    for container in (*pod_set.init_containers, *pod_set.containers):
        yield from (text(port.get("name")) for _, port in entries(container.data.get("ports")) if port.get("name"))
