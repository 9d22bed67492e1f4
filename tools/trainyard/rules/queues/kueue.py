"""What manifests tell Kueue, and what Kueue is told of itself."""

from collections.abc import Iterable, Iterator, Mapping

from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import items, pairs, part, word
from trainyard.workload.embedded import yaml_map
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, sequence

GROUP = "kueue.x-k8s.io"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
ELASTIC = "kueue.x-k8s.io/elastic-job"
FRAMEWORKS: Mapping[str, str] = {
    "batch/v1/Job": "batch/job",
    "jobset.x-k8s.io/v1alpha2/JobSet": "jobset.x-k8s.io/jobset",
    "kubeflow.org/v1/JAXJob": "kubeflow.org/jaxjob",
    "kubeflow.org/v1/PaddleJob": "kubeflow.org/paddlejob",
    "kubeflow.org/v1/PyTorchJob": "kubeflow.org/pytorchjob",
    "kubeflow.org/v1/TFJob": "kubeflow.org/tfjob",
    "kubeflow.org/v1/XGBoostJob": "kubeflow.org/xgboostjob",
    "kubeflow.org/v2beta1/MPIJob": "kubeflow.org/mpijob",
    "ray.io/v1/RayCluster": "ray.io/raycluster",
    "ray.io/v1/RayJob": "ray.io/rayjob",
    "trainer.kubeflow.org/v1alpha1/TrainJob": "trainer.kubeflow.org/trainjob",
}
"""The names that Kueue's settings give to the kinds of job that it knows."""


def queue_label(item: Object) -> Spot:
    """Where a job names its queue."""
    return item.at("metadata", "labels", QUEUE)


def is_queued(item: Object) -> bool:
    """Whether a job goes through a queue of Kueue."""
    return bool(pairs(item.at("metadata", "labels")).get(QUEUE))


def is_elastic(item: Object) -> bool:
    """Whether Kueue lets the job grow and shrink."""
    return pairs(item.at("metadata", "annotations")).get(ELASTIC) == "true"


def local_queue(workload: Workload) -> Object | None:
    """The LocalQueue that a job names, where it is known."""
    name = pairs(workload.object.at("metadata", "labels")).get(QUEUE)
    found = (queue for queue in workload.of_kind("LocalQueue") if queue.group == GROUP and queue.name == name)
    return next(found, None)


def cluster_queue(workload: Workload) -> Object | None:
    """The ClusterQueue behind the LocalQueue that a job names, where both are known."""
    queue = local_queue(workload)
    name = "" if queue is None else word(queue.at("spec", "clusterQueue"))
    found = (item for item in workload.of_cluster("ClusterQueue") if item.group == GROUP and item.name == name)
    return next(found, None) if name else None


def flavors(workload: Workload) -> list[Object] | None:
    """The ResourceFlavors of a job's ClusterQueue; None where one of them, or the queue, is not known."""
    queue = cluster_queue(workload)
    if queue is None:
        return None
    known = {item.name: item for item in workload.of_cluster("ResourceFlavor") if item.group == GROUP}
    names = {
        word(flavor.below("name"))
        for group, _ in items(queue.at("spec", "resourceGroups"))
        for flavor, _ in items(group.below("flavors"))
    }
    return [known[name] for name in sorted(names)] if names and names <= known.keys() else None


def settings(objects: Iterable[Object]) -> Iterator[tuple[Mapping[object, object], Spot]]:
    """Kueue's own settings, where a ConfigMap with them is known."""
    for item in objects:
        if item.kind != "ConfigMap":
            continue
        for key, content in pairs(item.at("data")).items():
            if "config.kueue.x-k8s.io" in content:
                parsed = _parsed(content)
                if parsed:
                    yield parsed, item.at("data", key)


def frameworks(parsed: Mapping[object, object]) -> list[str]:
    """The kinds of job that settings of Kueue name."""
    integrations = mapping(parsed.get("integrations"))
    return [str(name) for key in ("frameworks", "externalFrameworks") for name in sequence(integrations.get(key))]


def excluded(parsed: Mapping[object, object]) -> tuple[str, ...]:
    """Prefixes of resources that Kueue does not count."""
    return tuple(map(str, sequence(mapping(parsed.get("resources")).get("excludeResourcePrefixes"))))


def _parsed(content: str) -> Mapping[object, object]:
    found = yaml_map(content)
    return found if found.get("kind") == "Configuration" else {}


def pod_metadata(workload: Workload) -> Iterator[Spot]:
    """The metadata of each pod template that a manifest of the job holds."""
    for pod_set in workload.pod_sets:
        spot = pod_set.template.below("metadata")
        if part(spot):
            yield spot
