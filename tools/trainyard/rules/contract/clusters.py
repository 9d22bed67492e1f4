"""Facts of a cluster that contradict what is known of hardware, or one another."""

import difflib
from collections.abc import Iterator
from fractions import Fraction

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.objects.unit import Unit
from trainyard.plan.hardware import gpus
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import count, mapping

_GPUS = "requests.nvidia.com/gpu"


@rule("CTR032", "unknown-gpu", Severity.ERROR, needs=Unit)
def unknown_gpu(unit: Unit) -> Iterator[Problem]:
    """A cluster's facts name a GPU that is not in schemas/hardware/gpus.yaml.

    Memory, speed and number formats of a job are judged by that file. With a name that it does not hold, no job of the
    cluster has a forecast, and a job that does not fit its GPUs passes.

    Bad:
        kind: Cluster
        spec: {node: {gpu: H100-SMX-80GB}}
    Good:
        kind: Cluster
        spec: {node: {gpu: H100-SXM-80GB}}
    Near miss:
        kind: Cluster
        spec: {node: {gpu: H100}}

    Source: schemas/hardware/gpus.yaml
    """

    cluster = unit.fact("Cluster")
    name = mapping(mapping(cluster.data.get("spec")).get("node")).get("gpu") if cluster is not None else None
    if cluster is None or not isinstance(name, str) or name in gpus():
        return
    near = difflib.get_close_matches(name, gpus(), 1)
    yield Problem(
        f"GPU {name} of cluster {cluster.name} is not known",
        cluster.at("spec", "node", "gpu", label="no such GPU in schemas/hardware/gpus.yaml"),
        help=(f"did you mean {near[0]}? " if near else "")
        + "a GPU that is missing there is added there, with a source",
    )


@rule("CTR033", "quota-beyond-cluster", Severity.ERROR, needs=Unit)
def quota_beyond_cluster(unit: Unit) -> Iterator[Problem]:
    """A quota allows more GPUs than its cluster has.

    It bounds nothing then: jobs that together ask for more than the cluster has are all admitted, and those that find
    no node hold what they got and wait. One of the two numbers is wrong.

    Bad:
        kind: Cluster
        spec: {nodes: 12, node: {gpus: 8}}
        ---
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.nvidia.com/gpu: 512}}
    Good:
        kind: Cluster
        spec: {nodes: 12, node: {gpus: 8}}
        ---
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.nvidia.com/gpu: 96}}
    Near miss:
        kind: Cluster
        spec: {nodes: 12, node: {gpus: 8}}
        ---
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.amd.com/gpu: 512}}

    Source: clusters/
    """
    cluster = unit.fact("Cluster")
    spec = mapping(cluster.data.get("spec")) if cluster is not None else {}
    nodes, each = count(spec.get("nodes")), count(mapping(spec.get("node")).get("gpus"))
    if cluster is None or nodes is None or each is None:
        return
    there = nodes * each
    for quota in (*unit.objects, *(unit.platform or ())):
        if (quota.api_version, quota.kind) != ("v1", "ResourceQuota"):
            continue
        allowed = quantity(mapping(mapping(quota.data.get("spec")).get("hard")).get(_GPUS))
        if allowed is not None and Fraction(allowed) > there:
            yield Problem(
                f"ResourceQuota {quota.name} allows {allowed} GPUs, but cluster {cluster.name} has {there}",
                quota.at("spec", "hard", _GPUS, label="more than there are"),
                (cluster.at("spec", "nodes", label=f"{nodes} nodes of {each} GPUs"),),
                f"allow {there} GPUs or fewer, or correct the cluster's facts",
            )
