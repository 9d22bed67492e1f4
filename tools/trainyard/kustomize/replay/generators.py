"""ConfigMaps and Secrets that a kustomization generates."""

import base64
import hashlib
import json
import posixpath
from collections.abc import Iterator
from typing import Any

from trainyard.errors import InputError
from trainyard.kustomize.kustomization import join
from trainyard.kustomize.replay.resources import Resource, empty_map, string, text_of
from trainyard.yaml.nodes import Node, RawMark, Settings, Source
from trainyard.yaml.sources import Sources

_LETTERS = str.maketrans("013ae", "ghkmt")
_BASE64_LINE = 70


def generate(sources: Sources, folder: str, kind: str, entry: Node, options: Node | None) -> Resource:
    """The object of one entry of configMapGenerator or secretGenerator. `options` is generatorOptions."""
    name = entry.child("name")
    root = empty_map()
    root.raw = entry.raw
    metadata = empty_map()
    if name is not None:
        metadata.value["name"] = name
    namespace = entry.child("namespace")
    if namespace is not None and namespace.value:
        metadata.value["namespace"] = namespace
    own = entry.child("options")
    for field in ("labels", "annotations"):
        merged = {**_strings(own, field), **_strings(options, field)}
        if merged:
            metadata.value[field] = empty_map()
            metadata.value[field].value.update(merged)
    root.value = {"apiVersion": string("v1", None), "kind": string(kind, None), "metadata": metadata}
    if kind == "Secret":
        given = entry.child("type")
        root.value["type"] = given if given is not None and given.value else string("Opaque", None)
    data = empty_map()
    for key, value in _pairs(sources, folder, entry):
        data.value[key] = _encoded(value) if kind == "Secret" else value
    if data.value or kind == "Secret":
        root.value["data"] = data
    for given in (own, options):
        immutable = given.child("immutable") if given is not None else None
        if immutable is not None and immutable.value is True:
            root.value["immutable"] = immutable
    plain = any(
        (flag := given.child("disableNameSuffixHash")) is not None and flag.value is True
        for given in (own, options)
        if given is not None
    )
    return Resource(root, shared=False, hashed=not plain, behavior=text_of(entry.child("behavior")))


def name_hash(resource: Resource) -> str:
    """The suffix that kustomize gives the name of a generated object."""
    fields: dict[str, Any] = {"kind": resource.kind, "name": ""}
    for key in ("data", "binaryData") if resource.kind == "ConfigMap" else ("data", "stringData", "type"):
        node = resource.node.child(key)
        if node is not None:
            fields[key] = node.plain()
        elif key in ("data", "type"):
            fields[key] = ""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return hashlib.sha256(text.encode()).hexdigest()[:10].translate(_LETTERS)


def _strings(options: Node | None, field: str) -> dict[str, Node]:
    node = options.child(field) if options is not None else None
    return dict(node.value) if node is not None and type(node.value) is dict else {}


def _pairs(sources: Sources, folder: str, entry: Node) -> Iterator[tuple[str, Node]]:
    for node in [*_items(entry, "envs"), *([env] if (env := entry.child("env")) is not None else [])]:
        yield from _env_file(sources, join(folder, text_of(node)))
    for node in _items(entry, "literals"):
        key, _, value = text_of(node).partition("=")
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        text = value[1:-1] if quoted else value
        raw = _within(node, len(key) + 1 + quoted, len(text))
        yield key, string(text, raw, _within(node, 0, len(key)))
    for node in _items(entry, "files"):
        named, _, path = text_of(node).rpartition("=")
        file = join(folder, path)
        try:
            text = sources.text(file)
        except InputError:
            continue
        yield named or posixpath.basename(path), string(text, (Source(file, text), 1, 1, 1), node.raw, "file")


def _items(entry: Node, name: str) -> list[Node]:
    node = entry.child(name)
    return node.value if node is not None and type(node.value) is list else []


def _within(node: Node, start: int, length: int) -> RawMark | None:
    """The place of a part of a scalar that is written on one line without escapes, else that of the whole."""
    if node.raw is None:
        return None
    source, line, column, whole = node.raw
    quotes = 1 if node.style in ("'", '"') else 0
    if node.style not in ("", "'", '"') or whole != len(node.text) + 2 * quotes:
        return node.raw
    return (source, line, column + quotes + start, max(length, 1))


def _env_file(sources: Sources, file: str) -> Iterator[tuple[str, Node]]:
    text = sources.text(file)
    source = Settings(file, text)
    for number, line in enumerate(source.lines, 1):
        bare = line.removesuffix("\r").lstrip()
        if not bare or bare.startswith("#"):
            continue
        key, _, value = bare.partition("=")
        indent = len(line) - len(line.lstrip())
        key_raw = (source, number, indent + 1, max(len(key), 1))
        yield key, string(value, (source, number, indent + len(key) + 2, max(len(value), 1)), key_raw)


def _encoded(value: Node) -> Node:
    text = base64.b64encode(value.text.encode()).decode()
    lines = [text[i : i + _BASE64_LINE] for i in range(0, len(text), _BASE64_LINE)]
    text = text if len(text) < _BASE64_LINE else "".join(line + "\n" for line in lines)
    return string(text, value.raw, value.key_raw)
