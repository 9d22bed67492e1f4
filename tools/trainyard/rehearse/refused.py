"""What the API server refuses of a job's names and paths, so that nothing is made for a pod that would not be.

From Kubernetes 1.36: pkg/apis/core/validation, and pkg/util/validation of apimachinery; a test asks the API server.
Whatever gets past this is still looked up inside of the sandbox alone: see entry.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.errors import InputError
from trainyard.objects.objects import Object, Spot
from trainyard.objects.origin import Origin
from trainyard.workload.made import written
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, text

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_KEY = re.compile(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}\Z")
_VARIABLE = re.compile(r"[ -<>-~]+\Z")
_LOWER = "lower-case letters, digits and hyphens"
_NAMED = {"ConfigMap": _SUBDOMAIN, "PersistentVolumeClaim": _SUBDOMAIN, "Secret": _SUBDOMAIN, "Service": _LABEL}
_PROJECTED = ("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle")
Told = tuple[str, Spot]


def refuse(workload: Workload, origin: Origin, name: str) -> None:
    """InputError, at its place, for the first name or path that no pod of the job could have."""
    for message, spot in refusals(workload):
        found = written(spot)
        at = origin.position(found.object, found.path, found.at_key)
        if at is None:
            raise InputError(message, name)
        raise InputError(message, at.file, at.line, at.column)


def refusals(workload: Workload) -> Iterator[Told]:
    """Names and paths of a job that the API server refuses, or that no object could have: what is wrong, and where."""
    job = workload.object
    if job.namespace and not _LABEL.match(job.namespace):
        yield f"{job.namespace!r} is not the name of a namespace: those are {_LOWER}", job.at("metadata", "namespace")
    if not _SUBDOMAIN.match(_name(job)):
        yield f"{job.name!r} is not the name of a {job.kind}: those are {_LOWER}", job.at("metadata", "name")
    for item in workload.objects:
        yield from of_object(item)
    for pod_set in workload.pod_sets:
        yield from of_pod(pod_set.spec, pod_set.template.below("spec"))


def of_object(item: Object) -> Iterator[Told]:
    """The name and the keys of a ConfigMap, a Secret, a claim or a Service."""
    allowed = _NAMED.get(item.kind) if not item.group else None
    if allowed is not None and not allowed.match(_name(item)):
        yield f"{item.name!r} is not the name of a {item.kind}: those are {_LOWER}", item.at("metadata", "name")
    if item.kind in ("ConfigMap", "Secret") and not item.group:
        for field in ("data", "binaryData", "stringData"):
            for key in mapping(item.data.get(field)):
                if not _KEY.match(str(key)):
                    helped = "letters, digits, '-', '_' and '.', and do not start with '..'"
                    yield f"{key!r} is not a key of a {item.kind}: those are {helped}", item.at(field, key)


def _name(item: Object) -> str:
    """An object's name, or what a name is generated from, which may end in a hyphen."""
    return item.name if mapping(item.data.get("metadata")).get("name") else item.name.removesuffix("-")


def of_pod(spec: Mapping[str, Any], at: Spot) -> Iterator[Told]:
    """The names and paths of a pod. `at` is the field that holds its `spec`."""
    for field in ("hostname", "subdomain"):
        if (named := text(spec.get(field))) and not _LABEL.match(named):
            yield f"{named!r} is not a {field}: those are {_LOWER}", at.below(field)
    volumes: set[str] = set()
    for index, volume in entries(spec.get("volumes")):
        yield from _of_volume(volume, volumes, at.below("volumes", index))
    containers: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in entries(spec.get(field)):
            spot = at.below(field, index)
            yield from _of_name(text(container.get("name")), "container", containers, spot)
            yield from _of_container(container, volumes, spot)


def _of_name(name: str, what: str, seen: set[str], at: Spot) -> Iterator[Told]:
    if not _LABEL.match(name):
        yield f"{name!r} is not the name of a {what}: those are {_LOWER}, at most 63", at.below("name")
    elif name in seen:
        yield f"two {what}s are called {name}", at.below("name")
    seen.add(name)


def _of_volume(volume: Mapping[Any, Any], seen: set[str], at: Spot) -> Iterator[Told]:
    yield from _of_name(text(volume.get("name")), "volume", seen, at)
    kinds = [kind for kind, value in volume.items() if kind != "name" and value is not None]
    if len(kinds) > 1:
        yield f"volume {text(volume.get('name'))} is of several kinds: {', '.join(map(str, kinds))}", at
    claim = mapping(volume.get("persistentVolumeClaim"))
    if "persistentVolumeClaim" in kinds and not _SUBDOMAIN.match(text(claim.get("claimName"))):
        named = f"{text(claim.get('claimName'))!r} is not the name of a claim: those are {_LOWER}"
        yield named, at.below("persistentVolumeClaim", "claimName")
    yield from _of_source(volume, at)
    for index, source in entries(mapping(volume.get("projected")).get("sources")):
        yield from _of_source(source, at.below("projected", "sources", index))


def _of_source(source: Mapping[Any, Any], at: Spot) -> Iterator[Told]:
    """Paths of the files that a volume is made of."""
    for kind in _PROJECTED:
        named = mapping(source.get(kind))
        listed = [(at.below(kind, "items", index, "path"), item) for index, item in entries(named.get("items"))]
        if kind in ("serviceAccountToken", "clusterTrustBundle") and kind in source:
            listed = [(at.below(kind, "path"), named)]
        for spot, item in listed:
            path = text(item.get("path"))
            why = _leads_out(path) or (
                "it starts with '..'" if path.startswith("..") else "" if path else "it is empty"
            )
            if why:
                yield f"{path!r} is not the path of a file in a volume: {why or 'it is empty'}", spot


def _of_container(container: Mapping[Any, Any], volumes: set[str], at: Spot) -> Iterator[Told]:
    for index, variable in entries(container.get("env")):
        if not _VARIABLE.match(text(variable.get("name"))):
            named = f"{text(variable.get('name'))!r} is not the name of a variable"
            yield f"{named}: those are printable ASCII without '='", at.below("env", index, "name")
    paths: set[str] = set()
    for index, mount in entries(container.get("volumeMounts")):
        spot, name, path = at.below("volumeMounts", index), text(mount.get("name")), text(mount.get("mountPath"))
        if name not in volumes:
            yield f"the pod has no volume {name!r}", spot.below("name")
        if not path or path in paths:
            yield f"two volumes are mounted on {path}" if path else "mountPath is empty", spot.below("mountPath")
        paths.add(path)
        for field in ("subPath", "subPathExpr"):
            if (below := text(mount.get(field))) and (why := _leads_out(below)):
                yield f"{below!r} is not a {field}: {why}", spot.below(field)


def _leads_out(path: str) -> str:
    """Why a path is none in a volume; empty where it is one."""
    if path.startswith("/"):
        return "it is not relative"
    return "it leads upwards" if ".." in path.split("/") else ""
