"""Kustomize's own transformers: namespace, prefix, suffix, labels, annotations, images and counts."""

import re
from collections.abc import Iterable, Sequence

from trainyard.kustomize.replay import fieldspecs
from trainyard.kustomize.replay.fieldspecs import FieldSpec, each
from trainyard.kustomize.replay.patterns import whole
from trainyard.kustomize.replay.resources import Resource, empty_map, retyped, string, text_of
from trainyard.yaml.nodes import Node

_UNPREFIXED = frozenset(("CustomResourceDefinition", "APIService", "Namespace"))
_TAG = re.compile(r":[a-zA-Z0-9_.{}-]*\Z")
_DIGEST = re.compile(r"@[a-zA-Z0-9]+(?:[.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{}-]*\Z")


def set_namespace(resources: list[Resource], namespace: Node, *, unset_only: bool = False, subjects: str = "") -> None:
    """Put every namespaced object into a namespace."""
    for resource in resources:
        resource.remember()
        if not resource.cluster_scoped:
            metadata = _metadata(resource)
            present = metadata.value.get("namespace")
            if not unset_only or not text_of(present):
                metadata.value["namespace"] = _as(namespace, present)
        for spec in fieldspecs.NAMESPACES:
            if spec.applies(resource):
                each(resource.own(), spec.path, spec.create, lambda parent, name: _put(parent, name, namespace))
        if resource.kind in ("RoleBinding", "ClusterRoleBinding") and subjects != "none":
            _bind(resource, namespace, subjects)


def _bind(resource: Resource, namespace: Node, subjects: str) -> None:
    listed = resource.own().child("subjects")
    for subject in listed.value if listed is not None and type(listed.value) is list else ():
        if type(subject.value) is not dict:
            continue
        key, wanted = ("kind", "ServiceAccount") if subjects == "allServiceAccounts" else ("name", "default")
        if text_of(subject.child(key)) == wanted:
            _put(subject, "namespace", namespace)


def add_affix(resources: list[Resource], affix: Node, extra: Sequence[FieldSpec], *, prefix: bool) -> None:
    """Put a text before or behind names."""

    def join(parent: Node, name: str) -> None:
        old = parent.value[name]
        text = affix.text + text_of(old) if prefix else text_of(old) + affix.text
        parent.value[name] = retyped(old, text, old)

    for resource in resources:
        if resource.original.kind in _UNPREFIXED:
            continue
        resource.remember()
        if prefix:
            resource.prefixes = (*resource.prefixes, affix.text)
        else:
            resource.suffixes = (*resource.suffixes, affix.text)
        each(resource.own(), ("metadata", "name"), False, join)
        for spec in extra:
            if spec.applies(resource):
                each(resource.own(), spec.path, False, join)


def add_strings(resources: list[Resource], pairs: Node | None, specs: Iterable[FieldSpec]) -> None:
    """Add labels or annotations at the fields that the specs name."""
    if pairs is None or type(pairs.value) is not dict or not pairs.value:
        return

    def add(parent: Node, name: str) -> None:
        held = parent.value.get(name)
        if held is None or held.value is None:
            held = parent.value[name] = empty_map(None if held is None else held.key_raw)
        if type(held.value) is not dict:
            return
        for key, value in pairs.value.items():
            present = held.value.get(key)
            copy = string(text_of(value), value.raw, value.key_raw, value.style)
            held.value[key] = copy if present is None else copy.under(present.key_raw)

    unique = dict.fromkeys(specs)
    for resource in resources:
        for spec in unique:
            if spec.applies(resource):
                each(resource.own(), spec.path, spec.create, add)


def set_replicas(resources: list[Resource], entry: Node, extra: Sequence[FieldSpec]) -> None:
    """Set the replica count of the objects that an entry of `replicas` names."""
    count, name = entry.child("count"), text_of(entry.child("name"))
    if count is None:
        return
    for resource in resources:
        if not any(former.name == name for former in resource.ids):
            continue
        for spec in (*fieldspecs.REPLICAS, *extra):
            if spec.applies(resource):
                each(resource.own(), spec.path, spec.create, lambda parent, field: _put(parent, field, count))


def set_image(resources: list[Resource], entry: Node, extra: Sequence[FieldSpec]) -> None:
    """Rename or retag an image wherever containers use it."""

    def change(parent: Node, name: str) -> None:
        old = parent.value[name]
        if type(old.value) is str:
            new = _image(old, entry)
            if new is not None:
                parent.value[name] = new

    for resource in resources:
        if resource.kind == "CustomResourceDefinition":
            continue
        _containers(resource.own(), change)
        for spec in (*fieldspecs.IMAGES, *extra):
            if spec.applies(resource):
                each(resource.own(), spec.path, False, change)


def _containers(node: Node, change: fieldspecs.Setter) -> None:
    if type(node.value) is list:
        for item in node.value:
            if type(item.value) in (dict, list):
                _containers(item, change)
        return
    for key, child in node.value.items() if type(node.value) is dict else ():
        if type(child.value) not in (dict, list):
            continue
        _containers(child, change)
        if key in ("containers", "initContainers") and type(child.value) is list:
            for item in child.value:
                if type(item.value) is dict and "image" in item.value:
                    change(item, "image")


def _image(old: Node, entry: Node) -> Node | None:
    if not _names(old.text, text_of(entry.child("name"))):
        return None
    name, tag, digest = _split(old.text)
    by = entry.child("newName")
    name = text_of(by) or name
    new_tag, new_digest, suffix = (entry.child(key) for key in ("newTag", "digest", "tagSuffix"))
    if text_of(new_tag) or text_of(new_digest):
        tag, digest = text_of(new_tag), text_of(new_digest)
    elif text_of(suffix):
        tag, digest = tag + text_of(suffix), ""
    written = next((node for node in (new_digest, new_tag, suffix, by) if text_of(node)), None)
    text = name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    return None if written is None or text == old.text else retyped(written, text, old)


def _names(image: str, name: str) -> bool:
    stripped = _DIGEST.sub("", image)
    return any(whole(name)(each) for each in (image, stripped, _TAG.sub("", stripped))) and bool(name)


def _split(image: str) -> tuple[str, str, str]:
    slash = max(image.find("/"), 0)
    at, colon = image.find("@", slash), image.find(":", slash)
    if at < 0 and colon < 0:
        return image, "", ""
    if at >= 0 and (at < colon or colon < 0):
        return image[:at], "", image[at + 1 :]
    if at >= 0:
        return image[:colon], image[colon + 1 : at], image[at + 1 :]
    return image[:colon], image[colon + 1 :], ""


def _metadata(resource: Resource) -> Node:
    root = resource.own()
    metadata = root.value.get("metadata")
    if metadata is None or type(metadata.value) is not dict:
        metadata = root.value["metadata"] = empty_map()
    found: Node = metadata
    return found


def _put(parent: Node, name: str, value: Node) -> None:
    parent.value[name] = _as(value, parent.value.get(name))


def _as(value: Node, present: Node | None) -> Node:
    return value if present is None else value.under(present.key_raw)
