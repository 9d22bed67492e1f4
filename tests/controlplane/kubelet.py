"""What the kubelet would give a container: its environment, its files."""

import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def environment(container: Json, pod: Json, maps: Mapping[str, Mapping[str, str]]) -> dict[str, str | None]:
    """A container's variables as the kubelet would set them; None where the value lies elsewhere."""
    found: dict[str, str | None] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            prefix = source.get("prefix", "")
            found |= {prefix + key: value for key, value in maps.get(source["configMapRef"]["name"], {}).items()}
    for each in container.get("env", []):
        field_path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if field_path:
            found[each["name"]] = _field(pod, field_path)
        elif key := each.get("valueFrom", {}).get("configMapKeyRef"):
            found[each["name"]] = maps.get(key["name"], {}).get(key["key"])
        elif "valueFrom" in each:
            found[each["name"]] = None
        else:
            found[each["name"]] = _expanded(each.get("value", ""), found)
    return found


def files(container: Json, pod: Json, maps: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """The contents of the files that ConfigMaps bring into a container, by file name, without the last line's end."""
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    found: dict[str, set[str]] = {}
    for volume in pod["spec"].get("volumes", []):
        if volume["name"] in mounted and "configMap" in volume:
            for name, content in maps.get(volume["configMap"]["name"], {}).items():
                found.setdefault(name, set()).add(content.rstrip("\n"))
    return found


def _field(pod: Json, path: str) -> str | None:
    group, _, key = path.partition("['")
    if key:
        value = pod
        for step in group.split("."):
            value = value.get(step, {})
        return value.get(key.removesuffix("']"))
    value = pod
    for step in path.split("."):
        value = value.get(step, {})
    return value if isinstance(value, str) else None


def _expanded(text: str, known: Mapping[str, str | None]) -> str:
    """`$(NAME)` becomes the variable's value where there is one, `$$` becomes `$`."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return str(known[found[1]]) if known.get(found[1]) is not None else found[0]

    return _REFERENCE.sub(value, text)
