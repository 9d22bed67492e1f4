"""A container's final environment, put together as the kubelet does it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.model import EnvVar, Workload
from trainyard.workload.plain import entries, mapping, text

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_LONGEST = 64 * 1024  # characters; variables that name one another can grow without end
_SERVICE_VARIABLE = re.compile(r"(?=[A-Z0-9_]+\Z).+_(?:SERVICE_HOST\Z|PORT(?:\Z|_.))")


@dataclass(frozen=True, slots=True)
class InjectedVariable:
    """A variable that the job's controller appends to a container's `env`."""

    name: str
    value: str | None
    spot: Spot
    yields: bool = False
    """True where a variable of the same name in `env` is left alone, False where it is overridden."""


@dataclass(frozen=True, slots=True)
class Environment:
    """All variables that manifests and controllers give to a container."""

    variables: Mapping[str, EnvVar]
    complete: bool
    """False where a source is not rendered, so that there may be more variables than these."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A ConfigMap or Secret that a container's environment is read from."""

    kind: str
    name: str
    key: str | None
    """The key that is read; None where `envFrom` takes them all."""
    optional: bool
    spot: Spot
    """The field that holds the name, or the key where only the key is missing."""


def environment(
    container: Mapping[Any, Any],
    spot: Spot,
    *,
    sources: Sequence[Object],
    fields: Mapping[str, str],
    injected: Sequence[InjectedVariable] = (),
) -> Environment:
    """The final environment of the container at `spot`.

    `sources` are the objects of the pod's namespace; `fields` are the values of downward API paths that are known
    before the pod exists, such as `metadata.namespace`.
    """
    variables: dict[str, EnvVar] = {}
    complete = True
    for index, source in entries(container.get("envFrom")):
        prefix = text(source.get("prefix"))
        for reference in _whole_references(source, spot.below("envFrom", index)):
            found = _find(reference, sources)
            if found is None:
                complete = False
                continue
            for variable in _from_object(found, prefix):
                _put(variables, variable)
    own = list(entries(container.get("env")))
    for index, item in own:
        name = text(item.get("name"))
        if not name:
            continue
        place = spot.below("env", index)
        if (value_from := item.get("valueFrom")) is not None:
            _put(variables, _from_field(name, mapping(value_from), place, sources, fields))
        else:
            _put(variables, _expanded(name, item.get("value", ""), place, variables, complete))
    names = {text(item.get("name")) for _, item in own}
    for added in injected:
        if not (added.yields and added.name in names):
            _put(variables, EnvVar(added.name, added.value, added.spot, "controller", added.value))
    return Environment(variables, complete)


def expand(raw: str, variables: Mapping[str, EnvVar], complete: bool = True) -> tuple[str, bool]:
    """`$(NAME)` and `$$` replaced as in the kubelet, and whether the result is what the container gets.

    A name that nothing defines stays as it is written. A name whose value is unknown does too, but the result is then
    not known. `complete` says that no other variables exist.
    """
    known = True
    room = _LONGEST

    def value(match: re.Match[str]) -> str:
        nonlocal known, room
        name = match[1]
        if name is None:
            return "$"
        variable = variables.get(name)
        if variable is None:
            known = known and complete and not _SERVICE_VARIABLE.match(name)
            return match[0]
        if variable.value is None or len(variable.value) > room:
            known = False
            return match[0]
        room -= len(variable.value)
        return variable.value

    return replaced(raw, value), known


def replaced(raw: str, value: Callable[[re.Match[str]], str]) -> str:
    """A text with a value for each `$$`, whose match has no group, and each `$(NAME)`, whose group is the name."""
    end = raw.rfind(")") + 1  # nothing behind closes a `$(`: to look for it from each takes the square of the length
    return _REFERENCE.sub(value, raw[:end]) + raw[end:].replace("$$", "$")


def references(container: Mapping[Any, Any], spot: Spot) -> Iterator[Reference]:
    """Every ConfigMap and Secret that the environment of the container at `spot` is read from."""
    for index, source in entries(container.get("envFrom")):
        yield from _whole_references(source, spot.below("envFrom", index))
    for index, item in entries(container.get("env")):
        yield from _key_references(mapping(item.get("valueFrom")), spot.below("env", index, "valueFrom"))


