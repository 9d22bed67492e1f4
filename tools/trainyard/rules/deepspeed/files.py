"""Files that a container sees and whose text the manifests hold: mounted ConfigMaps, and what its script writes."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping, sequence
from trainyard.workload.script_files import File, written


def files(workload: Workload, pod_set: PodSet, container: Container) -> Mapping[str, File]:
    """Path to file, of all whose text is known."""
    found: dict[str, File] = {}
    config_maps = {obj.name: obj for obj in workload.of_kind("ConfigMap")}
    volumes = {
        str(volume.get("name")): dict(_volume_files(volume, config_maps))
        for _, volume in entries(pod_set.spec.get("volumes"))
    }
    for _, mount in entries(container.data.get("volumeMounts")):
        inside, path = volumes.get(str(mount.get("name")), {}), str(mount.get("mountPath"))
        one = mount.get("subPath")
        for name, (text, spot) in inside.items():
            if not isinstance(one, str) or not one:
                at = posixpath.join(path, name)
            elif name == posixpath.normpath(one):
                at = path
            elif name.startswith(posixpath.normpath(one) + "/"):
                at = posixpath.join(path, posixpath.relpath(name, one))
            else:
                continue
            found[at] = File(at, text, spot)
    for file in written(container):
        found[file.path] = file
    return found


def file_of(workload: Workload, pod_set: PodSet, container: Container, path: str) -> File | None:
    """The file that a container, or where it has none another of the job, sees under a path.

    A relative path that no working directory makes whole is the one file of that name.
    """
    pairs = [(pod_set, container), *((each, other) for each in workload.pod_sets for other in each.containers)]
    for each, other in pairs:
        seen = files(workload, each, other)
        directory = other.data.get("workingDir")
        whole = posixpath.normpath(posixpath.join(directory if isinstance(directory, str) else "", path))
        alike = [file for at, file in seen.items() if posixpath.basename(at) == posixpath.basename(path)]
        found = seen.get(whole) or seen.get(path)
        if found is None and not posixpath.isabs(path) and len(alike) == 1:
            found = alike[0]
        if found is not None:
            return found
    return None


def full_folders(workload: Workload, pod_set: PodSet, container: Container) -> Mapping[str, Spot]:
    """Folders that are one mounted ConfigMap each, so that no other file can be in them, and the mount."""
    config_maps = {obj.name for obj in workload.of_kind("ConfigMap")}
    names = {
        str(volume.get("name"))
        for _, volume in entries(pod_set.spec.get("volumes"))
        if str(mapping(volume.get("configMap")).get("name")) in config_maps
    }
    return {
        posixpath.normpath(str(mount.get("mountPath"))): container.spot.below("volumeMounts", index)
        for index, mount in entries(container.data.get("volumeMounts"))
        if str(mount.get("name")) in names and not mount.get("subPath") and not mount.get("subPathExpr")
    }


def mounts(container: Container) -> tuple[str, ...]:
    """Where volumes are mounted."""
    paths = (mount.get("mountPath") for _, mount in entries(container.data.get("volumeMounts")))
    return tuple(posixpath.normpath(path) for path in paths if isinstance(path, str) and path)


def _volume_files(
    volume: Mapping[Any, Any], config_maps: Mapping[str, Object]
) -> Iterator[tuple[str, tuple[str, Spot]]]:
    projected = sequence(mapping(volume.get("projected")).get("sources"))
    for source in (volume, *(each for each in projected if isinstance(each, dict))):
        reference = mapping(source.get("configMap"))
        obj = config_maps.get(str(reference.get("name")))
        data = mapping(obj.data.get("data")) if obj is not None else {}
        items = [(item.get("key"), item.get("path")) for _, item in entries(reference.get("items"))]
        for key, path in items or [(key, key) for key in data]:
            if obj is not None and isinstance(key, str) and isinstance(path, str) and isinstance(data.get(key), str):
                yield posixpath.normpath(path), (data[key], obj.at("data", key))
