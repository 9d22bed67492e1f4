"""The objects that pods name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.places import value_at
from trainyard.rules.common.volumes import volumes
from trainyard.workload.environment import references
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries, mapping, text


@dataclass(frozen=True, slots=True)
class NamedObject:
    """One object that a pod names."""

    kind: str
    """ConfigMap, Secret, PersistentVolumeClaim or ServiceAccount."""
    name: str
    spot: Spot
    """The field that holds the name."""
    key: str | None = None
    """The only key of it that is read, where that is so."""
    key_spot: Spot | None = None
    optional: bool = False
    """True where the pod starts without it."""


def named(workload: Workload) -> Iterator[NamedObject]:
    """What the pods of a job name, as far as manifests hold it."""
    for pod_set in workload.pod_sets:
        for found in _named_by(pod_set):
            if found.name and value_at(found.spot) == found.name:
                yield found
    if workload.object.kind == "TrainJob" and not workload.pod_sets:
        trainer = workload.object.at("spec", "trainer")
        yield from _named_in(mapping(value_at(trainer)), trainer)


def there(workload: Workload, found: NamedObject) -> Object | None:
    """The object that a name means, in the job's namespace."""
    return next((item for item in workload.of_kind(found.kind) if item.name == found.name), None)


def elsewhere(workload: Workload, found: NamedObject) -> Object | None:
    """An object of the kind and the name in another namespace; None where the job's own has it, or none is known."""
    if there(workload, found) is not None or not workload.object.namespace:
        return None
    same = (item for item in workload.objects if item.kind == found.kind and item.name == found.name)
    return next((item for item in same if item.namespace), None)


def _named_in(container: Mapping[Any, Any], spot: Spot) -> Iterator[NamedObject]:
    for found in references(container, spot):
        at_key = found.spot.path[-1:] == ("key",)
        parent = Spot(found.spot.object, found.spot.path[:-1])
        name_spot = parent.below("name") if at_key else found.spot
        yield NamedObject(found.kind, found.name, name_spot, found.key or None, parent.below("key"), found.optional)


def _named_by(pod_set: PodSet) -> Iterator[NamedObject]:
    spec = pod_set.template.below("spec")
    for container in (*pod_set.init_containers, *pod_set.containers):
        if not container.by_controller:
            yield from _named_in(container.data, container.spot)
    for volume in volumes(pod_set):
        yield from _of_source(volume.source, volume.data, volume.spot)
        if volume.source == "projected":
            for index, source in entries(volume.data.get("sources")):
                for kind in ("configMap", "secret"):
                    yield from _of_source(
                        kind, mapping(source.get(kind)), volume.spot.below("projected", "sources", index)
                    )
    if account := text(pod_set.spec.get("serviceAccountName")):
        yield NamedObject("ServiceAccount", account, spec.below("serviceAccountName"))
    for index, secret in entries(pod_set.spec.get("imagePullSecrets")):
        yield NamedObject("Secret", text(secret.get("name")), spec.below("imagePullSecrets", index, "name"))


def _of_source(source: str, data: object, spot: Spot) -> Iterator[NamedObject]:
    found = mapping(data)
    if source == "persistentVolumeClaim":
        yield NamedObject("PersistentVolumeClaim", text(found.get("claimName")), spot.below(source, "claimName"))
        return
    if source not in ("configMap", "secret"):
        return
    kind = "ConfigMap" if source == "configMap" else "Secret"
    field = "secretName" if "secretName" in found else "name"
    optional = found.get("optional") is True
    name, here = text(found.get(field)), spot.below(source, field)
    items = list(entries(found.get("items")))
    if not items:
        yield NamedObject(kind, name, here, optional=optional)
    for index, item in items:
        key_spot = spot.below(source, "items", index, "key")
        yield NamedObject(kind, name, here, text(item.get("key")) or None, key_spot, optional)
