"""What the API server said, as problems at the fields that it means."""

import re
from collections.abc import Iterator
from typing import Any

from trainyard.controlplane.client import Refused
from trainyard.objects.objects import Object
from trainyard.objects.quantity import quantity
from trainyard.objects.server_path import server_path
from trainyard.rules.registry import Problem
from trainyard.yaml.fieldpath import Path, lookup

_PATH_IN_MESSAGE = re.compile(
    r"(?:^|[ ,(\"])\.?((?:metadata|spec|data|rules|subjects|roleRef)\b[^\s:\"]*?(?:\[[^\]]*\][^\s:\"]*?)*)(?=[:\"\s]|$)"
)
_DUMP = re.compile(r"^Invalid value: [{\[].*[}\]]: ", re.DOTALL)
_CONVERTED = re.compile(
    r"^(?:failed to convert new object \(.*?\) to proper version: |unable to convert unstructured object to [^:]*: |"
    r"failed to create typed patch object \(.*?\): |[A-Z]\w+ in version \"[^\"]*\" cannot be handled as a \w+: |"
    r"[\w.]+ \"[^\"]*\" is (?:invalid|forbidden): |[\w.]+ is forbidden: |strict decoding error: |\d+ errors?:\s*)"
)
_GO_VALUE = re.compile(r"&value\.valueUnstructured\{Value:(.*?)\}")
_QUANTITY_MAPS = ("limits", "requests", "hard", "max", "min", "default", "defaultRequest", "capacity")
_CONTAINER = re.compile(r'containers? ((?:"[^"]+"(?:, )?)+)')

_LIMIT = re.compile(
    r"(?<!\S)(?P<resource>\S+) usage per Container is .*, but (?P<list>limit|request) is (?P<amount>\S+)"
)
_POD_SPECS: tuple[Path, ...] = (("spec",), ("spec", "template", "spec"))
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")

_NO_FIELD = "<nil>"
"""Where a validation rule of a custom resource speaks of the whole object."""
_NO_SUCH_KIND = "no matches for kind"

POD_SECURITY = "PodSecurity"
PATTERN_OF_QUANTITIES = "quantities must match the regular expression"


def problems(item: Object, refused: Refused, prefix: Path = ()) -> Iterator[Problem]:
    """A problem for each cause of a refusal of `item`, or of the pods made from its pod template at `prefix`."""
    data: Any = lookup(item.data, prefix) if not prefix or _holds(item.data, prefix) else {}
    what = f"the pods of this {item.kind}" if prefix else f"this {item.kind}"
    causes = refused.causes
    if refused.reason == "Invalid" and causes:
        for cause in causes:
            field = str(cause.get("field", "")).replace(_NO_FIELD, "")
            words = brief(str(cause.get("message", "")))
            path = server_path(field, data) if field else _meant(words, data)
            rest = "" if _holds(data, path) or not field else f"{field}: "
            yield Problem(_told(what, rest + words), item.at(*prefix, *path))
        return
    message = brief(str(refused))
    yield Problem(_told(what, message), item.at(*prefix, *_meant(message, data)))


def warned(item: Object, text: str) -> Problem:
    """A warning of the API server about `item`."""
    return Problem(f"the API server warns about this {item.kind}: {brief(text)}", item.at(*_meant(text, item.data)))


def brief(message: str) -> str:
    """A message without the object that it repeats and without the layers that it passed through."""
    while (shorter := _CONVERTED.sub("", message, count=1)) != message:
        message = shorter
    message = _DUMP.sub("", message)
    return _GO_VALUE.sub(r"\1", message).strip().removeprefix(".")


def _holds(data: Any, path: Path) -> bool:
    """Whether there is a field at a path; the object as a whole is none."""
    try:
        lookup(data, path)
    except KeyError:
        return False
    return bool(path)


def _told(what: str, message: str) -> str:
    return f"the API server refuses {what}: {message}"


def _meant(message: str, data: Any) -> Path:
    """The field that a message without causes is about, or the object itself."""
    if PATTERN_OF_QUANTITIES in message:
        return next(_bad_quantities(data, ()), ())
    if message.startswith("namespaces ") and "not found" in message:
        return ("metadata", "namespace")
    if message.startswith(_NO_SUCH_KIND):
        return ("kind",)
    if found := _PATH_IN_MESSAGE.search(message):
        return server_path(found[1], data)
    return _of_container(message, data)


def _of_container(message: str, data: Any) -> Path:
    """The part of a pod or pod template that Pod Security or a LimitRange means."""
    for spec_path in _POD_SPECS:
        try:
            spec = lookup(data, spec_path)
        except KeyError:
            continue
        if not isinstance(spec, dict) or "containers" not in spec:
            continue
        if POD_SECURITY in message:
            return (*spec_path, *_insecure(message, spec))
        if found := _LIMIT.search(message):
            return (*spec_path, *_beyond(spec, found["resource"], found["list"] + "s", found["amount"]))
    return ()


def _insecure(message: str, spec: dict[str, Any]) -> Path:
    """What Pod Security names first: a field of the pod, or a container."""
    if field := next((field for field in _HOST_FIELDS if f"{field}=true" in message), None):
        return (field,)
    named = _CONTAINER.search(message)
    names = re.findall(r'"([^"]+)"', named[1]) if named else []
    found = next((path for path, each in _containers(spec) if each.get("name") in names), ())
    return (*found, "securityContext")


def _beyond(spec: dict[str, Any], resource: str, amounts: str, amount: str) -> Path:
    """The container that asks for an amount which a LimitRange does not allow."""
    for path, container in _containers(spec):
        try:
            value = lookup(container, ("resources", amounts, resource))
        except KeyError:
            continue
        if quantity(value) == quantity(amount):
            return (*path, "resources", amounts, resource)
    return ("containers",)


def _containers(spec: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for group in ("containers", "initContainers"):
        for index, each in enumerate(spec.get(group) or ()):
            if isinstance(each, dict):
                yield (group, index), each


def _bad_quantities(data: Any, path: Path) -> Iterator[Path]:
    """Fields that hold quantities and hold none that can be read."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    for key, value in items:
        holds = key == "sizeLimit" or (path and path[-1] in _QUANTITY_MAPS)
        if holds and not isinstance(value, dict | list) and quantity(value) is None:
            yield (*path, key)
        yield from _bad_quantities(value, (*path, key))
