"""Where the scheduler may put the pods of a job: taints, labels of nodes, spread, and the node's own network."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import add, put, remove
from trainyard.rules.common.once import once
from trainyard.rules.placement.known_nodes import labelled_places, shown, tainted_places, untolerated
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, strings, text
from trainyard.workload.selectors import pod_labels, selects

_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")


@rule("PLC001", "taint-not-tolerated", Severity.ERROR, needs=Workload, fix="safe")
@once
def taint_not_tolerated(workload: Workload) -> Iterator[Problem]:
    """Pods with GPUs do not tolerate a taint that all known GPU nodes have.

    The scheduler keeps them off those nodes, and Kueue does not admit them: they stay Pending while the GPUs are idle.
    Taints are read from Nodes, from the flavors of the job's queue, and from what the cluster's facts tolerate.

    Bad:
        kind: Cluster
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}
    Good:
        kind: Cluster
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}
        ---
        kind: Job
        spec: {template: {spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}}}
    Near miss:
        kind: Cluster
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}
        ---
        kind: Job
        spec: {template: {spec: {tolerations: [{operator: Exists}]}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    places = tainted_places(workload)
    for pod_set in workload.pod_sets:
        if not any(container.gpus for container in pod_set.containers):
            continue
        tolerations = [item for _, item in entries(pod_set.spec.get("tolerations"))]
        against = [untolerated(taints, tolerations) for taints in places]
        if not places or not all(against):
            continue
        taint, spot = against[0][0]
        yield Problem(
            f"pods with GPUs do not tolerate taint {shown(taint)}, which the GPU nodes have",
            pod_set.template.below("spec", "tolerations", label="no toleration for it"),
            (spot.saying("the taint"),),
            f"add a toleration with key {taint.get('key')}, operator Exists and effect {taint.get('effect')}",
            add(
                pod_set.template.below("spec", "tolerations"),
                {"key": taint.get("key"), "operator": "Exists", "effect": taint.get("effect")},
            ),
        )


@rule("PLC002", "no-such-node", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def no_such_node(workload: Workload) -> Iterator[Problem]:
    """The nodeSelector asks for a label value that no known node has.

    The pods stay Pending, or Kueue finds no flavor for them. Labels are read from Nodes, from the flavors of the job's
    queue, and from the nodeSelector of the cluster's facts.

    Bad:
        kind: Cluster
        spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
        ---
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: H100}}}}
    Good:
        kind: Cluster
        spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
        ---
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}}}
    Near miss:
        kind: Cluster
        spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
        ---
        kind: Job
        spec: {template: {spec: {nodeSelector: {topology.kubernetes.io/zone: east-1a}}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """
    nodes = labelled_places(workload)
    for pod_set in workload.pod_sets:
        for key, value in strings(pod_set.spec.get("nodeSelector")).items():
            known = [labels[key] for labels, _ in nodes if key in labels]
            if not known or len(known) < len(nodes) or value in known:
                continue
            there = ", ".join(dict.fromkeys(known))
            yield Problem(
                f"the pods want nodes with {key}: {value}, but those have {there}",
                pod_set.template.below("spec", "nodeSelector", key, label="no node has this"),
                tuple(spot.below(key, label="what they have") for _, spot in nodes),
                f"write {known[0]}",
                put(pod_set.template.below("spec", "nodeSelector", key), known[0]).unsafe()
                if len(set(known)) == 1
                else None,
            )


@rule("PLC003", "spread-of-other-pods", Severity.WARNING, needs=Workload)
@once
def spread_of_other_pods(workload: Workload) -> Iterator[Problem]:
    """A topologySpreadConstraint does not select the pods that carry it.

    It counts the pods that its labelSelector matches. Where that is none of the job's own, every place looks equally
    empty, and the pods land as if the constraint were not there.

    Bad:
        kind: Job
        spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: llama}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {trainyard.dev/job: llama-sft}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {batch.kubernetes.io/controller-uid: x}}}]}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
    """
    for pod_set in workload.pod_sets:
        for index, item in entries(pod_set.spec.get("topologySpreadConstraints")):
            if item.get("labelSelector") is None or selects(item["labelSelector"], pod_labels(pod_set)) is not False:
                continue
            yield Problem(
                f"the spread over {text(item.get('topologyKey'))} counts other pods than the job's own",
                pod_set.template.below("spec", "topologySpreadConstraints", index, "labelSelector").saying(
                    "matches none of these pods"
                ),
                (pod_set.template.below("metadata", "labels", label="their labels"),),
                "select a label that the pod template has",
            )


@rule("PLC004", "affinity-to-nobody", Severity.ERROR, needs=Workload)
@once
def affinity_to_nobody(workload: Workload) -> Iterator[Problem]:
    """Pods must be placed beside pods with labels that are nearly their own, and are not.

    A required podAffinity that matches no pod holds the pods back for ever, unless they match it themselves: then the
    first one may be placed. The rule speaks where the selector uses only keys that the pods have, with other values.

    Bad:
        kind: Job
        spec: {template: {spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: topology.kubernetes.io/zone, labelSelector: {
            matchLabels: {trainyard.dev/job: llama-sft-2}}}]}}}}}
    Good:
        kind: Job
        spec: {template: {spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: topology.kubernetes.io/zone, labelSelector: {
            matchLabels: {trainyard.dev/job: llama-sft}}}]}}}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: feature-store}}}]}}}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
    """
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    for pod_set in workload.pod_sets:
        affinity = mapping(mapping(pod_set.spec.get("affinity")).get("podAffinity"))
        for index, term in entries(affinity.get(field)):
            wanted = strings(mapping(term.get("labelSelector")).get("matchLabels"))
            near = wanted and all(key in pod_set.labels for key in wanted)
            if not near or any(
                selects(term["labelSelector"], pod_labels(each)) is not False for each in workload.pod_sets
            ):
                continue
            asked = ", ".join(f"{key}: {value}" for key, value in wanted.items())
            yield Problem(
                f"the pods must be placed beside pods with {asked}, which they are not themselves",
                pod_set.template.below("spec", "affinity", "podAffinity", field, index, "labelSelector").saying(
                    "matches no pod of the job"
                ),
                (pod_set.template.below("metadata", "labels", label="their labels"),),
                "select a label that the pod template has",
            )


@rule("PLC005", "system-priority", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def system_priority(workload: Workload) -> Iterator[Problem]:
    """A training job runs with the priority of the cluster's own components.

    It evicts whatever stands in its way, DNS and the network's agents among it, and nothing evicts it.

    Bad:
        kind: Job
        spec: {template: {spec: {priorityClassName: system-cluster-critical}}}
    Good:
        kind: Job
        spec: {template: {spec: {priorityClassName: training-high}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {priorityClassName: system-batch}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
    """
    for pod_set in workload.pod_sets:
        if pod_set.spec.get("priorityClassName") in _SYSTEM_CLASSES:
            yield Problem(
                f"the pods have priority class {pod_set.spec['priorityClassName']}",
                pod_set.template.below("spec", "priorityClassName", label="for the cluster's own components"),
                help="use a priority class for training",
                fix=remove(pod_set.template.below("spec", "priorityClassName")).saying("remove it").unsafe(),
            )


@rule("PLC008", "priority-by-number", Severity.ERROR, needs=Workload, fix="safe")
@once
def priority_by_number(workload: Workload) -> Iterator[Problem]:
    """A pod template gives its priority as a number.

    The API server computes that number from `priorityClassName`, and refuses a pod that brings another one. The job is
    taken, and none of its pods.

    Bad:
        kind: Job
        spec: {template: {spec: {priority: 1000}}}
    Good:
        kind: Job
        spec: {template: {spec: {priorityClassName: training-high}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {priority: 0}}}

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
    """
    for pod_set in workload.pod_sets:
        given, name = pod_set.spec.get("priority"), text(pod_set.spec.get("priorityClassName"))
        known = [each.data.get("value") for each in workload.of_kind("PriorityClass") if each.name == name]
        if type(given) is int and (known or [0])[0] != given and (known or not name):
            spot = pod_set.template.below("spec", "priority")
            help = "name a priorityClass instead" if not name else "leave the number out"
            yield Problem(f"priority is {given}, which only a priorityClass may give", spot, (), help, remove(spot))
