"""Quotas and limits of a namespace against what the pods of a job ask for."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.quantity import quantity, shown
from trainyard.rules.common.counts import amount_of, at_once
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.plain import count, entries, mapping

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


@rule("RES007", "node-has-less", Severity.ERROR, needs=Workload)
@once
def node_has_less(workload: Workload) -> Iterator[Problem]:
    """A pod asks for more CPU or memory than a node of its cluster has for pods.

    No node can ever take such a pod, so it stays Pending, and the job with it. The containers of a pod are added up,
    sidecars among the init containers too: beside a trainer that takes the whole node a sidecar may have limits, and
    requests of 0.

    Bad:
        kind: Cluster
        spec: {node: {gpus: 8, cpu: 64, memory: 1Ti}}
    Good:
        kind: Cluster
        spec: {node: {gpus: 8, cpu: 88, memory: 900Gi}}
    Near miss:
        kind: Cluster
        spec: {node: null}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """
    node = mapping(mapping(workload.cluster.data.get("spec") if workload.cluster else None).get("node"))
    for pod_set in workload.pod_sets:
        for name in ("cpu", "memory"):
            available, total = quantity(node.get(name)), _total(pod_set, name, "requests")
            if workload.cluster is None or available is None or total <= available:
                continue
            first, *rest = _asking(pod_set, name, available)
            alone = not rest and amount_of(first, "requests", name) == total
            said = first.requests[name].value if alone else shown(total)
            yield Problem(
                f"each pod asks for {name} {said}, but a node of cluster {workload.cluster.name} has {node[name]}",
                first.requests[name].spot.saying("no node can take this pod"),
                (
                    *(each.requests[name].spot.saying("another container of the pod") for each in rest),
                    workload.cluster.at("spec", "node", name, label=f"{name} of one node"),
                ),
                f"request 0 of {name} here, and limit it" if rest else f"ask for at most {node[name]} a pod",
            )


def _asking(pod_set: PodSet, name: str, available: Fraction) -> list[Container]:
    """The container that asks for too much; where none does alone, those that run beside the largest, and that."""

    def amount(container: Container) -> Fraction:
        return amount_of(container, "requests", name)

    sidecars = [each for each in pod_set.init_containers if each.data.get("restartPolicy") == "Always"]
    largest = max((*pod_set.init_containers, *pod_set.containers), key=amount)
    if amount(largest) > available:
        return [largest]
    return [*(each for each in (*sidecars, *pod_set.containers) if amount(each) and each is not largest), largest]


@rule("RES008", "quota-too-small", Severity.ERROR, needs=Workload)
@once
def quota_too_small(workload: Workload) -> Iterator[Problem]:
    """The pods of a job together ask for more than a ResourceQuota of their namespace allows.

    The quota refuses the pods past it. Those that were made hold their GPUs and wait for the others at the rendezvous.

    Bad:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.nvidia.com/gpu: 16}}
    Good:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.nvidia.com/gpu: 32}}
    Near miss:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {requests.nvidia.com/gpu: 16}, scopeSelector: {matchExpressions: [
          {scopeName: PriorityClass, operator: In, values: [low]}]}}

    Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    if workload.pods is None or _larger_than_the_cluster(workload):
        return
    over: dict[int, list[tuple[Object, str, Any]]] = {}
    for quota, key, allowed in _quotas(workload):
        limit = quantity(allowed)
        if limit is not None and _asked(workload, key) > limit:
            over.setdefault(quota.index, []).append((quota, key, allowed))
    for found in over.values():
        (quota, key, allowed), *others = sorted(found, key=lambda each: not each[1].endswith("/gpu"))
        asks = "has" if key == "pods" else f"asks for {shown(_asked(workload, key))} of"
        what = f"{workload.pods} pods" if key == "pods" else key
        yield Problem(
            f"the job {asks} {what}, but ResourceQuota {quota.name} allows {allowed}",
            quota.at("spec", "hard", key, label="the most that the namespace may hold"),
            (
                *(quota.at("spec", "hard", each, label="too small as well") for _, each, _ in others),
                *(pod_set.count.spot.saying("as many pods") for pod_set in workload.pod_sets),
            ),
            "raise the quota, or make the job smaller",
        )


def _larger_than_the_cluster(workload: Workload) -> bool:
    """Whether job.yaml asks for more nodes than there are, which CTR011 tells."""
    facts = (workload.training_job, workload.cluster)
    wanted, there = (count(mapping(fact.data.get("spec") if fact else None).get("nodes")) for fact in facts)
    return wanted is not None and there is not None and wanted > there


def _asked(workload: Workload, key: str) -> Fraction:
    """What all pods of the job together count for in a quota."""
    if key == "pods":
        return Fraction(workload.pods or 0)
    field, _, name = key.partition(".")
    return sum((_total(each, name, field) * each.count.value for each in workload.pod_sets), Fraction(0))


