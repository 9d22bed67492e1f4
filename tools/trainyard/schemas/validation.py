"""What the API server's own functions refuse of new objects, and of the pods made from templates in custom resources.

They are asked in a process of tools/go/validation, which is built from the module of the API server itself. A test
asks a real API server about the same objects.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard import limits
from trainyard.coprocess import Coprocess
from trainyard.findings.finding import Severity
from trainyard.home import BUILT
from trainyard.objects.objects import Spot
from trainyard.objects.server_path import server_path
from trainyard.objects.unit import Unit
from trainyard.rules.registry import Problem, Rule, declare
from trainyard.schemas.filledin import FILLED, is_filled_in
from trainyard.schemas.schema import is_for_the_server
from trainyard.schemas.violation import field_name
from trainyard.workload.kuberay import AUTOSCALER
from trainyard.workload.made import MadeObject
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.of_unit import workloads
from trainyard.workload.plain import entries, sequence
from trainyard.yaml.fieldpath import Path, lookup

PROGRAM = BUILT / "bin" / "validation"

REFUSED = declare(
    "SCH011",
    "value-refused",
    Severity.ERROR,
    """A value that the API server refuses though its type is right.

    The schema of a kind says which fields there are and of what type. What they may hold is decided by functions of the
    API server: how a name, a label or a port is written, which words a field knows, which fields go together, what may
    stand in a list once. Those functions judge here, in the words of the API server. Pod templates in custom resources
    are judged as the pods that are made from them, and so are the claims that a controller makes. An object that is
    refused is not created, and a sync stops there.

    Bad:
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: ranks}
        spec: {podSelector: {}, policyTypes: [Ingres]}
    Good:
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: ranks}
        spec: {podSelector: {}, policyTypes: [Ingress]}
    Near miss:
        apiVersion: v1
        kind: Service
        metadata: {name: ranks}
        spec: {clusterIP: None, ports: [{name: metrics, port: 9400}, {name: rendezvous, port: 29400}]}

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/
    """,
)

_validation = Coprocess([str(PROGRAM), f"-memory-bytes={limits.RENDER_BYTES}"])

_NAME = "metadata.name"
_CONTAINER: Path = ("spec", "containers", 0)
_SHORTEST = {"name": "a", "image": "a"}
_REQUIRED = "FieldValueRequired"
_FILLED_IN = ("TrainJob",)
"""Kinds whose controllers fill in what a pod template lacks."""
_NO_FIELD = re.compile(r"json: (cannot unmarshal .*?) into Go struct field \w+\.(\S+) of type (\S+)")
_PATTERN = re.compile(r", regex used for validation is '.*?'(?=\))")
_LEVELS_OF_A_FIELD = 2
"""A finding at fewer levels, such as `spec`, may be about anything below."""

Found = Sequence[tuple[Rule, Problem]]
Cause = dict[str, str]


def check(unit: Unit, found: Found) -> Iterator[tuple[Problem, bool]]:
    """What is refused of a unit's objects and pods, where nothing that was found before says it.

    With each whether a field is missing, which something else may add.
    """
    parts = list(_parts(unit))
    for part, causes in zip(parts, answers([part.sent for part in parts]), strict=True):
        for cause in causes:
            problem = _problem(part, cause)
            if problem is None or _is_made_of_the_name(part, cause, causes):
                continue
            if not _is_known(problem.spot, cause, found):
                is_missing = _value(problem.spot.object.data, problem.spot.path) is None
                yield _filled(problem, cause) if not unit.is_synced else problem, is_missing


@dataclass(frozen=True, slots=True)
class _Part:
    """An object of a unit, or a pod template in a custom resource."""

    spot: Spot
    sent: Any
    is_complete: bool = True
    """False where a controller fills in what is missing."""
    within: Path = ()
    """Where in `sent` the part stands."""


def _parts(unit: Unit) -> Iterator[_Part]:
    for item in unit.objects:
        if is_for_the_server(item):
            yield _Part(item.at(), item.data)
    for workload in workloads(unit):
        if "." not in workload.object.group:  # of Kubernetes itself: the functions for its kind know the template
            continue
        for pod_set in {pod_set.template.path: pod_set for pod_set in workload.pod_sets}.values():
            spot = pod_set.template
            template = _value(spot.object.data, spot.path)
            if isinstance(template, dict):
                yield _Part(spot, _pod(template, pod_set), workload.object.kind not in _FILLED_IN)
        yield from _beside_the_head(workload)
        for item in workload.objects:
            if isinstance(item, MadeObject) and item.kind == "PersistentVolumeClaim":
                yield _Part(item.at(), item.data)


def _beside_the_head(workload: Workload) -> Iterator[_Part]:
    """What a Ray cluster says of the container that scales it, and of its Redis, each as a pod of its own."""
    for pod_set in workload.pod_sets:
        cluster = workload.object.at(*pod_set.template.path[:-2])  # without headGroupSpec.template
        head = {key: value for key, value in pod_set.spec.items() if key in ("volumes", "resourceClaims")}
        scales = [each.data for each in pod_set.containers if each.by_controller and each.name == AUTOSCALER]
        at = cluster.below("autoscalerOptions")
        if scales and isinstance(_value(at.object.data, at.path), dict):
            sent = _pod({"spec": {**head, "containers": scales}}, pod_set)
            yield _Part(at, sent, is_complete=False, within=_CONTAINER)
        for field, name in (("redisUsername", "REDIS_USERNAME"), ("redisPassword", "REDIS_PASSWORD")):
            at = cluster.below("gcsFaultToleranceOptions", field)
            given = _value(at.object.data, at.path)
            if pod_set.template.path[-2:-1] == ("headGroupSpec",) and isinstance(given, dict):
                container = {**_SHORTEST, "env": [{"name": name, **given}]}
                sent = _pod({"spec": {**head, "containers": [container]}}, pod_set)
                yield _Part(at, sent, is_complete=False, within=(*_CONTAINER, "env", 0))


def _pod(template: dict[str, Any], pod_set: PodSet) -> dict[str, Any]:
    """The pod that is made from a template, with the volumes that its controller adds; whoever makes it names it."""
    metadata, spec = template.get("metadata") or {}, template.get("spec")
    if isinstance(metadata, dict):
        metadata = {**metadata, "name": "pod", "namespace": "default"}
    if isinstance(spec, dict) and (added := _added_volumes(spec, pod_set)):
        spec = {**spec, "volumes": [*sequence(spec.get("volumes")), *added]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _added_volumes(spec: dict[str, Any], pod_set: PodSet) -> list[Any]:
    """Those of the pods that have no name of the template's."""
    written = [volume.get("name") for _, volume in entries(spec.get("volumes"))]
    return [volume for _, volume in entries(pod_set.spec.get("volumes")) if volume.get("name") not in written]


