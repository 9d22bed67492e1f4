"""Containers of a pod template as they would run."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.accelerate import settled, with_config
from trainyard.workload.command import command_line, taken_apart
from trainyard.workload.environment import InjectedVariable, environment
from trainyard.workload.launch import launch, with_exit_code
from trainyard.workload.model import Container, Setting, Word, gpus
from trainyard.workload.mounted import mounted_text
from trainyard.workload.plain import mapping, text
from trainyard.workload.variables_of_files import with_files

TRAINERS = ("trainer", "trainer.ray", "trainer.tensorflow")
"""Modules of this repository that train."""


def container(
    data: Mapping[Any, Any],
    spot: Spot,
    *,
    sources: Sequence[Object],
    fields: Mapping[str, str],
    injected: Sequence[InjectedVariable] = (),
    default: Sequence[Word] = (),
    by_controller: bool = False,
    pod: Mapping[Any, Any],
) -> Container:
    """The container that stands at `spot`.

    `sources`, `fields` and `injected` are as for its environment; `default` is the command line that its controller
    gives it where the manifest has none, `by_controller` says that the controller adds the whole container, `pod`
    is the spec of its pod.
    """
    declared = environment(data, spot, sources=sources, fields=fields, injected=injected)
    variables = with_files(declared, data, pod, sources)
    whole = command_line(data, spot, variables, default)
    limits = _resources(data, spot, "limits")

    def read(path: str) -> tuple[str, Spot] | None:
        return mounted_text(path, data, pod, sources)

    commands = taken_apart(whole, read)
    started = launch(commands)
    if started is not None:
        started = with_config(with_exit_code(started, whole, read), data, pod, sources)
        started = settled(started, gpus(limits))
    requests = {name: Setting(limit.value, limit.spot, implied=True) for name, limit in limits.items()}
    return Container(
        name=text(data.get("name")),
        spot=spot,
        data=data,
        image=text(data.get("image")),
        words=tuple(word for command in commands for word in command.words),
        env=variables.variables,
        launch=started,
        limits=limits,
        requests=requests | _resources(data, spot, "requests"),
        by_controller=by_controller,
        lines=tuple(command.words for command in commands),
    )


def runs_trainer(container: Container) -> bool:
    """Whether a container starts this repository's trainer."""
    program = container.launch.program if container.launch is not None else ()
    return any(word.text in TRAINERS for word in (*container.words, *program))


def _resources(data: Mapping[Any, Any], spot: Spot, name: str) -> dict[str, Setting]:
    return {
        resource: Setting(value, spot.below("resources", name, resource))
        for resource, value in mapping(mapping(data.get("resources")).get(name)).items()
        if isinstance(resource, str) and isinstance(value, str | int | float) and not isinstance(value, bool)
    }
