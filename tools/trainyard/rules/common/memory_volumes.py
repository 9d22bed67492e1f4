"""Volumes in memory: who writes to them, and what bounds them."""

from collections.abc import Iterator

from trainyard.rules.common.places import value_at
from trainyard.rules.common.volumes import Mount, mounts
from trainyard.workload.model import PodSet


def memory_mounts(pod_set: PodSet) -> Iterator[Mount]:
    """Where containers write to the memory volumes that manifests hold."""
    yield from (mount for mount in mounts(pod_set) if mount.volume.in_memory and _is_written(mount))


def without_bound(mount: Mount) -> bool:
    """Whether a memory volume may grow to the memory of the node, as nothing limits it or its container."""
    return mount.volume.data.get("sizeLimit") is None and "memory" not in mount.container.limits


def _is_written(mount: Mount) -> bool:
    """False for a volume that the job's controller adds, such as KubeRay's for the object store."""
    return value_at(mount.volume.spot) is not None
