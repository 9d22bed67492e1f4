"""Kinds that a fresh API server learns before it is asked about objects of them."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from trainyard.controlplane.client import Client, Refused
from trainyard.home import HOME
from trainyard.schema_generation.sources import read_sources

DEFINITIONS = HOME / ".tools" / "definitions"
"""Where tools/bootstrap.py puts the definitions of custom resources, a file a group, version and kind."""

SCHEMAS = HOME / "schemas"
_BY_HAND = "by hand: "
"""How the `$comment` of a schema begins that was written here, because no module holds its kind's definition."""
_CONFLICT = 409
_GROUP_VERSION = re.compile(r"[a-z0-9.-]+/[a-z0-9]+\Z")
_KIND = re.compile(r"[A-Za-z0-9]+\Z")


def load_definitions(admin: Client, kinds: Iterable[tuple[str, str]]) -> None:
    """Teach the server the custom resources among `kinds`, pairs of apiVersion and kind.

    A kind whose schema was written by hand is taught as a name of the cluster's scope alone: what it may hold is that
    schema's to judge. A kind that no definition is kept for stays unknown, and so does one whose name another
    definition holds already: the training operator's MPIJob and the MPI operator's are two definitions of one name.
    Fault where the server does not serve a kind in time.
    """
    for api_version, kind in sorted(set(kinds)):
        if not _GROUP_VERSION.match(api_version) or not _KIND.match(kind):
            continue
        definition = _kept(api_version, kind) or _open(api_version, kind)
        if definition is None:
            continue
        try:
            admin.create(definition)
        except Refused as refused:
            if refused.code != _CONFLICT:
                raise
            continue
        admin.until(f"{kind} of {api_version}", partial(admin.serves, api_version, kind))


def _kept(api_version: str, kind: str) -> Any:
    file = DEFINITIONS / f"{api_version.replace('/', '_')}_{kind}.json"
    if not file.is_file():
        return None
    definition = without_descriptions(json.loads(file.read_text()))
    for filled in read_sources(SCHEMAS / "sources.yaml").filled:
        of, *path = filled.replace("[]", ".[]").split(".")
        for version in definition["spec"]["versions"] if of == kind else ():
            _do_without(version["schema"]["openAPIV3Schema"], path)
    return definition


def without_descriptions(definition: Any) -> Any:
    """A definition that judges the same: descriptions are for readers, and half of what a server has to keep."""
    if isinstance(definition, list):
        return [without_descriptions(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        name: each if name in _VALUES else without_descriptions(each)
        for name, each in definition.items()
        if name != "description" or not isinstance(each, str)
    }


_VALUES = ("default", "enum", "example")
"""What a schema says of values, which may have a description as a field."""


def _do_without(schema: Any, path: Sequence[str]) -> None:
    """Let a field be missing that the project's webhook fills: no webhook runs beside the server."""
    *way, name = path
    for step in way:
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    schema["required"] = [each for each in schema["required"] if each != name]


def _open(api_version: str, kind: str) -> Any:
    """A definition that lets everything through, for a kind whose schema was written by hand."""
    group, _, version = api_version.partition("/")
    file = SCHEMAS / group / f"{kind.lower()}_{version}.json"
    if not file.is_file() or not json.loads(file.read_text()).get("$comment", "").startswith(_BY_HAND):
        return None
    singular = kind.lower()
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }
