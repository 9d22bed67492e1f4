"""A rehearsal from its manifests to what it saw: the pods planned, run, and run again from a checkpoint."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.rehearse.bounds import bounds
from trainyard.rehearse.chaos import DISK_BYTES, Chaos, Event
from trainyard.rehearse.disk.slow import SlowDisks
from trainyard.rehearse.fullsize import Refusal, refusal, settings
from trainyard.rehearse.load import RehearsalJob
from trainyard.rehearse.members import members
from trainyard.rehearse.netplan import network_plan
from trainyard.rehearse.network import Network, PodSpot, open_network
from trainyard.rehearse.orders import Programs
from trainyard.rehearse.podplan import MadeUp, PodNetwork, PodPlan, pod_plan
from trainyard.rehearse.pods import Place
from trainyard.rehearse.refused import refuse
from trainyard.rehearse.runs import Log, Run, run
from trainyard.rehearse.sandbox import Sandbox
from trainyard.rehearse.saved import ClaimWrites
from trainyard.rehearse.storage import Checkpoints, checkpoints, put_dataset
from trainyard.rehearse.substitutes import Substitutes
from trainyard.rehearse.volumes import Volume, Volumes
from trainyard.rules.common.starts import nodes
from trainyard.workload.model import Workload

MOST_PODS = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    patience: float = 30.0
    timeout: float = 600.0
    latency: float = 0.0
    """Seconds that a packet takes from one pod to another."""
    again: bool = True
    programs: Mapping[str, Path] = field(default_factory=dict)
    chaos: tuple[Event, ...] = ()
    may_mount: bool = False
    """Whether this process has mounts of its own."""
    ready: Callable[[Sequence[PodPlan]], None] = lambda _: None
    """Asked before any pod starts; it may refuse."""
    strict: bool | None = None
    """Whether the network must be made of namespaces; None takes what the machine allows."""
    form: re.Pattern[str] | None = None
    """How a line tells of a step, where it is none of the usual ways."""


@dataclass(frozen=True, slots=True)
class RehearsalRecord:
    """All that a rehearsal saw."""

    loaded: RehearsalJob
    plans: tuple[PodPlan, ...]
    first: Run
    second: Run | None
    saved: tuple[int, ...]
    """Steps that the first run left a checkpoint of, where the program is the trainer."""
    written: str
    """What another program has written to the job's claims; empty where that is nothing."""
    goes_on_from: int | None
    """The step that the second run had to go on from."""
    substitutes: Substitutes
    made_up: tuple[MadeUp, ...]
    invented: tuple[str, ...]
    strict: bool
    bounds: str
    """What its pods could take of this machine at most."""
    unchecked: tuple[str, ...]
    timeout: float
    refusal: Refusal | None
    """What the trainer refuses of the job as it is written."""

    @property
    def trains(self) -> bool:
        """Whether the program is this repository's trainer."""
        return self.substitutes.trains

    @property
    def must_save(self) -> bool:
        """Whether the trainer is told where its checkpoints go."""
        return self.trains and self.substitutes.saves


def rehearse(
    loaded: RehearsalJob, wishes: Options, substitutes: Substitutes, box: Sandbox, state: Path, log: Log
) -> RehearsalRecord:
    """Run a job's pods in the empty folder `state`, and once more where the first run left checkpoints."""
    workload = loaded.workload
    refuse(workload, loaded.origin, loaded.name)
    substitutes.learn(workload, _values(loaded.full))
    everyone = members(workload)
    if len(everyone.pods) > MOST_PODS:
        raise InputError(f"has {len(everyone.pods)} pods, and a rehearsal takes {MOST_PODS}", loaded.name)
    plan = replace(network_plan(workload, everyone), latency=wishes.latency)
    (state / "notes").mkdir()
    with ExitStack() as stack:
        network = stack.enter_context(open_network(plan, strict=wishes.strict))
        substitutes.loopback = not network.strict
        made_up: list[MadeUp] = []
        spots = {each.name: each for each in plan.pods}
        plans = [
            pod_plan(workload, each, _known(network, spots[each.name]), substitutes, made_up) for each in everyone.pods
        ]
        wishes.ready(plans)
        volumes = Volumes(
            state,
            workload.objects,
            workload.object.namespace,
            substitutes,
            may_mount=wishes.may_mount,
            made_up=made_up,
        )
        of_pods = {each.name: volumes.of_pod(each) for each in plans}
        told = _values(workload)
        kept = checkpoints(plans, of_pods, told) if substitutes.trains else None
        written = ClaimWrites(volumes.claims) if kept is None and volumes.claims else None
        disk = _disk(wishes, kept, volumes)
        _check_cuts(wishes.chaos, [each.name for each in plans], network)
        events = tuple(_on_a_claim(each, plans, kept, volumes) for each in wishes.chaos)
        slow = [each.claim for each in events if each.kind == "slow-disk"]
        disks = stack.enter_context(closing(SlowDisks(slow))) if slow else None
        bounded = stack.enter_context(closing(bounds(state)))
        place = Place(network, box, volumes, Programs(wishes.programs), bounded, state, log, disks)
        if substitutes.dataset:
            _put_dataset(substitutes, told, plans, of_pods)
        if written is not None:
            written.begin()
        paired = [(each, spots[each.name]) for each in plans]
        once = partial(
            run,
            workload,
            paired,
            place,
            log,
            patience=wishes.patience,
            timeout=wishes.timeout,
            form=wishes.form,
            written=written,
        )
        refused = refusal(loaded, place, paired, of_pods) if substitutes.trains else None
        first = once(Chaos(list(events), kept, written, disk, disks, elastic=elastic(workload)))
        if first.outcome.ending in ("succeeded", "timeout") and first.chaos.events:
            raise InputError(_did_not_happen(first), loaded.name)
        saved = tuple(kept.steps()) if kept is not None else ()
        second, goes_on_from = None, None
        if first.outcome.ending == "succeeded" and wishes.again and kept is not None and not wishes.chaos:
            goes_on_from = kept.step_back()
            if goes_on_from is not None:
                log("", "", f"again, to go on from the checkpoint of step {goes_on_from}")
                second = once(Chaos([]))
        return RehearsalRecord(
            loaded=loaded,
            plans=tuple(plans),
            first=first,
            second=second,
            saved=saved,
            written=written.told if written is not None else "",
            goes_on_from=goes_on_from,
            substitutes=substitutes,
            made_up=tuple(dict.fromkeys(made_up)),
            invented=tuple(dict.fromkeys(volumes.invented)),
            strict=network.strict,
            bounds=bounded.told,
            unchecked=network.unchecked,
            timeout=wishes.timeout,
            refusal=refused,
        )


