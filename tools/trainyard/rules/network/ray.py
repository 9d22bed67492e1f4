"""What the pods of a Ray cluster need of each other."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.kuberay import DASHBOARD_PORT
from trainyard.workload.model import Workload
from trainyard.workload.network import reaches
from trainyard.workload.ray import HEAD, SUBMITTER


@rule("NET004", "ray-dashboard-closed", Severity.ERROR, needs=Workload)
def ray_dashboard_closed(workload: Workload) -> Iterator[Problem]:
    """The pod that submits the entrypoint of a RayJob may not reach the dashboard of the head.

    KubeRay submits the entrypoint from a pod of its own, over the dashboard's port 8265. That pod has only the labels
    of `submitterPodTemplate`: a policy that goes by the job's label shuts it out, and the entrypoint never starts.

    Bad:
        # on: rayjob
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: bert, namespace: research}
        spec:
          podSelector: {matchLabels: {trainyard.dev/job: bert}}
          ingress: [{from: [{podSelector: {matchLabels: {trainyard.dev/job: bert}}}]}]
    Good:
        # on: rayjob
        spec:
          submitterPodTemplate:
            metadata: {labels: {trainyard.dev/job: bert}}
            spec: {restartPolicy: Never, containers: [{name: submitter, image: ray}]}
        ---
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: bert, namespace: research}
        spec:
          podSelector: {matchLabels: {trainyard.dev/job: bert}}
          ingress: [{from: [{podSelector: {matchLabels: {trainyard.dev/job: bert}}}]}]
    Near miss:
        # on: rayjob
        spec: {submissionMode: HTTPMode}
        ---
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: bert, namespace: research}
        spec:
          podSelector: {matchLabels: {trainyard.dev/job: bert}}
          ingress: [{from: [{podSelector: {matchLabels: {trainyard.dev/job: bert}}}]}]

    Source: https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    by_role = {pod_set.role: pod_set for pod_set in workload.pod_sets}
    if workload.object.kind != "RayJob" or HEAD not in by_role or SUBMITTER not in by_role:
        return
    answer = reaches(workload, by_role[SUBMITTER], by_role[HEAD], range(DASHBOARD_PORT, DASHBOARD_PORT + 1))
    if answer.allowed is False:
        yield Problem(
            f"the pod that submits the entrypoint may not reach port {DASHBOARD_PORT} of the head",
            answer.spots[0].saying("denies what no rule allows"),
            (by_role[SUBMITTER].template.below("metadata", "labels", label="the labels of the pod that submits"),),
            "give submitterPodTemplate the labels that the policies of the job go by",
        )
