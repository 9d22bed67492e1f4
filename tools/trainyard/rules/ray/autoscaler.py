"""Ray clusters that scale by themselves: RAY010. What their token is missing, rule token-switched-off says."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.parts import word
from trainyard.rules.common.places import value_at
from trainyard.rules.ray.clusters import all_groups, cluster_spec, head_variable, worker_groups
from trainyard.rules.registry import Problem, rule

_SWITCH = "RAY_enable_autoscaler_v2"


@rule("RAY010", "autoscaler-refused", Severity.ERROR, needs=Object)
def autoscaler_refused(item: Object) -> Iterator[Problem]:
    """What a Ray cluster says of its autoscaler cannot hold, and KubeRay refuses it.

    Its second version, chosen by `autoscalerOptions.version` or by a variable but not by both, needs
    enableInTreeAutoscaling, and pods that never restart. An autoscaled group cannot be suspended.

    Bad:
        # on: raycluster
        spec:
          enableInTreeAutoscaling: true
          autoscalerOptions: {version: v2}
          headGroupSpec: {template: {spec: {restartPolicy: Always}}}
    Good:
        # on: raycluster
        spec:
          enableInTreeAutoscaling: true
          autoscalerOptions: {version: v2}
          headGroupSpec: {template: {spec: {restartPolicy: Never}}}
    Near miss:
        # on: raycluster
        spec: {enableInTreeAutoscaling: true, headGroupSpec: {template: {spec: {restartPolicy: Always}}}}

    Source: https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/utils/validation.go
    """
    cluster = cluster_spec(item)
    if cluster is None:
        return
    version, variable = cluster.below("autoscalerOptions", "version"), head_variable(cluster, _SWITCH)
    switched = variable is not None and variable[1] in ("1", "true")
    if value_at(cluster.below("enableInTreeAutoscaling")) is not True:
        if variable is not None and switched:
            help = "set enableInTreeAutoscaling: true"
            yield Problem(f"{_SWITCH} needs enableInTreeAutoscaling", variable[0].below("value"), help=help)
        return
    if variable is not None and word(version):
        said = "the version of the autoscaler is given twice"
        yield Problem(said, variable[0], (version.saying("says it too"),), "leave the variable out")
    for what, group in all_groups(cluster) if word(version) == "v2" or switched else ():
        policy = group.below("template", "spec", "restartPolicy")
        if word(policy) not in ("", "Never"):
            help = "leave restartPolicy out"
            yield Problem(f"pods of {what} restart, and the second autoscaler takes Never alone", policy, help=help)
    for group, _ in worker_groups(cluster):
        if value_at(group.below("suspend")) is True:
            said = "a worker group of a cluster that scales by itself cannot be suspended"
            yield Problem(said, group.below("suspend"), help="set maxReplicas: 0")