def unresolved(workload: Workload) -> tuple[Reference, ...]:
    """References of all containers that no rendered object answers. Optional ones are among them."""
    sources = in_namespace(workload.objects, workload.object.namespace)
    found: dict[Reference, None] = {}
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            for reference in references(container.data, container.spot):
                source = _find(reference, sources)
                if source is None or (reference.key is not None and reference.key not in _data(source)):
                    found[reference] = None
    return tuple(found)


def in_namespace(objects: Sequence[Object], namespace: str) -> tuple[Object, ...]:
    """The objects of a namespace."""
    return tuple(item for item in objects if item.namespace == namespace)


def _put(variables: dict[str, EnvVar], variable: EnvVar) -> None:
    variables.pop(variable.name, None)
    variables[variable.name] = variable


def _expanded(name: str, raw: Any, place: Spot, variables: Mapping[str, EnvVar], complete: bool) -> EnvVar:
    spot = place.below("value")
    if raw is None:
        raw = ""
    if not isinstance(raw, str):
        return EnvVar(name, None, spot)
    value, known = expand(raw, variables, complete)
    return EnvVar(name, value if known else None, spot, raw=raw)


def _from_field(
    name: str, value_from: Mapping[Any, Any], place: Spot, sources: Sequence[Object], fields: Mapping[str, str]
) -> EnvVar:
    spot = place.below("valueFrom")
    if isinstance(value_from.get("fieldRef"), dict):
        path = text(value_from["fieldRef"].get("fieldPath"))
        return EnvVar(name, fields.get(path), spot.below("fieldRef", "fieldPath"), "field")
    if isinstance(value_from.get("resourceFieldRef"), dict):
        return EnvVar(name, None, spot.below("resourceFieldRef", "resource"), "resource")
    for reference in _key_references(value_from, spot):
        source = _find(reference, sources)
        if source is not None and reference.key is not None:
            return _from_key(name, source, reference.key, reference.spot)
        return EnvVar(name, None, reference.spot, _ORIGINS[reference.kind])
    return EnvVar(name, None, spot)


def _from_object(source: Object, prefix: str) -> Iterator[EnvVar]:
    for key in _data(source):
        yield _from_key(prefix + key, source, key, source.at("data", key))


def _from_key(name: str, source: Object, key: str, reference: Spot) -> EnvVar:
    origin = _ORIGINS[source.kind]
    data = _data(source)
    if key not in data:
        return EnvVar(name, None, reference, origin)
    value = data[key]
    known = isinstance(value, str) and source.kind == "ConfigMap"
    return EnvVar(name, value if known else None, source.at("data", key), origin, value if known else None)


_ORIGINS = {"ConfigMap": "configMap", "Secret": "secret"}


def _whole_references(source: Mapping[Any, Any], place: Spot) -> Iterator[Reference]:
    for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
        found = source.get(field)
        if isinstance(found, dict):
            spot = place.below(field, "name")
            yield Reference(kind, text(found.get("name")), None, found.get("optional") is True, spot)


def _key_references(value_from: Mapping[Any, Any], place: Spot) -> Iterator[Reference]:
    for kind, field in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        found = value_from.get(field)
        if isinstance(found, dict):
            spot = place.below(field, "key")
            yield Reference(kind, text(found.get("name")), text(found.get("key")), found.get("optional") is True, spot)


def _find(reference: Reference, sources: Sequence[Object]) -> Object | None:
    for item in sources:
        if item.kind == reference.kind and item.name == reference.name and item.api_version == "v1":
            return item
    return None


def _data(source: Object) -> dict[str, Any]:
    data = {key: value for key, value in mapping(source.data.get("data")).items() if isinstance(key, str)}
    if source.kind == "Secret":
        data.update((key, None) for key in mapping(source.data.get("stringData")) if isinstance(key, str))
    return data
