"""Whether Prometheus gets through to the pods that it is told to scrape."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.once import once
from trainyard.rules.monitoring.scrape_targets import GROUP, endpoints, in_scope
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.network import policies_for
from trainyard.workload.plain import entries, mapping, sequence, text
from trainyard.workload.selectors import pod_labels, selects


@rule("MON006", "scrape-closed", Severity.WARNING, needs=Workload)
@once
def scrape_closed(workload: Workload) -> Iterator[Problem]:
    """Pods are to be scraped, and NetworkPolicies let nobody of another namespace reach their port for metrics.

    Prometheus runs in a namespace of its own. A policy for ingress that opens the pods to one another alone closes them
    to it: the targets are down, dashboards are empty, and alerts on the job's metrics never fire.

    Bad:
        kind: PodMonitor
        apiVersion: monitoring.coreos.com/v1
        metadata: {name: training, namespace: research}
        spec: {selector: {matchLabels: {trainyard.dev/job: llama-sft}}, podMetricsEndpoints: [{port: metrics}]}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: metrics, containerPort: 9090}]}]}}}
    Good:
        kind: PodMonitor
        apiVersion: monitoring.coreos.com/v1
        metadata: {name: training, namespace: research}
        spec: {selector: {matchLabels: {trainyard.dev/job: llama-sft}}, podMetricsEndpoints: [{port: metrics}]}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: metrics, containerPort: 9090}]}]}}}
        ---
        kind: NetworkPolicy
        apiVersion: networking.k8s.io/v1
        metadata: {name: llama-sft-metrics, namespace: research}
        spec:
          podSelector: {}
          policyTypes: [Ingress]
          ingress:
          - from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
            ports: [{port: 9090}]
    Near miss:
        kind: PodMonitor
        apiVersion: monitoring.coreos.com/v1
        metadata: {name: training, namespace: research}
        spec: {selector: {matchLabels: {trainyard.dev/job: another}}, podMetricsEndpoints: [{port: metrics}]}

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    own = workload.object.namespace
    if any(item.kind == "Prometheus" and item.namespace == own for item in workload.objects):
        return
    for monitor in _pod_monitors(workload):
        for pod_set in workload.pod_sets:
            if selects(mapping(monitor.data.get("spec")).get("selector"), pod_labels(pod_set)) is not True:
                continue
            for spot, endpoint in endpoints(monitor):
                number = _number(pod_set, endpoint)
                closed = _closing(workload, pod_set, number) if number is not None else ()
                if closed:
                    yield Problem(
                        f"no NetworkPolicy lets another namespace reach port {number}, which {monitor.name} scrapes",
                        closed[0].saying("denies what no rule allows"),
                        (spot.saying("scraped from Prometheus' namespace"), *closed[1:]),
                        f"allow ingress to port {number} from the namespace of Prometheus",
                    )


def _pod_monitors(workload: Workload) -> Iterator[Object]:
    """The PodMonitors that look in the namespace of the job."""
    for item in workload.objects:
        if (item.group, item.kind) == (GROUP, "PodMonitor") and in_scope(item, workload.object.namespace):
            yield item


def _number(pod_set: PodSet, endpoint: Mapping[Any, Any]) -> int | None:
    """The port that an endpoint means on these pods."""
    for container in pod_set.containers:
        for _, port in entries(container.data.get("ports")):
            if port.get("name") == endpoint.get("port") and isinstance(port.get("containerPort"), int):
                return int(port["containerPort"])
    return None


def _closing(workload: Workload, pod_set: PodSet, number: int) -> tuple[Spot, ...]:
    """The policies that keep every other namespace from a port; none where one lets somebody through."""
    policies = [policy for policy in policies_for(workload, pod_set) if "ingress" in policy.isolates]
    if any(_opens(policy.object, number, pod_set) for policy in policies):
        return ()
    return tuple(policy.object.at("spec", "podSelector") for policy in policies if policy.certain)


def _opens(policy: Object, number: int, pod_set: PodSet) -> bool:
    for _, allowed in entries(mapping(policy.data.get("spec")).get("ingress")):
        peers = sequence(allowed.get("from"))
        outside = not peers or any("namespaceSelector" in mapping(peer) or "ipBlock" in mapping(peer) for peer in peers)
        ports = [port for _, port in entries(allowed.get("ports"))]
        if outside and (not ports or any(_is_port(port, number, pod_set) for port in ports)):
            return True
    return False


def _is_port(port: Mapping[Any, Any], number: int, pod_set: PodSet) -> bool:
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, str):
        named = {"port": text(first)}
        return _number(pod_set, named) in (number, None)
    return first is None or (isinstance(first, int) and first <= number <= (last if isinstance(last, int) else first))
