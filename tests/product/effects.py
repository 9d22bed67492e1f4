"""What a job was put together for is in its pods, as they are predicted."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from tests.product import patches
from tests.product.combinations import Combination
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.workload.model import Container, PodSet
from trainyard.workload.of_unit import workloads

NODES = 4
KINDS = {
    "torchrun": "Job",
    "deepspeed": "Job",
    "jobset": "JobSet",
    "trainjob": "TrainJob",
    "pytorchjob": "PyTorchJob",
    "tfjob": "TFJob",
    "mpijob": "MPIJob",
    "rayjob": "RayJob",
}
WITHOUT_RANKS = {"MPIJob": 1, "RayJob": 2}
"""Pods beside those of the ranks: a launcher; a head and a submitter."""


class Job:
    """A rendered job with the pods that have its ranks."""

    def __init__(self, unit: Unit) -> None:
        (self.workload,) = workloads(unit)
        self.name = unit.name.rpartition("/")[2]
        self.ranks: PodSet = max(self.workload.pod_sets, key=lambda each: max(c.gpus for c in each.containers))
        main = self.ranks.main()
        assert main is not None
        self.rank: Container = main

    @property
    def metadata(self) -> Mapping[str, Mapping[str, str]]:
        found: Mapping[str, Mapping[str, str]] = self.workload.object.data["metadata"]
        return found

    def variable(self, name: str) -> str | None:
        found = self.rank.env.get(name)
        return None if found is None else found.value

    def mounts(self, path: str) -> str | None:
        """The name of the volume that the rank has at a path."""
        mounts = self.rank.data.get("volumeMounts", ())
        return next((each["name"] for each in mounts if each["mountPath"] == path), None)

    def volume(self, name: str) -> Mapping[str, object]:
        return next((each for each in self.ranks.spec.get("volumes", ()) if each["name"] == name), {})

    def one(self, kind: str, name: str) -> Object | None:
        found = [each for each in self.workload.of_kind(kind) if each.name == name]
        return found[0] if len(found) == 1 else None

    def container(self, name: str) -> Container | None:
        every = (*self.ranks.init_containers, *self.ranks.containers)
        return next((each for each in every if each.name == name), None)


def missing(combination: Combination, unit: Unit) -> Iterator[str]:
    """Each choice that the pods do not show."""
    job = Job(unit)
    for choice in ("base", *combination.parts):
        if not _SHOWS[choice](job, combination):
            yield f"{combination}: {choice} is not in the pods"


def _base(job: Job, combination: Combination) -> bool:
    kind = job.workload.object.kind
    own = job.rank.env
    return (
        kind == KINDS[combination.base]
        and job.ranks.count.value == NODES
        and job.workload.pods == NODES + WITHOUT_RANKS.get(kind, 0)
        and own["JOB"].value == job.name
        and own["TRAINER_RUN"].value == job.name
        and job.mounts("/data") == "dataset"
        and job.volume("dataset")["persistentVolumeClaim"] == {"claimName": "datasets", "readOnly": True}
        and job.volume("checkpoints")["persistentVolumeClaim"] == {"claimName": f"{job.name}-checkpoints"}
    )


def _kueue(job: Job, _: Combination) -> bool:
    labels, pods = job.metadata["labels"], job.ranks.annotations
    queue, urgency = labels.get("kueue.x-k8s.io/queue-name"), labels.get("kueue.x-k8s.io/priority-class")
    return (queue, urgency) == ("training", "normal") and any(key.startswith("kueue.x-k8s.io/podset-") for key in pods)


def _volcano(job: Job, _: Combination) -> bool:
    group = job.one("PodGroup", job.name)
    scheduled = job.ranks.spec.get("schedulerName"), job.ranks.annotations.get("scheduling.k8s.io/group-name")
    return scheduled == ("volcano", job.name) and group is not None and group.data["spec"]["minMember"] == NODES


def _coscheduling(job: Job, _: Combination) -> bool:
    group, label = job.one("PodGroup", job.name), job.ranks.labels.get("scheduling.x-k8s.io/pod-group")
    return label == job.name and group is not None and group.data["spec"]["minMember"] == NODES


def _zero(job: Job, _: Combination) -> bool:
    policy = PurePosixPath(job.variable("TRAINER_DEEPSPEED_CONFIG") or "")
    policies = job.one("ConfigMap", f"{job.name}-deepspeed")
    volume = job.volume(job.mounts(str(policy.parent)) or "")
    return (
        policies is not None
        and volume.get("configMap") == {"name": policies.name}
        and json.loads(policies.data["data"][policy.name])["zero_optimization"]["stage"] == 2
        and job.variable("TRAINER_PARALLELISM") == "deepspeed"
    )


def _elastic(job: Job, _: Combination) -> bool:
    policy = job.workload.object.data["spec"]["elasticPolicy"]
    return bool(policy["minReplicas"] == 2 and job.variable("TRAINER_MIN_NODES") == "2")


def _dataset_cache(job: Job, _: Combination) -> bool:
    copies, path = job.container("dataset-cache"), job.variable("TRAINER_DATA_CACHE")
    volume = job.volume(job.mounts(path or "") or "")
    return (
        copies is not None
        and copies.image == job.rank.image
        and copies.env["TRAINER_DATA_CACHE"].value == path
        and copies.env["TRAINER_DATASET"].value == job.variable("TRAINER_DATASET")
        and volume.get("persistentVolumeClaim") == {"claimName": "dataset-cache"}
    )


def _gcs_fuse(job: Job, _: Combination) -> bool:
    policy = job.one("NetworkPolicy", f"{job.name}-metadata")
    selects = {"matchLabels": {"trainyard.dev/job": job.name}}
    asked = job.ranks.annotations.get("gke-gcsfuse/volumes") == "true"
    return asked and policy is not None and policy.data["spec"]["podSelector"] == selects


def _variable(job: Job, _: Combination) -> bool:
    return job.variable(patches.VARIABLE) == f"{job.name}-1"


def _secret(job: Job, _: Combination) -> bool:
    found = job.rank.env.get(patches.SECRET)
    return found is not None and found.origin == "secret"


def _file(job: Job, _: Combination) -> bool:
    made, volume = job.one("ConfigMap", patches.FILE), job.volume(job.mounts(f"/{patches.FILE}") or "")
    return made is not None and "mixture.json" in made.data["data"] and volume.get("configMap") == {"name": made.name}


def _volume(job: Job, _: Combination) -> bool:
    return job.volume(job.mounts(f"/{patches.VOLUME}") or "").get("emptyDir") == {"sizeLimit": "10Gi"}


def _is_beside(name: str) -> Callable[[Job, Combination], bool]:
    def shows(job: Job, _: Combination) -> bool:
        found = job.container(name)
        return found is not None and found.image == patches.IMAGE and not found.gpus

    return shows


def _annotation(job: Job, _: Combination) -> bool:
    return job.ranks.annotations.get(patches.ANNOTATION) == "whales"


def _metadata(job: Job, _: Combination) -> bool:
    labels, annotations = job.metadata["labels"], job.metadata["annotations"]
    return labels.get(patches.LABEL) == annotations.get(patches.ANNOTATION) == "whales"


_SHOWS: Mapping[str, Callable[[Job, Combination], bool]] = {
    "base": _base,
    "queue/kueue": _kueue,
    "queue/volcano": _volcano,
    "queue/coscheduling": _coscheduling,
    "zero": _zero,
    "elastic": _elastic,
    "dataset-cache/job": _dataset_cache,
    "storage/gcs-fuse/pods": _gcs_fuse,
    "variable": _variable,
    "json-patch": _variable,
    "secret": _secret,
    "file": _file,
    "volume": _volume,
    "sidecar": _is_beside(patches.SIDECAR),
    "init-container": _is_beside(patches.INIT),
    "annotation": _annotation,
    "metadata": _metadata,
}