def _values(workload: Workload) -> dict[str, str]:
    """The values of the trainer's variables that are known."""
    return {name: each.value for name, each in settings(workload).items() if each.value is not None}


def _put_dataset(
    substitutes: Substitutes,
    settings: Mapping[str, str],
    plans: Sequence[PodPlan],
    volumes: Mapping[str, Mapping[str, Volume]],
) -> None:
    kind = "images" if settings.get("TRAINER_MODEL", "").startswith("vit") else "text"
    try:
        put = put_dataset(kind, substitutes.dataset, plans, volumes)
    except OSError as error:
        substitutes.told["dataset"] = f"none: {substitutes.dataset} cannot be made: {error.strerror}"
        return
    if put:
        substitutes.told["dataset"] = f"the trainer's made-up {kind} at {substitutes.dataset}"
    else:
        substitutes.told["dataset"] = f"none: {substitutes.dataset} is in no volume of the pods"


def _check_cuts(events: Sequence[Event], pods: Sequence[str], network: Network) -> None:
    """UsageError where a cut is asked for that no network or no pods could have."""
    for each in (each for each in events if each.kind == "cut"):
        if not network.strict:
            raise UsageError(f"--chaos {each.text}: on loopback no pod can be cut off from another")
        for name in each.pods:
            if name not in pods:
                raise UsageError(f"--chaos {each.text}: there is no pod {name}; there are {', '.join(pods)}")


def _did_not_happen(run: Run) -> str:
    """Why a run came to a good end without what was asked for."""
    told = ", ".join(each.text for each in run.chaos.events)
    last = run.observed.reached
    if not run.observed.taken:
        return f"--chaos {told} did not happen: no line of the job's output is known as a step; see --step-pattern"
    if run.chaos.events[0].step > last:
        return f"--chaos {told} did not happen: the last step was {last}"
    what = "no checkpoint to come back to" if run.chaos.written is None else "no file on a claim to come back to"
    return f"--chaos {told} did not happen: until the last step, {last}, there was {what}"


def _disk(wishes: Options, kept: Checkpoints | None, volumes: Volumes) -> Path | None:
    """The claim that checkpoints go to, on a small disk of its own where that is to be filled."""
    if not any(each.kind == "fill-disk" for each in wishes.chaos):
        return None
    claim = _claim_of(kept, volumes)
    if claim is None:
        raise UsageError("--chaos fill-disk: the job's checkpoints go to no claim")
    return volumes.limit_claim(claim, DISK_BYTES)


def _on_a_claim(event: Event, plans: Sequence[PodPlan], kept: Checkpoints | None, volumes: Volumes) -> Event:
    """An event on a slow disk with the claim that it is: the one that is named, else that of the checkpoints."""
    if event.kind != "slow-disk":
        return event
    sources = [plan.writes_of(each) for plan in plans for each in plan.containers]
    mounted = sorted({place.claim for source in sources for place in source.places if place.claim})
    claim = event.claim or _claim_of(kept, volumes) or ""
    if claim not in mounted:
        asked = f"no pod mounts a claim {claim}" if claim else "the job's checkpoints go to no claim that can be told"
        raise UsageError(f"--chaos {event.text}: {asked}; claims: {', '.join(mounted) or 'none'}")
    return replace(event, claim=claim)


def _claim_of(kept: Checkpoints | None, volumes: Volumes) -> str | None:
    """The claim that checkpoints go to: for another program than the trainer the only one that there is."""
    if kept is not None:
        return volumes.claim_of(kept.volume)
    return next(iter(volumes.claims)) if len(volumes.claims) == 1 else None


def _known(network: Network, spot: PodSpot) -> PodNetwork:
    told = network.environment(spot)
    interfaces = {} if network.strict else {name: value for name, value in told.items() if name.endswith("_IFNAME")}
    return PodNetwork(network.address(spot), told, interfaces, lambda text: network.localise(spot, text))


def elastic(workload: Workload) -> bool:
    """Whether torchrun goes on with fewer nodes than the job has."""
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        bounds = nodes(main.launch) if main is not None and main.launch is not None else None
        if bounds is not None and bounds.value[0] < bounds.value[1]:
            return True
    return False
