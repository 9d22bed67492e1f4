"""What NetworkPolicies let through between the pods of a job, and what decides it."""

from typing import Any

import pytest
import yaml

from tests.workload.manifests import where, workload
from trainyard.workload.model import Workload
from trainyard.workload.network import (
    ALL_PORTS,
    EPHEMERAL_PORTS,
    Answer,
    peers_reach,
    policies_for,
    reaches,
    reaches_dns,
)

JOB: dict[str, Any] = yaml.safe_load(
    """
apiVersion: batch/v1
kind: Job
metadata: {name: vit, namespace: vision}
spec:
  completionMode: Indexed
  completions: 4
  template:
    metadata: {labels: {app: vit, tier: gold}}
    spec:
      containers:
      - name: trainer
        command: [torchrun, t.py]
        ports: [{name: rdzv, containerPort: 29400}]
"""
)
MINE = {"podSelector": {"matchLabels": {"app": "vit"}}}
RANK_PORT = range(29400, 29401)


def policy(name: str, namespace: str = "vision", selector: Any = None, **spec: Any) -> dict[str, Any]:
    chosen = {"matchLabels": {"app": "vit"}} if selector is None else selector
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": chosen, **spec},
    }


def job(*policies: dict[str, Any], host_network: bool = False, completions: int = 4) -> Workload:
    data = yaml.safe_load(yaml.safe_dump(JOB))
    data["spec"]["completions"] = completions
    data["spec"]["template"]["spec"]["hostNetwork"] = host_network
    return workload(yaml.safe_dump_all([*policies, data]))


def told(answer: Answer) -> tuple[bool | None, list[str]]:
    return answer.allowed, [where(spot) for spot in answer.spots]


DENY = policy("deny", selector={}, policyTypes=["Ingress", "Egress"])
PEERS_OUT = policy("out", policyTypes=["Egress"], egress=[{}])
PEERS = policy("peers", policyTypes=["Ingress", "Egress"], ingress=[{"from": [MINE]}], egress=[{"to": [MINE]}])


def one_way(direction: str, *rules: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"policyTypes": [direction.capitalize()], direction: list(rules)}
    return policy("one", **spec)


def from_pods(**selector: Any) -> dict[str, Any]:
    return one_way("ingress", {"from": [{"podSelector": selector}]})


def from_namespace(**labels: str) -> dict[str, Any]:
    return one_way("ingress", {"from": [{"namespaceSelector": {"matchLabels": labels}}]})


def key(name: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": name, "operator": operator, **({"values": list(values)} if values else {})}


INDEX = {"batch.kubernetes.io/job-completion-index": "0"}


def ports(*items: Any) -> dict[str, Any]:
    return {"from": [MINE], "ports": list(items)}


@pytest.mark.parametrize(
    ("policies", "allowed"),
    [
        ([], True),
        ([DENY], False),
        ([DENY, PEERS], True),
        ([policy("other", selector={"matchLabels": {"app": "other"}}, policyTypes=["Ingress"])], True),
        ([policy("elsewhere", namespace="nlp", selector={})], True),
        ([policy("ingress-by-default")], False),
        ([policy("egress-by-its-rules", ingress=[{}], egress=[{"to": [{"podSelector": {}}]}])], True),
        ([policy("egress-by-its-rules", ingress=[{}], egress=[{"to": [{"namespaceSelector": "x"}]}])], None),
        ([policy("egress-by-its-rules", ingress=[{}], egress=[{"ports": [{"port": 443}]}])], False),
        ([one_way("ingress", {"from": []})], True),
        ([from_pods()], True),
        ([from_namespace(**{"kubernetes.io/metadata.name": "vision"})], True),
        ([from_namespace(**{"kubernetes.io/metadata.name": "nlp"})], False),
        ([from_namespace(team="vision")], None),
        ([one_way("ingress", {"from": [{"namespaceSelector": {}, **MINE}]})], True),
        ([one_way("ingress", {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]})], None),
        ([one_way("egress", {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}, MINE]})], True),
        ([from_pods(matchLabels={"batch.kubernetes.io/job-name": "vit"})], True),
        ([from_pods(matchLabels=INDEX)], None),
        ([policy("rank-0", selector={"matchLabels": INDEX})], None),
        ([from_pods(matchExpressions=[key("tier", "In", "gold")])], True),
        ([from_pods(matchExpressions=[key("tier", "NotIn", "gold")])], False),
        ([from_pods(matchExpressions=[key("app", "Exists"), key("no", "DoesNotExist")])], True),
        ([from_pods(matchExpressions=[key("app", "Like", "vit")])], None),
        ([one_way("ingress", {"from": [{"podSelector": "app=vit"}]})], None),
        ([one_way("ingress", ports({"port": 29400}))], False),
        ([one_way("ingress", ports({"protocol": "TCP"}))], True),
        ([one_way("ingress", ports({"protocol": "UDP"}))], False),
        ([one_way("ingress", ports({"port": 1, "endPort": 40000}), ports({"port": 40001, "endPort": 65535}))], True),
        ([one_way("ingress", ports({"port": 1, "endPort": 40000}), ports({"port": 40002, "endPort": 65535}))], False),
        ([one_way("ingress", ports({"port": "nowhere"}))], None),
        ([one_way("ingress", ports({"port": "rdzv"}))], False),
    ],
)
def test_peers_on_all_ports(policies: list[dict[str, Any]], allowed: bool | None) -> None:
    assert peers_reach(job(*policies), ALL_PORTS).allowed is allowed


