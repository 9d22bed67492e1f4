"""What the trainer refuses of a job as it is written: its own check, with the job's own model, lengths and ranks.

A rehearsal trains a smaller model on fewer ranks, so what does not fit at full size would not show.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from trainyard.objects.objects import Spot
from trainyard.rehearse.load import RehearsalJob
from trainyard.rehearse.network import PodSpot
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.pods import Place, begin
from trainyard.rehearse.substitutes import PREFIX
from trainyard.rehearse.volumes import Volume
from trainyard.workload.containers import TRAINERS, runs_trainer
from trainyard.workload.model import Container, EnvVar, Workload

CHECK = """\
import sys
from trainer import launch, schedule, sources
from trainer.errors import TrainerError
from trainer.presets import check_length, preset
try:
    config = sources.read(sys.argv[1:])
    check_length(config.model, preset(config.model), config.sequence_length)
    share = schedule.share(config, launch.find())
    schedule.schedule(config, share.global_batch)
except TrainerError as error:
    print("REFUSED", error)
"""
_REFUSED = "REFUSED "
_ARGUMENT = re.compile(r"(?:--)?[a-z][a-z0-9_.]*=.*|\S+\.ya?ml|--(?:workers|retries)|\d+")
"""Words of the trainer's command line; Ray's number of workers and of tries among them, which are not the trainer's."""
_LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the trainer does not start."""

    message: str
    spot: Spot


def refusal(
    loaded: RehearsalJob,
    place: Place,
    plans: Sequence[tuple[PodPlan, PodSpot]],
    volumes: Mapping[str, Mapping[str, Volume]],
) -> Refusal | None:
    """What the trainer says of the job as it is written; None where it starts, or its ranks are not known."""
    told, ranks = settings(loaded.full), loaded.full_ranks
    own = [(plan, spot, each) for plan, spot in plans for each in plan.containers if runs_trainer(each.source)]
    if ranks is None or not own:
        return None
    plan, spot, container = own[0]
    per_node = max(1, ranks // max(1, _nodes(loaded.full)))
    variables = {name: each.value for name, each in told.items() if each.value is not None}
    variables |= {"RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(per_node)}
    kept = {name: value for name, value in container.environment.items() if not name.startswith(PREFIX)}
    command = ("/opt/trainer/bin/python", "-c", CHECK, *arguments_of(container.source))
    said = _run(
        place, plan, spot, replace(container, command=command, environment=kept | variables), volumes[plan.name]
    )
    message = next((line.removeprefix(_REFUSED) for line in said if line.startswith(_REFUSED)), "")
    return Refusal(message, _spot(message, told, container)) if message else None


def settings(workload: Workload) -> dict[str, EnvVar]:
    """The trainer's variables, as the pods of a job find them; with mpirun they are those of the workers."""
    found: dict[str, EnvVar] = {}
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            found = {name: each for name, each in container.env.items() if name.startswith(PREFIX)} | found
    return found


def _nodes(workload: Workload) -> int:
    """Pods that have GPUs, or all."""
    counts = [
        pod_set.count.value or 0 for pod_set in workload.pod_sets if any(each.gpus for each in pod_set.containers)
    ]
    return sum(counts) or workload.pods or 1


def arguments_of(container: Container) -> list[str]:
    """What the command line tells the trainer itself: keys and a config file, not what follows it in a script."""
    launch = container.launch
    words = [word.text for word in (launch.program if launch is not None else container.words)]
    own = words[next((index + 1 for index, word in enumerate(words) if word in TRAINERS), len(words)) :]
    return [word for word in takewhile(_ARGUMENT.fullmatch, own) if "=" in word or word.endswith((".yaml", ".yml"))]


def _spot(message: str, told: Mapping[str, EnvVar], container: ContainerPlan) -> Spot:
    """Where the key is set that a message names last."""
    keys = {name.removeprefix(PREFIX).lower(): each.spot for name, each in told.items()}
    named = [match for match in re.findall(r"[a-z_]+", message) if match in keys]
    return keys[named[-1]] if named else container.source.spot


def _run(
    place: Place, plan: PodPlan, spot: PodSpot, container: ContainerPlan, volumes: Mapping[str, Volume]
) -> list[str]:
    """What a container prints until it ends."""
    process = begin(place, plan, spot, container, volumes)
    said: list[str] = []
    until = time.monotonic() + _LONGEST_SECONDS
    try:
        while process.poll() is None and time.monotonic() < until:
            said += process.lines()
            time.sleep(0.05)
        said += process.lines()
    finally:
        process.close()
    return said
