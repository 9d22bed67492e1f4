"""What NetworkPolicies close between the pods of a job, and between them and the cluster's DNS."""

from collections.abc import Iterator
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.rules.common.meetings import Meeting, meetings
from trainyard.rules.common.once import once
from trainyard.rules.common.places import value_at
from trainyard.rules.common.starts import one_world
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.network import EPHEMERAL_PORTS, Answer, peers_reach, policies_for, reaches, reaches_dns
from trainyard.workload.plain import entries, mapping
from trainyard.workload.services import Means

_DNS_PORT = 53
_TENSORFLOW_PORT = range(2222, 2223)
_DENIES = "denies what no rule allows"


@rule("NET001", "peer-port-closed", Severity.ERROR, needs=Workload)
def peer_port_closed(workload: Workload) -> Iterator[Problem]:
    """NetworkPolicies let the pods of a job reach each other on some ports only, or not at all.

    The rendezvous port is only where ranks first meet. NCCL and Gloo then connect every rank to others on ports that
    the kernel picks, so a list of ports closes them: the first collective hangs. Both ends count: a pod that is under a
    policy for egress needs its peers there too. A pod on the host's network has its node's address: no podSelector
    finds it, though no policy holds for it either.

    Bad:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  trainyard.dev/job: llama-sft
            ports:
            - port: 29400

    Good:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  trainyard.dev/job: llama-sft

    Near miss:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  batch.kubernetes.io/job-name: llama-sft
            ports:
            - port: 1024
              endPort: 65535

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#networking-issues
    """
    if not one_world(workload):
        return
    answer = peers_reach(workload, _TENSORFLOW_PORT if workload.object.kind == "TFJob" else EPHEMERAL_PORTS)
    if answer.allowed is not False or any(_closed(workload, meeting) for meeting in meetings(workload)):
        return
    narrow = _open_ports(answer)
    if narrow:
        message = f"pods of the job reach each other only on port {narrow}, but NCCL and Gloo use any port"
    else:
        message = "no NetworkPolicy lets the pods of the job reach each other"
    on_node = any(pod_set.host_network for pod_set in workload.pod_sets)
    yield Problem(
        message,
        answer.spots[0].saying("closes the ports that ranks use" if narrow else _DENIES),
        tuple(spot.saying("closes them too" if narrow else _DENIES) for spot in answer.spots[1:]),
        "allow all ports between the pods of the job, for ingress and for egress"
        + "; no podSelector finds pods on the host's network: name their nodes by ipBlock" * on_node,
    )


@rule("NET002", "rendezvous-port-closed", Severity.ERROR, needs=Workload)
@once
def rendezvous_port_closed(workload: Workload) -> Iterator[Problem]:
    """The rendezvous port is not among the ports that NetworkPolicies open between the pods of a job.

    Every rank dials this port on the first pod. Where it is closed nobody gets past the rendezvous, and the job times
    out after minutes without a word about the policy.

    Bad:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  trainyard.dev/job: llama-sft
            ports:
            - port: 29500

    Good:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  trainyard.dev/job: llama-sft

    Near miss:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-peers
        spec:
          ingress:
          - from:
            - podSelector:
                matchLabels:
                  trainyard.dev/job: llama-sft
            ports:
            - port: 29000
              endPort: 61000

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    for meeting in meetings(workload):
        answer = _closed(workload, meeting)
        if answer is None:
            continue
        port, ports = meeting.port.value, _open_ports(answer)
        policies = ", ".join(dict.fromkeys(spot.object.name for spot in answer.spots))
        yield Problem(
            f"rendezvous port {port} is closed by NetworkPolicy {policies}, which opens {ports}",
            meeting.port.spot.saying("every rank dials this port on the first pod"),
            tuple(spot.saying("the only ports allowed between peers") for spot in answer.spots),
            f"allow all ports between the pods of the job; at least {port}, but NCCL and Gloo use any",
        )


def _closed(workload: Workload, meeting: Meeting) -> Answer | None:
    """The answer that closes the port where pods meet, where policies open other ports to them."""
    port = meeting.port.value
    target = next((pod_set for pod_set in workload.pod_sets if pod_set.role == meeting.means.role), None)
    if not port or target is None or meeting.means.means is not Means.POD:
        return None
    if target is meeting.start.pod_set and target.count.value == 1:
        return None
    answer = reaches(workload, meeting.start.pod_set, target, range(port, port + 1))
    return answer if answer.allowed is False and _open_ports(answer) else None


def _open_ports(answer: Answer) -> str:
    """The ports that the deciding rules list, as text; empty where no rule speaks of the peer at all."""
    found: dict[str, None] = {}
    for spot in answer.spots:
        for _, port in entries(value_at(spot)):
            first, last = port.get("port"), port.get("endPort")
            found[str(first) if last is None else f"{first}-{last}"] = None
    return ", ".join(found)


@rule("NET003", "dns-egress-closed", Severity.ERROR, needs=Workload)
@once
def dns_egress_closed(workload: Workload) -> Iterator[Problem]:
    """The pods may not ask the cluster's DNS.

    Ranks find each other by name. A policy for egress closes everything that no rule opens, DNS too: names fail to
    resolve, which looks like a missing Service.

    Bad:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-dns
        $patch: delete

    Good:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-dns
        spec:
          egress:
          - to:
            - namespaceSelector:
                matchLabels:
                  kubernetes.io/metadata.name: kube-system
            ports:
            - protocol: UDP
              port: 53

    Near miss:

        kind: NetworkPolicy
        metadata:
          name: llama-sft-dns
        spec:
          egress:
          - ports:
            - protocol: UDP
              port: 53
            - protocol: TCP
              port: 53

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    if not one_world(workload):
        return
    for pod_set in workload.pod_sets:
        answer = reaches_dns(workload, pod_set)
        if answer.allowed is not False or _opens_named_dns(workload, pod_set):
            continue
        yield Problem(
            "the pods may not reach the cluster's DNS, but find each other by name",
            answer.spots[0].saying("closes UDP port 53"),
            tuple(spot.saying("closes it too") for spot in answer.spots[1:]),
            "allow egress to namespace kube-system, pods k8s-app: kube-dns, UDP and TCP port 53",
        )


def _opens_named_dns(workload: Workload, pod_set: PodSet) -> bool:
    """True where a policy of these pods opens egress to what the cluster's facts call its DNS, whoever that is."""
    facts = mapping(workload.cluster.data.get("spec")) if workload.cluster is not None else {}
    servers = mapping(facts.get("network")).get("dns")
    return bool(servers) and any(
        egress.get("to") == servers and _lets_dns_through(egress.get("ports"))
        for policy in policies_for(workload, pod_set)
        if "egress" in policy.isolates
        for _, egress in entries(mapping(policy.object.data.get("spec")).get("egress"))
    )


def _lets_dns_through(ports: Any) -> bool:
    """Whether UDP port 53 is among the ports of a rule; a rule without ports is for all of them."""
    listed = [port for _, port in entries(ports)]
    return not listed or any(
        port.get("protocol") == "UDP" and port.get("port") in (None, _DNS_PORT, str(_DNS_PORT)) for port in listed
    )