def answers(objects: Sequence[Any]) -> list[list[Cause]]:
    """The causes to refuse each object; none of one that JSON cannot hold. TimeoutError without an answer."""
    texts = list(map(_text, objects))
    line = f"[{','.join(text for text in texts if text is not None)}]"
    answer = _validation.ask(line.encode("utf-8", "replace"), limits.VALIDATION_SECONDS)
    if not answer:
        raise TimeoutError(f"the API server's validation took over {limits.VALIDATION_SECONDS} s, or too much memory")
    said = iter(json.loads(answer))
    return [[] if text is None else next(said) for text in texts]


def _text(data: Any) -> str | None:
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        return None


def _problem(part: _Part, cause: Cause) -> Problem | None:
    """A cause as a problem; None where something else fills in what is missing."""
    data, field = part.sent, cause["field"]
    if not field:
        return _unread(part.spot, cause["message"])
    if cause["type"] == _REQUIRED and not part.is_complete:
        return None
    path = _refined(data, server_path(field, data), cause["value"])
    if path[: len(part.within)] != part.within:
        return None
    name = field_name(data, path) if path and _value(data, path) is not None else field
    message = f"{name}: {_PATTERN.sub('', cause['message'])}"
    return Problem(message, part.spot.object.at(*part.spot.path, *path[len(part.within) :]))


def _is_made_of_the_name(part: _Part, cause: Cause, causes: Sequence[Cause]) -> bool:
    """Whether a cause is a label that the API server makes of a name which another cause is about."""
    name = part.spot.object.name
    return cause["field"] != _NAME and cause["value"] == name and any(each["field"] == _NAME for each in causes)


def _unread(at: Spot, message: str) -> Problem:
    """What keeps the API server from reading an object at all, such as a number that does not fit."""
    data = lookup(at.object.data, at.path)
    if found := _NO_FIELD.match(message):
        what, field, kind = found.groups()
        return Problem(f"{field}: {what} as {kind}", at.object.at(*at.path, *server_path(field, data)))
    return Problem(message, at)


def _refined(data: Any, path: Path, value: str) -> Path:
    """The entry that is meant where the API server names the list or the map around it."""
    there = _value(data, path)
    entries = there.items() if isinstance(there, dict) else enumerate(there) if isinstance(there, list) else ()
    return next(((*path, key) for key, each in entries if value and value in (key, each)), path)


def _value(data: Any, path: Path) -> Any:
    try:
        return lookup(data, path)
    except KeyError:
        return None


def _is_known(spot: Spot, cause: Cause, found: Found) -> bool:
    """Whether an earlier error explains a cause.

    It does where it is about the same field, or about one beside a required one that is not there. Where the cause is
    about another field that is not there, such as labels that a selector asks for, an error at any level around does;
    and where the API server cannot read the object at all, any error of the object.
    """
    is_there = _value(spot.object.data, spot.path) is not None
    for rule, problem in found:
        if problem.spot.object.index != spot.object.index or (problem.severity or rule.severity) < Severity.ERROR:
            continue
        at = problem.spot.path
        if not cause["field"] or (_meet(at, spot.path) if is_there else _explains(at, spot.path, cause)):
            return True
    return False


def _explains(at: Path, absent: Path, cause: Cause) -> bool:
    return _meet(at, absent[:-1]) if cause["type"] == _REQUIRED else absent[: len(at)] == at


def _meet(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter] and (shorter >= _LEVELS_OF_A_FIELD or one == other)


def _filled(problem: Problem, cause: Cause) -> Problem:
    """The problem; only as information where another program writes the value."""
    value = _value(problem.spot.object.data, problem.spot.path)
    if not is_filled_in(value) and not is_filled_in(cause["value"]):
        return problem
    return Problem(problem.message, problem.spot, help=FILLED, severity=Severity.INFO)
