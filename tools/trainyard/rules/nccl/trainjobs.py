"""The fabric devices that a TrainJob takes over from its runtime, or drops."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.rules.common.pods import EFA, is_rdma
from trainyard.rules.nccl.image import Release, parsed
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import entries, mapping, text

_MERGES = (2, 3)
"""The release of Kubeflow Trainer that merges a TrainJob's resources with its runtime's."""


@rule("NCL075", "fabric-device-dropped", Severity.ERROR, needs=Unit)
def fabric_device_dropped(unit: Unit) -> Iterator[Problem]:
    """A TrainJob's resources take the place of its runtime's, and leave the fabric device out.

    Up to Kubeflow Trainer 2.2 `resourcesPerNode` replaces all resources of the runtime's container; 2.3 merges them. A
    device that is not repeated is gone, and NCCL goes over TCP without a word. The runtime's labels tell the release.

    Bad:
        # on: trainjob
        spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, hugepages-2Mi: 5Gi}}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.1.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}
    Good:
        # on: trainjob
        spec:
          trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.1.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}
    Near miss:
        # on: trainjob
        spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8, hugepages-2Mi: 5Gi}}}}
        ---
        kind: ClusterTrainingRuntime
        metadata: {labels: {app.kubernetes.io/version: 2.3.0}}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, resources: {limits: {
                  vpc.amazonaws.com/efa: 32, hugepages-2Mi: 5Gi}}}]}}}}

    Source: https://github.com/NVIDIA/aicr/issues/2275
    """
    there = (*unit.objects, *(unit.platform or ()))
    for job in (obj for obj in unit.objects if _is_trainers(obj, "TrainJob")):
        spec = mapping(job.data.get("spec"))
        given = mapping(mapping(spec.get("trainer")).get("resourcesPerNode"))
        name = mapping(spec.get("runtimeRef")).get("name")
        for found in (obj for obj in there if _is_trainers(obj, "TrainingRuntime") and obj.name == name):
            release = _trainer_release(found)
            for device, spot in _fabric_devices(found) if given and release is not None and release < _MERGES else ():
                if not any(device in mapping(given.get(kind)) for kind in ("limits", "requests")):
                    yield Problem(
                        f"resourcesPerNode leaves out {device}, and takes the place of all resources of the runtime"
                        f" in Trainer {'.'.join(map(str, release or ()))}",
                        job.at("spec", "trainer", "resourcesPerNode", label="all that the container gets"),
                        related=(spot.saying("dropped"),),
                        help=f"repeat {device} in limits and requests",
                    )


def _is_trainers(obj: Object, kind: str) -> bool:
    return obj.group == "trainer.kubeflow.org" and obj.kind.removeprefix("Cluster") == kind


def _trainer_release(runtime: Object) -> Release | None:
    """The release of Kubeflow Trainer that a runtime says it belongs to."""
    labels = mapping(mapping(runtime.data.get("metadata")).get("labels"))
    chart = text(labels.get("helm.sh/chart")).rpartition("-")[2]
    return parsed(text(labels.get("app.kubernetes.io/version")).removeprefix("v")) or parsed(chart)


def _fabric_devices(runtime: Object) -> Iterator[tuple[str, Spot]]:
    """The RDMA devices that the containers of a runtime's nodes request."""
    jobs = mapping(mapping(mapping(runtime.data.get("spec")).get("template")).get("spec")).get("replicatedJobs")
    for index, job in entries(jobs):
        path = ("template", "spec", "template", "spec")
        pod: object = job
        for step in path:
            pod = mapping(pod).get(step)
        for number, container in entries(mapping(pod).get("containers")):
            limits = mapping(mapping(container.get("resources")).get("limits"))
            spot = runtime.at("spec", "template", "spec", "replicatedJobs", index, *path, "containers", number)
            for name in limits:
                if isinstance(name, str) and (name == EFA or is_rdma(name)):
                    yield name, spot.below("resources", "limits", name)
