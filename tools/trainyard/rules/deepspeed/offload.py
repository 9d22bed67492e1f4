"""Where offloaded states go."""

import posixpath
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.deepspeed.configs import Config, readable
from trainyard.rules.deepspeed.files import mounts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Workload

_INFINITY = 3
"""The stage that offloads to nvme."""


@rule("DSP016", "deepspeed-nvme-not-mounted", Severity.WARNING, needs=Workload)
@once
def deepspeed_nvme_not_mounted(workload: Workload) -> Iterator[Problem]:
    """States are offloaded to a folder in which no volume is mounted.

    They then go to the container's own file system, which is the node's system disk: it is slow, its space counts as
    ephemeral storage, and the kubelet evicts the pod when it is full.

    Bad:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
            "nvme_path": "/checkpoints/swap"}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: ds, namespace: research}
        data:
          ds.json: >-
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "nvme_path": "/local_nvme"}}}
        ---
        kind: Job
        spec: {template: {spec: {volumes: [{name: ds, configMap: {name: ds}}], containers: [
          {name: trainer, args: [train.py, --deepspeed, --deepspeed_config=/ds/ds.json],
          volumeMounts: [{name: ds, mountPath: /ds}]}]}}}

    Source: https://www.deepspeed.ai/docs/config-json/#parameter-offloading
    """
    for config in readable(workload):
        for section in ("offload_param", "offload_optimizer"):
            path = config.written(f"zero_optimization.{section}.nvme_path")
            device = config.value(f"zero_optimization.{section}.device")
            if (
                config.value("zero_optimization.stage") != _INFINITY
                or device != "nvme"
                or not isinstance(path, str)
                or not posixpath.isabs(path)
            ):
                continue
            where = posixpath.normpath(path)
            holders = (each.rstrip("/") + "/" for holder in _who_trains(workload, config) for each in mounts(holder))
            if not any((where + "/").startswith(holder) for holder in holders):
                yield Problem(
                    f"{section} goes to {path}, where no volume is mounted",
                    config.at(f"zero_optimization.{section}.nvme_path"),
                    related=(config.container.spot.below("volumeMounts"),),
                    help="mount a volume on a local disk there",
                )


def _who_trains(workload: Workload, config: Config) -> Iterator[Container]:
    """The container that names the configuration; of a Ray cluster, where ranks run anywhere, those of all groups."""
    if workload.object.group != "ray.io":
        yield config.container
        return
    for pod_set in workload.pod_sets:
        yield from pod_set.containers