@pytest.mark.parametrize("entry", [{"port": 29400}, {"port": "rdzv"}, {"port": 29000, "endPort": 29500}])
def test_one_port_is_open(entry: dict[str, Any]) -> None:
    assert peers_reach(job(one_way("ingress", ports(entry))), RANK_PORT).allowed is True


def test_the_rule_whose_ports_are_too_narrow_decides() -> None:
    found = job(DENY, policy("peers", ingress=[ports({"port": 29400})], egress=[{}]))
    assert told(peers_reach(found, RANK_PORT)) == (True, [])
    assert told(peers_reach(found, EPHEMERAL_PORTS)) == (False, ["NetworkPolicy/peers spec.ingress[0].ports"])


def test_the_policies_that_isolate_decide_where_no_rule_speaks_of_peers() -> None:
    assert told(peers_reach(job(DENY), RANK_PORT)) == (False, ["NetworkPolicy/deny spec.podSelector"])


def test_both_directions_are_needed() -> None:
    found = job(DENY, policy("in", policyTypes=["Ingress"], ingress=[{"from": [MINE]}]))
    assert peers_reach(found, RANK_PORT).allowed is False


def test_pods_on_the_hosts_network_are_not_subject() -> None:
    found = job(DENY, host_network=True)
    assert policies_for(found, found.pod_sets[0]) == ()
    assert peers_reach(found).allowed is True


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        (MINE, False),
        ({"podSelector": {}}, False),
        ({"namespaceSelector": {}, "podSelector": {}}, None),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, None),
    ],
)
def test_no_pod_selector_finds_pods_on_the_hosts_network(peer: dict[str, Any], allowed: bool | None) -> None:
    mpi = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpi, namespace: vision}
spec:
  mpiReplicaSpecs:
    Launcher: {template: {metadata: {labels: {app: vit}}, spec: {hostNetwork: true, containers: [{name: l}]}}}
    Worker: {replicas: 2, template: {metadata: {labels: {app: vit}}, spec: {containers: [{name: w}]}}}
"""
    policies = [DENY, policy("in", policyTypes=["Ingress"], ingress=[{"from": [peer]}]), PEERS_OUT]
    found = workload(yaml.safe_dump_all([*policies, yaml.safe_load(mpi)]))
    launcher, worker = found.pod_sets

    assert reaches(found, launcher, worker, RANK_PORT).allowed is allowed


def test_a_job_of_one_pod_has_no_peers() -> None:
    assert peers_reach(job(DENY, completions=1)).allowed is True


def test_one_pod_set_to_another() -> None:
    mpi = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpi, namespace: bench}
spec:
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w}]}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: ssh, namespace: bench}
spec:
  podSelector: {matchLabels: {training.kubeflow.org/job-role: worker}}
  ingress:
  - from: [{podSelector: {matchLabels: {training.kubeflow.org/job-role: launcher}}}]
    ports: [{port: 22}]
"""
    found = workload(mpi)
    launcher, worker = found.pod_sets
    assert reaches(found, launcher, worker, range(22, 23)).allowed is True
    assert reaches(found, launcher, worker, range(2222, 2223)).allowed is False
    assert reaches(found, worker, launcher, ALL_PORTS).allowed is True
    assert peers_reach(found, range(22, 23)).allowed is False


DNS_POD = {"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
KUBE_SYSTEM = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
UDP_53 = [{"protocol": "UDP", "port": 53}]


@pytest.mark.parametrize(
    ("egress", "udp", "tcp"),
    [
        (None, True, True),
        ([], False, False),
        ([{"to": [MINE]}], False, False),
        ([{"to": [KUBE_SYSTEM | DNS_POD], "ports": UDP_53}], True, False),
        ([{"to": [KUBE_SYSTEM | DNS_POD], "ports": [*UDP_53, {"port": 53}]}], True, True),
        ([{"to": [DNS_POD], "ports": UDP_53}], False, False),
        ([{"ports": [{"protocol": "UDP", "port": "dns"}]}], True, False),
        ([{"to": [{"namespaceSelector": {}}]}], True, True),
        ([{"to": [KUBE_SYSTEM | {"podSelector": {"matchLabels": {"app": "coredns"}}}]}], None, None),
        ([{"to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}], "ports": UDP_53}], None, False),
    ],
)
def test_dns(egress: list[Any] | None, udp: bool | None, tcp: bool | None) -> None:
    found = job() if egress is None else job(policy("egress", policyTypes=["Egress"], egress=egress))
    (pods,) = found.pod_sets
    assert (reaches_dns(found, pods, "UDP").allowed, reaches_dns(found, pods, "TCP").allowed) == (udp, tcp)
