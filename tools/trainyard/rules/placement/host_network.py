"""Pods on the node's own network: the names that they can resolve, and the ports that they share."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.meetings import meetings
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Setting, Workload
from trainyard.workload.plain import entries, text
from trainyard.workload.services import Means

_NODE_DNS = (None, "ClusterFirst")
"""Policies that mean the node's DNS on the node's network."""


@rule("PLC006", "host-network-without-cluster-dns", Severity.ERROR, needs=Workload, fix="safe")
@once
def host_network_without_cluster_dns(workload: Workload) -> Iterator[Problem]:
    """Pods look names up in the node's DNS, and meet under a name that only the cluster's DNS knows.

    On the node's network, `dnsPolicy: ClusterFirst`, the default, means the node's DNS. Names of Services and pods are
    not resolved there, and the ranks never meet. `dnsPolicy: Default` does the same on any network.

    Bad:
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Good:
        kind: Job
        spec: {template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {dnsPolicy: ClusterFirst}}}

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
    """
    for pod_set in workload.pod_sets:
        policy = pod_set.spec.get("dnsPolicy")
        name = _dialled_by_name(workload, pod_set)
        if name is None or not (policy == "Default" or (pod_set.host_network and policy in _NODE_DNS)):
            continue
        where = "on the node's network" if pod_set.host_network else "with dnsPolicy Default"
        yield Problem(
            f"pods {where} ask the node's DNS, which does not know {name.value}",
            pod_set.template.below("spec", "dnsPolicy", label="asks the node's DNS"),
            (name.spot.saying("dialled by name"),),
            f"set dnsPolicy: {'ClusterFirstWithHostNet' if pod_set.host_network else 'ClusterFirst'}",
            put(
                pod_set.template.below("spec", "dnsPolicy"),
                "ClusterFirstWithHostNet" if pod_set.host_network else "ClusterFirst",
            ),
        )


def _dialled_by_name(workload: Workload, pod_set: PodSet) -> Setting | None:
    """A name of the cluster's that these pods dial; None where they dial none, or nothing is known of it."""
    for meeting in meetings(workload):
        named = meeting.means.means in (Means.POD, Means.SERVICE)
        if named and meeting.start.pod_set.role == pod_set.role:
            return meeting.host
    dialled = {("MPIJob", "launcher"): "the workers' names", ("TFJob", pod_set.role): "the names in TF_CONFIG"}
    if workload.object.kind in ("RayCluster", "RayJob") and pod_set.role != "head":
        return Setting("the head's Service", workload.object.at("metadata", "name"))
    told = dialled.get((workload.object.kind, pod_set.role))
    return None if told is None or workload.pods == 1 else Setting(told, workload.object.at("metadata", "name"))


@rule("PLC007", "node-port-taken-twice", Severity.ERROR, needs=Workload, fix="safe")
@once
def node_port_taken_twice(workload: Workload) -> Iterator[Problem]:
    """Two containers of a pod share a port of the node, or a pod on the node's network asks for another port there.

    Containers of one pod have one network: the second that listens on a port fails. On the node's network a hostPort
    must equal its containerPort, and the API server refuses anything else.

    Bad:
        kind: Job
        spec: {template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, containers: [
          {name: trainer, ports: [{containerPort: 29400, hostPort: 30400}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, containers: [
          {name: trainer, ports: [{containerPort: 29400, hostPort: 29400}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{containerPort: 29400, hostPort: 30400}]}]}}}

    Source: https://kubernetes.io/docs/concepts/workloads/pods/#pod-networking
    """
    for pod_set in workload.pod_sets:
        seen: dict[tuple[object, str], Spot] = {}
        for container in pod_set.containers:
            for index, port in entries(container.data.get("ports")):
                spot = container.spot.below("ports", index)
                number, on_node = port.get("containerPort"), port.get("hostPort")
                if pod_set.host_network and isinstance(on_node, int) and on_node != number:
                    yield Problem(
                        f"hostPort {on_node} differs from containerPort {number}, but the pod is on the node's network",
                        spot.below("hostPort", label="refused"),
                        (pod_set.template.below("spec", "hostNetwork"),),
                        "leave hostPort out, or make it the same",
                        put(spot.below("hostPort"), number),
                    )
                key = (number, text(port.get("protocol")) or "TCP")
                if isinstance(number, int) and seen.setdefault(key, spot).path[:-2] != spot.path[:-2]:
                    yield Problem(
                        f"two containers of a pod listen on port {number}",
                        spot.below("containerPort", label="taken already"),
                        (seen[key].below("containerPort", label="taken here"),),
                        "give one of them another port",
                    )
