"""The volumes of a pod, beside the places where its containers mount them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.workload.model import Container, PodSet
from trainyard.workload.plain import entries, mapping, text

_NOT_KEPT = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "image", "projected", "secret"})


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume of a pod."""

    name: str
    source: str
    """The kind of the volume: emptyDir, persistentVolumeClaim, nfs ...; empty where none is given."""
    data: Mapping[str, Any]
    """What stands under the source."""
    spot: Spot
    """The item of `volumes`."""

    @property
    def claim(self) -> str:
        """The name of the claim, empty for other volumes."""
        return text(self.data.get("claimName")) if self.source == "persistentVolumeClaim" else ""

    @property
    def in_memory(self) -> bool:
        """True for an emptyDir whose content counts as memory of the container that writes it."""
        return self.source == "emptyDir" and self.data.get("medium") == "Memory"

    @property
    def outlives_pod(self) -> bool:
        """True where what is written is still there when the pod is gone."""
        return bool(self.source) and self.source not in _NOT_KEPT


@dataclass(frozen=True, slots=True)
class Mount:
    """One place where a container sees a volume."""

    path: PurePosixPath
    container: Container
    volume: Volume
    read_only: bool
    spot: Spot
    """The item of `volumeMounts`."""


def volumes(pod_set: PodSet) -> Iterator[Volume]:
    """The volumes of the pods."""
    for index, item in entries(pod_set.spec.get("volumes")):
        source = next((key for key in item if key != "name"), "")
        spot = pod_set.template.below("spec", "volumes", index)
        yield Volume(text(item.get("name")), source, mapping(item.get(source)), spot)


def mounts(pod_set: PodSet) -> Iterator[Mount]:
    """Where the containers of the pods, init containers aside, see the pods' volumes."""
    by_name = {volume.name: volume for volume in volumes(pod_set)}
    for container in pod_set.containers:
        for index, item in entries(container.data.get("volumeMounts")):
            volume = by_name.get(text(item.get("name")))
            if volume is not None:
                yield Mount(
                    path=PurePosixPath(text(item.get("mountPath"))),
                    container=container,
                    volume=volume,
                    read_only=item.get("readOnly") is True or volume.data.get("readOnly") is True,
                    spot=container.spot.below("volumeMounts", index),
                )
