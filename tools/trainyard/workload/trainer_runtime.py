"""What a TrainJob makes of its runtime: the runtime's JobSet, with patches, counts and the trainer's own values."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.objects.quantity import quantity
from trainyard.workload.made import Part, merge, part_of, upsert
from trainyard.workload.model import Setting
from trainyard.workload.plain import count, entries, mapping, sequence, strings, text
from trainyard.workload.pods import object_name

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
GROUP = "trainer.kubeflow.org"
LAUNCHER = "launcher"
NODE = "node"
"""Name of the replicatedJob whose pods train, and of the container in it."""
TRAINER = "trainer"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


def is_runtime(item: Object) -> bool:
    """Whether an object is a runtime of TrainJobs."""
    return item.group == GROUP and item.kind in _RUNTIMES


@dataclass(slots=True)
class ReplicatedJob:
    """One replicatedJob of the JobSet that is being made."""

    name: str
    part: Part
    count: Setting
    """Its pods, as far as they are known yet."""

    @property
    def ancestor(self) -> str:
        """The step of a TrainJob that it stands for: trainer, dataset-initializer, model-initializer, or none."""
        label = self.part.at("template", "metadata", "labels", ANCESTOR)
        return text(label.value) if label is not None else ""

    @property
    def pod(self) -> Part:
        """The spec of its pods."""
        return self.part.make("template", "spec", "template", "spec")

    def containers(self, name: str, *, init: bool = False) -> Iterator[Part]:
        """The containers of a name."""
        for container in self.pod.items("initContainers" if init else "containers"):
            named = container.child("name")
            if named is not None and named.value == name:
                yield container


class RuntimeJob:
    """A TrainJob, its runtime, and the JobSet that becomes of both."""

    def __init__(self, job: Object, runtime: Object) -> None:
        self.job = job
        self.runtime = runtime
        self.spec = mapping(job.data.get("spec"))
        self.trainer = self.spec.get("trainer") if isinstance(self.spec.get("trainer"), dict) else None
        """`spec.trainer`, or None where the TrainJob has none: then nothing is told to the pods of how to meet."""
        self.policy = mapping(mapping(runtime.data.get("spec")).get("mlPolicy"))
        self.gangs = mapping(mapping(runtime.data.get("spec")).get("podGroupPolicy"))
        self.tree = self._patched()
        self.replicated = [self._replicated(part) for part in self.tree.make("spec").items("replicatedJobs")]

    @property
    def name(self) -> str:
        """Name of the TrainJob, and of its JobSet."""
        return object_name(self.job)

    def at(self, *path: str | int) -> Spot:
        """A field of `spec.trainer`."""
        return self.job.at("spec", "trainer", *path)

    def nodes(self) -> Setting | None:
        """`numNodes`, where the TrainJob gives it."""
        written = mapping(self.trainer).get("numNodes")
        return None if written is None else Setting(count(written), self.at("numNodes"))

    def of(self, *, name: str = "", ancestor: str = "") -> ReplicatedJob | None:
        """The first replicatedJob of a name, or of a step."""
        return next((r for r in self.replicated if (r.name == name if name else r.ancestor == ancestor)), None)

    def resources(self) -> Mapping[Any, Any]:
        """What Trainer counts the devices of a node by: `resourcesPerNode` alone, else what the runtime's node asks."""
        given = mapping(self.trainer).get("resourcesPerNode")
        if isinstance(given, dict):
            return given
        for each in self.replicated:
            if each.name == NODE or each.ancestor == TRAINER:
                for container in each.containers(NODE):
                    if (found := container.child("resources")) is not None:
                        return mapping(found.plain())
        return {}

    def gpus(self) -> int:
        """GPUs of a node: the first resource that is named so, of the requests and else of the limits."""
        resources = self.resources()
        for kind in ("requests", "limits"):
            found = (amount for name, amount in mapping(resources.get(kind)).items() if "gpu" in str(name).lower())
            if devices := whole_units(next(found, None)):
                return devices
        return 0

    def cpus(self) -> int:
        """CPUs of a node, by its requests and else by its limits."""
        resources = self.resources()
        return next(
            (cpus for kind in ("requests", "limits") if (cpus := whole_units(mapping(resources.get(kind)).get("cpu")))),
            0,
        )

    def finish(self) -> None:
        """Write into the JobSet what the TrainJob says once its policy was enforced."""
        for each in self.replicated:
            job = each.part.make("template", "spec")
            for field in ("parallelism", "completions"):
                job.value[field] = Part(each.count.value, each.count.spot)
            if each.ancestor in (TRAINER, *_INITIALIZERS):
                each.part.value["replicas"] = Part(1, each.part.spot.below("replicas"))
            if each.ancestor == TRAINER:
                self._train(each)
                self._read_settings(each)
            if each.ancestor == TRAINER or (self.launcher_is_node and each.name == NODE):
                self._variables(each, NODE, self.at("env"), mapping(self.trainer).get("env"))
            if each.ancestor in _INITIALIZERS:
                self._initialize(each)
            self._join_gang(each)

    @property
    def launcher_is_node(self) -> bool:
        """Whether the launcher of an MPI runtime runs ranks too."""
        return mapping(self.policy.get("mpi")).get("runLauncherAsNode") is True

    def _patched(self) -> Part:
        template = mapping(mapping(self.runtime.data.get("spec")).get("template"))
        spot = self.runtime.at("spec", "template")
        own = mapping(template.get("metadata"))
        kept = {key: own[key] for key in ("labels", "annotations") if isinstance(own.get(key), dict)}
        metadata = part_of(kept, spot.below("metadata"))
        spec = part_of(dict(mapping(template.get("spec"))), spot.below("spec"))
        order = {text(item.get("name")): index for index, item in entries(mapping(template.get("spec")).get(_JOBS))}
        for index, patch in entries(self.spec.get("runtimePatches")):
            place = self.job.at("spec", "runtimePatches", index, "trainingRuntimeSpec", "template")
            given = mapping(mapping(patch.get("trainingRuntimeSpec")).get("template"))
            for key in ("labels", "annotations"):
                added = strings(mapping(given.get("metadata")).get(key))
                if added:
                    metadata.make(key).value.update(part_of(added, place.below("metadata", key)).value)
            if isinstance(given.get("spec"), dict):
                spec = merge(spec, part_of(given["spec"], place.below("spec")))
        jobs = spec.child(_JOBS)
        if jobs is not None and isinstance(jobs.value, list):
            jobs.value.sort(key=lambda each: order.get(_name(each), 0))
        metadata.value["name"] = Part(self.name, self.job.at("metadata", "name"))
        metadata.value["namespace"] = Part(self.job.namespace, self.job.at("metadata", "namespace"))
        head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
        tree = part_of(head, self.job.at())
        tree.value.update({"metadata": metadata, "spec": spec})
        return tree

    def _replicated(self, part: Part) -> ReplicatedJob:
        parallelism = part.at("template", "spec", "parallelism")
        found = ReplicatedJob(_name(part), part, Setting(1, part.spot.below("template", "spec"), implied=True))
        if parallelism is not None and parallelism.value is not None:
            found.count = _at_least_one(Setting(count(parallelism.value), parallelism.spot))
        if found.ancestor == TRAINER and self.policy:
            written = self.policy.get("numNodes")
            spot = self.runtime.at("spec", "mlPolicy", "numNodes")
            nodes = Setting(1, spot, implied=True) if written is None else Setting(count(written), spot)
            found.count = _at_least_one(nodes)
        if self.policy and (found.ancestor == TRAINER or (self.launcher_is_node and found.name == NODE)):
            given = mapping(self.trainer).get("resourcesPerNode")
            for container in found.containers(NODE) if isinstance(given, dict) else ():
                patch = part_of(given, self.at("resourcesPerNode"))
                container.value["resources"] = merge(container.make("resources"), patch)
                break
        return found

    def _train(self, each: ReplicatedJob) -> None:
        for container in each.containers(NODE):
            for field in ("image", "command", "args"):
                if (given := mapping(self.trainer).get(field)) is not None:
                    container.value[field] = part_of(given, self.at(field))

    def _read_settings(self, each: ReplicatedJob) -> None:
        """Say as `envFrom` what a TrainJob cannot say: ConfigMaps whose files the command makes variables of."""
        volumes = {_name(volume): volume for volume in each.pod.items("volumes")}
        for container in each.containers(NODE):
            mounts = {text(mount.plain().get("mountPath")): mount for mount in container.items("volumeMounts")}
            command = container.child("command")
            script = " ".join(map(str, sequence(command.plain()))) if command is not None else ""
            for folder in _FOLDERS.findall(script) if "export" in script else ():
                volume = volumes.get(_name(mounts[folder])) if folder in mounts else None
                name = None if volume is None else volume.at("configMap", "name")
                if name is not None:
                    source = Part({"configMapRef": Part({"name": name}, name.spot)}, name.spot)
                    upsert(container, "envFrom", source, "configMapRef")

    def _variables(self, each: ReplicatedJob, name: str, spot: Spot, variables: Any) -> None:
        for container in each.containers(name):
            for index, variable in entries(variables):
                upsert(container, "env", part_of(variable, spot.below(index)), "name")

    def _initialize(self, each: ReplicatedJob) -> None:
        field = _INITIALIZERS[each.ancestor]
        spot = self.job.at("spec", "initializer", field)
        given = mapping(mapping(self.spec.get("initializer")).get(field))
        if given.get("storageUri") is not None:
            address = {"name": "STORAGE_URI", "value": given["storageUri"]}
            variable = part_of(address, spot)
            variable.value["value"] = part_of(given["storageUri"], spot.below("storageUri"))
            for container in each.containers(each.ancestor):
                upsert(container, "env", variable, "name")
        self._variables(each, each.ancestor, spot.below("env"), given.get("env"))
        if isinstance(given.get("secretRef"), dict):
            source = Part({"secretRef": part_of(given["secretRef"], spot.below("secretRef"))}, spot.below("secretRef"))
            for container in each.containers(each.ancestor):
                upsert(container, "envFrom", source, "secretRef")

    def _join_gang(self, each: ReplicatedJob) -> None:
        for scheduler, field, key in _GANGS:
            if isinstance(self.gangs.get(scheduler), dict):
                spot = self.runtime.at("spec", "podGroupPolicy", scheduler)
                metadata = each.part.make("template", "spec", "template", "metadata", field)
                metadata.value[key] = Part(self.name, spot)


_JOBS = "replicatedJobs"
_FOLDERS = re.compile(r"(?<![\w./-])(/[\w./-]+)/\*")
"""Folders that a script goes through file by file."""
_GANGS = (
    ("coscheduling", "labels", "scheduling.x-k8s.io/pod-group"),
    ("volcano", "annotations", "scheduling.k8s.io/group-name"),
)


def whole_units(amount: Any) -> int:
    """A quantity as Kubernetes' `Value()` gives it, rounded up; zero for what is none."""
    found = quantity(amount)
    return 0 if found is None else math.ceil(found)


def _at_least_one(setting: Setting) -> Setting:
    value = setting.value
    return setting if value is None or value > 0 else Setting(1, setting.spot, setting.implied)


def _name(part: Part) -> str:
    named = part.child("name")
    return text(named.value) if named is not None else ""
