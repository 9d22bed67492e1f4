"""Reading this folder's manifests, and writing a Workload out whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.workload.adapters import made_names, made_services
from trainyard.workload.made import MadeObject, written
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.of_unit import workloads
from trainyard.yaml.fieldpath import format_path

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"


def unit(text: str, name: str = "manifests") -> Unit:
    """The documents of a YAML text as one unit."""
    documents = [data for data in yaml.safe_load_all(text) if data is not None]
    return Unit(name, False, tuple(Object.of(data, index) for index, data in enumerate(documents)))


def workload(text: str) -> Workload:
    """The only job of a YAML text."""
    (found,) = workloads(unit(text))
    return found


def readable(found: Workload) -> str:
    """Everything that a Workload says, a line a fact, each with the field that holds it."""
    return "\n".join(_workload(found)) + "\n"


def where(spot: Spot) -> str:
    """`Kind/name path`."""
    at = written(spot)
    return f"{at.object.kind}/{at.object.name} {format_path(at.object.data, at.path)}"


def _workload(found: Workload) -> Iterator[str]:
    yield f"{found.object.title}: {found.pods} pods"
    for service in made_services(found):
        pods = ", ".join(f"{role} {index}" for role, index in service.pods)
        yield f"  service by the controller: {service.name} -> {pods} (unready published: {service.publishes_unready})"
    for name in made_names(found):
        yield f"  {name.what} is called {name.text} ({where(name.spot)})"
    for made in (item for item in found.objects if isinstance(item, MadeObject)):
        yield f"  made by the controller: {made.kind} {made.name} {made.data.get('data') or ''}".rstrip()
    for pod_set in found.pod_sets:
        yield from (f"  {line}" for line in _pod_set(pod_set))


def _pod_set(pod_set: PodSet) -> Iterator[str]:
    yield f"{pod_set.role}: {_setting(pod_set.count)}"
    yield f"  hosts: {', '.join(pod_set.hostnames) or 'random'}"
    if pod_set.subdomain is not None:
        yield f"  subdomain: {_setting(pod_set.subdomain)}"
    for field in ("restartPolicy", "dnsPolicy", "dnsConfig"):
        if field in pod_set.spec:
            yield f"  {field}: {pod_set.spec[field]}"
    for key, value in pod_set.labels.items():
        yield f"  label {key}: {value}"
    for kind, containers in (("init container", pod_set.init_containers), ("container", pod_set.containers)):
        for container in containers:
            yield f"  {kind} {container.name}" + (" (main)" if container is pod_set.main() else "")
            yield from (f"    {line}" for line in _container(container))


def _container(container: Container) -> Iterator[str]:
    for kind, resources in (("limit", container.limits), ("request", container.requests)):
        for name, setting in resources.items():
            yield f"{kind} {name}: {_setting(setting)}"
    for variable in container.env.values():
        value = "unknown" if variable.value is None else repr(variable.value)
        raw = "" if variable.raw in (None, variable.value) else f" from {variable.raw!r}"
        yield f"env {variable.name} = {value}{raw} ({variable.origin}, {where(variable.spot)})"
    for word in container.words:
        yield f"word {word.text!r}{'' if word.known else ' (unknown)'} ({where(word.spot)})"
    if container.launch is not None:
        yield f"launched by {container.launch.launcher} ({where(container.launch.spot)})"
        for name, setting in container.launch.options.items():
            yield from _option(name, setting)
        yield f"  program: {[word.text for word in container.launch.program]}"


def _option(name: str, setting: Setting) -> Iterator[str]:
    if not isinstance(setting.value, dict):
        yield f"  {name}: {_setting(setting)}"
        return
    for key, each in setting.value.items():
        yield f"  {name} {key}: {_setting(each)}"


def _setting(setting: Setting) -> str:
    value: Any = "unknown" if setting.value is None else repr(setting.value)
    return f"{value} ({'implied, ' if setting.implied else ''}{where(setting.spot)})"
