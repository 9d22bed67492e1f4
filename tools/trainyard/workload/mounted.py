"""Files that a container sees because a ConfigMap is mounted."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.plain import entries, mapping, text


def mounted_text(
    path: str, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> tuple[str, Spot] | None:
    """The text of the file at a path, and the ConfigMap's field that holds it; None where no manifest tells."""
    volumes = {text(volume.get("name")): mapping(volume.get("configMap")) for _, volume in entries(pod.get("volumes"))}
    for _, mount in entries(container.get("volumeMounts")):
        at, one = posixpath.normpath(text(mount.get("mountPath")) or "/"), text(mount.get("subPath"))
        source = volumes.get(text(mount.get("name")), {})
        inside = (one if at == path else "") if one else path[len(at) + 1 :] if path.startswith(f"{at}/") else ""
        same = (item for item in sources if item.kind == "ConfigMap" and item.name == source.get("name"))
        found = next(same, None) if inside else None
        keys = {text(item.get("path")): text(item.get("key")) for _, item in entries(source.get("items"))}
        key = keys.get(inside, "") if keys else inside
        content = mapping(found.data.get("data")).get(key) if found is not None else None
        if found is not None and isinstance(content, str):
            return content, found.at("data", key)
    return None
