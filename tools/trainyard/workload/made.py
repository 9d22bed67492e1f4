"""Objects that a controller makes from others, such as the JobSet of a TrainJob, and where their parts were written.

A tree of such an object is put together from parts of manifests, each with the field that holds it. Rules read the
made object as if it were rendered; `written` leads from a field of it back to the manifest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.yaml.fieldpath import Path

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "dependsOn": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "replicatedJobs": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists of a JobSet that a strategic-merge patch merges, by field; it replaces the others."""


@dataclass(frozen=True, slots=True)
class MadeObject(Object):
    """An object that no manifest holds."""

    sources: Mapping[Path, Spot] = field(default_factory=dict, repr=False, compare=False)
    """Where a part was written; what is not listed was written below what is above it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a made object, with the field that it comes from."""

    value: Any
    """A dict of parts by key, a list of parts, or plain data."""
    spot: Spot

    def child(self, key: str) -> "Part | None":
        """The part under a key."""
        found = self.value.get(key) if isinstance(self.value, dict) else None
        return found if isinstance(found, Part) else None

    def at(self, *keys: str) -> "Part | None":
        """The part at the end of some keys."""
        found: Part | None = self
        for key in keys:
            found = None if found is None else found.child(key)
        return found

    def make(self, *keys: str) -> "Part":
        """The map at the end of some keys, made where it is missing or is none."""
        found = self
        for key in keys:
            below = found.child(key)
            if below is None or not isinstance(below.value, dict):
                below = found.value[key] = Part({}, found.spot.below(key))
            found = below
        return found

    def items(self, key: str) -> "list[Part]":
        """The maps in the list under a key."""
        found = self.child(key)
        return [item for item in found.value if isinstance(item.value, dict)] if found and _is_list(found) else []

    def plain(self) -> Any:
        """The data without its places."""
        if isinstance(self.value, dict):
            return {key: part.plain() for key, part in self.value.items()}
        return [part.plain() for part in self.value] if isinstance(self.value, list) else self.value


def part_of(data: Any, spot: Spot) -> Part:
    """Data of a manifest as parts, free to be changed."""
    if isinstance(data, dict):
        return Part({key: part_of(value, spot.below(key)) for key, value in data.items()}, spot)
    if isinstance(data, list):
        return Part([part_of(value, spot.below(index)) for index, value in enumerate(data)], spot)
    return Part(data, spot)


def made_object(tree: Part, job: Object) -> MadeObject:
    """The object that the controller of `job` makes in its namespace, from a tree that is a map."""
    data = tree.plain()
    plain = Object.of(data, -1 - job.index)
    return MadeObject(
        data=data,
        index=plain.index,
        api_version=plain.api_version,
        kind=plain.kind,
        namespace=plain.namespace,
        name=plain.name,
        sources={(): job.at(), **dict(_places(tree, ()))},
    )


def written(spot: Spot) -> Spot:
    """The field of a manifest that a field of a made object comes from; any other field is its own."""
    while isinstance(spot.object, MadeObject):
        sources = spot.object.sources
        length = next(length for length in range(len(spot.path), -1, -1) if spot.path[:length] in sources)
        above = sources[spot.path[:length]]
        spot = Spot(above.object, above.path + spot.path[length:], spot.label, spot.at_key)
    return spot


def merge(base: Part, patch: Part, key: str = "") -> Part:
    """A strategic-merge patch laid over a tree, as the API server's library does it. `key` names the field."""
    if isinstance(base.value, dict) and isinstance(patch.value, dict):
        merged = dict(base.value)
        for name, part in patch.value.items():
            if part.value is None:
                merged.pop(name, None)
            elif name in merged:
                merged[name] = merge(merged[name], part, name)
            else:
                merged[name] = part
        return Part(merged, base.spot)
    if _is_list(base) and _is_list(patch) and key in MERGE_KEYS:
        return Part(_merged_list(base.value, patch.value, MERGE_KEYS[key]), base.spot)
    return patch


def _merged_list(base: list[Part], patch: list[Part], key: str) -> list[Part]:
    """Items of the patch in its order, each over its like in `base`; the rest of `base` between them by its order."""
    places = {_name(item, key): index for index, item in enumerate(base)}
    ours = [_name(item, key) for item in patch]
    left = [item for item in base if _name(item, key) not in ours]
    right = [
        merge(base[places[name]], item) if name in places else item for name, item in zip(ours, patch, strict=True)
    ]
    merged: list[Part] = []
    while left and right:
        place = places.get(_name(right[0], key))
        first = place is not None and places[_name(left[0], key)] < place
        merged.append((left if first else right).pop(0))
    return merged + left + right


def upsert(above: Part, name: str, item: Part, key: str) -> None:
    """Put an item in the place of its like in the list under `name`, or at its end."""
    found = above.child(name)
    if found is None or not _is_list(found):
        found = above.value[name] = Part([], above.spot.below(name))
    for index, each in enumerate(found.value):
        if _name(each, key) == _name(item, key):
            found.value[index] = item
            return
    found.value.append(item)


def _name(item: Part, key: str) -> Any:
    named = item.child(key)
    value = None if named is None else named.value
    return value if isinstance(value, str | int) else id(item)


def _is_list(part: Part) -> bool:
    return isinstance(part.value, list)


def _places(part: Part, path: Path) -> Iterator[tuple[Path, Spot]]:
    yield path, part.spot
    if isinstance(part.value, dict):
        for key, below in part.value.items():
            yield from _places(below, (*path, key))
    elif isinstance(part.value, list):
        for index, below in enumerate(part.value):
            yield from _places(below, (*path, index))
