"""GPUs that a device plugin hands out several times, against training pods that want them whole."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.counts import gpu_limit, number
from trainyard.rules.common.once import once
from trainyard.rules.common.starts import ranks_per_pod, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.embedded import yaml_map
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, strings, text


@rule("GPU003", "gpu-is-shared", Severity.ERROR, needs=Workload)
@once
def gpu_is_shared(workload: Workload) -> Iterator[Problem]:
    """The device plugin hands each GPU out several times, and a pod that trains asks for more than one.

    With time-slicing, two of the GPUs that a pod gets may be one and the same: NCCL stops with "Duplicate GPU
    detected". With `failRequestsGreaterThanOne` such a pod is refused at the node. Shared GPUs are for notebooks and
    inference.

    Bad:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: device-plugin, namespace: gpu-operator}
        data: {any: "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}}"}
    Good:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: device-plugin, namespace: gpu-operator}
        data: {any: "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}}"}
    Near miss:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: device-plugin, namespace: gpu-operator}
        data: {any: "{version: v1, sharing: {timeSlicing: {renameByDefault: true,
          resources: [{name: nvidia.com/gpu, replicas: 4}]}}}"}

    Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
    """
    shared = {name: (times, spot) for item in workload.objects for name, times, spot in _shared(item)}
    for pod_set in workload.pod_sets if shared else ():
        for container in pod_set.containers:
            for name, (times, spot) in shared.items():
                limit = container.limits.get(name)
                if limit is None or limit != gpu_limit(container) or container.gpus < 2:
                    continue
                yield Problem(
                    f"container {container.name} asks for {limit.value} of {name}, which is offered {times} times",
                    limit.spot.saying("two of them may be one GPU"),
                    (spot.saying("shared here"),),
                    "train on nodes whose GPUs are not shared",
                )


def _shared(item: Object) -> Iterator[tuple[str, int, Spot]]:
    """The resources that a configuration of the device plugin hands out several times under their own name."""
    if item.kind != "ConfigMap":
        return
    for key, document in strings(item.data.get("data")).items():
        if "timeSlicing" not in document:
            continue
        slicing = mapping(mapping(yaml_map(document).get("sharing")).get("timeSlicing"))
        for _, resource in entries(slicing.get("resources")):
            times = resource.get("replicas")
            renamed = slicing.get("renameByDefault") is True or resource.get("rename")
            if isinstance(times, int) and times > 1 and not renamed:
                yield text(resource.get("name")), times, item.at("data", key)


@rule("GPU004", "visible-devices-too-few", Severity.ERROR, needs=Workload)
@once
def visible_devices_too_few(workload: Workload) -> Iterator[Problem]:
    """CUDA_VISIBLE_DEVICES shows the ranks of a pod fewer GPUs than there are ranks.

    Kubernetes gives a container its own GPUs, counted from 0. A list that was written for another machine hides some
    of them, and the ranks past its end stop with "invalid device ordinal".

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, env: [{name: CUDA_VISIBLE_DEVICES, value: "0,1,2,3"}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, env: [{name: CUDA_VISIBLE_DEVICES, value: "0,1,2,3,4,5,6,7"}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [
          {name: CUDA_VISIBLE_DEVICES, value: "0,1,2,3"}, {name: PET_NPROC_PER_NODE, value: "4"}]}]}}}

    Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
    """
    for start in starts(workload):
        ranks, shown = ranks_per_pod(start.launch), start.container.env.get("CUDA_VISIBLE_DEVICES")
        if ranks is None or shown is None or not shown.value or not _DEVICES.match(shown.value):
            continue
        devices = len(shown.value.split(","))
        if ranks.value > devices:
            yield Problem(
                f"CUDA_VISIBLE_DEVICES shows {number(devices, 'GPU')} to {number(ranks.value, 'rank')} of a pod",
                shown.spot.saying("hides the others"),
                (ranks.spot.saying("ranks of one pod"),),
                "leave it out: a container sees its own GPUs and no others",
            )


_DEVICES = re.compile(r"[0-9]+(,[0-9]+)*\Z")
