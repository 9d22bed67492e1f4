"""The communication variables of a workload, as its ranks would get them."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.catalogue import Variable, variable
from trainyard.objects import Spot
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable that one place of the manifest sets."""

    name: str
    value: str | None
    """None where the text is not known before the pod starts."""
    spot: Spot
    pod_set: PodSet
    container: Container

    @property
    def facts(self) -> Variable | None:
        """What the catalogue knows about the variable."""
        return variable(self.name)

    @property
    def integer(self) -> int | None:
        """The value where it is a whole number in plain decimals."""
        return int(self.value) if self.value is not None and self.value.lstrip("-").isdecimal() else None


def assignments(workload: Workload, *names: str) -> Iterator[Assignment]:
    """Each variable of each container, and each `-x NAME=value` that mpirun exports; all names where none is given.

    A place that several containers read, such as a ConfigMap, counts once. Variables that a controller sets are left
    out: nobody wrote them.
    """
    seen: set[Spot] = set()
    for found in _all(workload):
        if found.spot not in seen and (not names or found.name in names):
            seen.add(found.spot)
            yield found


def known(value: str | None) -> str | None:
    """The text, or None where a reference or a template in it stands for something else."""
    return None if value is None or any(mark in value for mark in ("$(", "${", "{{", "<")) else value


def env_is_known(workload: Workload, container: Container) -> bool:
    """False where `envFrom` names something that is not rendered, so that a variable that seems absent may be set."""
    rendered = {obj.name for obj in workload.of_kind("ConfigMap")}
    sources = [source for _, source in entries(container.data.get("envFrom"))]
    return all(mapping(source.get("configMapRef")).get("name") in rendered for source in sources)


def _all(workload: Workload) -> Iterator[Assignment]:
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            for var in container.env.values():
                if var.origin != "controller":
                    yield Assignment(var.name, known(var.value), var.spot, pod_set, container)
            yield from _exported(pod_set, container)


def _exported(pod_set: PodSet, container: Container) -> Iterator[Assignment]:
    """mpirun's `-x NAME=value`, as two words or, as recipes also write it, as one."""
    after_flag = False
    for word in container.words:
        text = word.text if after_flag else word.text.removeprefix("-x ").strip() if word.text[:3] == "-x " else ""
        after_flag = word.text == "-x"
        name, equals, value = text.partition("=")
        if equals:
            yield Assignment(name, known(value) if word.known else None, word.spot, pod_set, container)