@rule("RES009", "quota-wants-amounts", Severity.ERROR, needs=Workload)
@once
def quota_wants_amounts(workload: Workload) -> Iterator[Problem]:
    """A ResourceQuota counts something that a container of the job does not say, and no LimitRange says it.

    A quota on requests or limits of CPU or memory refuses every pod with a container that names none, as those that
    operators and submitters add often do.

    Bad:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {limits.cpu: 1k}}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {cpu: null}}}]}}}
    Good:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {limits.cpu: 1k}}
    Near miss:
        kind: ResourceQuota
        apiVersion: v1
        metadata: {name: team, namespace: research}
        spec: {hard: {limits.cpu: 1k}}
        ---
        kind: LimitRange
        apiVersion: v1
        metadata: {name: node, namespace: research}
        spec: {limits: [{type: Container, default: {cpu: "1"}}]}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {cpu: null}}}]}}}

    Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    defaults = {
        (field, name)
        for item in workload.of_kind("LimitRange")
        for _, limit in entries(mapping(item.data.get("spec")).get("limits"))
        for field, key in (("limits", "default"), ("requests", "defaultRequest"), ("requests", "default"))
        for name in mapping(limit.get(key))
    }
    for quota, key, _ in _quotas(workload):
        field, _, name = key.partition(".")
        if name not in _COMPUTE or (field, name) in defaults:
            continue
        for pod_set in workload.pod_sets:
            for container in (*pod_set.init_containers, *pod_set.containers):
                if name not in _settings(container, field):
                    yield Problem(
                        f"ResourceQuota {quota.name} counts {key}, but container {container.name} has no {name} "
                        f"{field[:-1]}",
                        container.spot.below("resources", field, name, label="every pod is refused"),
                        (quota.at("spec", "hard", key, label="counted here"),),
                        f"give the container a {name} {field[:-1]}, or the namespace a LimitRange with a default",
                    )


@rule("RES011", "outside-limit-range", Severity.ERROR, needs=Workload)
@once
def outside_limit_range(workload: Workload) -> Iterator[Problem]:
    """A container asks for more than a LimitRange of its namespace allows one container.

    The API server refuses every pod of the job.

    Bad:
        kind: LimitRange
        apiVersion: v1
        metadata: {name: node, namespace: research}
        spec: {limits: [{type: Container, max: {memory: 512Gi}}]}
    Good:
        kind: LimitRange
        apiVersion: v1
        metadata: {name: node, namespace: research}
        spec: {limits: [{type: Container, max: {memory: 1Ti}}]}
    Near miss:
        kind: LimitRange
        apiVersion: v1
        metadata: {name: node, namespace: research}
        spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 5Ti}}]}

    Source: https://kubernetes.io/docs/concepts/policy/limit-range/
    """
    for item in workload.of_kind("LimitRange"):
        for index, limit in entries(mapping(item.data.get("spec")).get("limits")):
            if limit.get("type") != "Container":
                continue
            for container, name, asked, most in _over(workload, mapping(limit.get("max"))):
                yield Problem(
                    f"container {container.name} has {name} {asked.value}, but LimitRange {item.name} allows {most}",
                    asked.spot.saying("every pod is refused"),
                    (item.at("spec", "limits", index, "max", name, label="the most for one container"),),
                    f"ask for at most {most}, or raise the LimitRange",
                )


def _over(workload: Workload, most: Mapping[Any, Any]) -> Iterator[tuple[Container, str, Setting, Any]]:
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            for name, allowed in most.items():
                asked = container.limits.get(name)
                amount, limit = None if asked is None else quantity(asked.value), quantity(allowed)
                if asked is not None and amount is not None and limit is not None and amount > limit:
                    yield container, name, asked, allowed


def _quotas(workload: Workload) -> Iterator[tuple[Object, str, Any]]:
    """Each limit of the namespace's quotas for all pods, by `requests.<resource>`, `limits.<resource>` or `pods`."""
    for quota in workload.of_kind("ResourceQuota"):
        spec = mapping(quota.data.get("spec"))
        if spec.get("scopes") or spec.get("scopeSelector") or quota.api_version != "v1":
            continue
        for key, allowed in mapping(spec.get("hard")).items():
            if isinstance(key, str) and (key == "pods" or key.startswith(("requests.", "limits."))):
                yield quota, key, allowed


def _total(pod_set: PodSet, name: str, field: str) -> Fraction:
    """What one pod asks for."""
    return at_once(pod_set, lambda container: amount_of(container, field, name))


def _settings(container: Container, field: str) -> Mapping[str, Setting]:
    return {"limits": container.limits, "requests": container.requests}.get(field, {})
