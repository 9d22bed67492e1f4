"""The whole forecast of a job: memory, step, scaling, cost, checkpoints, quota."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.objects.quantity import quantity
from trainyard.plan import memory
from trainyard.plan.constants import constants
from trainyard.plan.goodput import HOUR, Goodput, Reliability, goodput
from trainyard.plan.hardware import read
from trainyard.plan.job import Job
from trainyard.plan.run import Run
from trainyard.plan.step import Step, step


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line adds to the facts; None where it says nothing."""

    tokens: float | None = None
    """Tokens to train on, in all."""
    price: float | None = None
    """Of a GPU for an hour."""
    failures_per_1000_node_days: float | None = None
    network: float | None = None
    """Bytes/s out of a node."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a run is."""

    run: Run
    step: Step
    memory: float
    fits: bool

    @property
    def tokens_per_second(self) -> float:
        """Of the whole run; images count as their patches."""
        return self.run.tokens / self.step.total

    @property
    def samples_per_second(self) -> float:
        """Of the whole run."""
        return self.run.samples / self.step.total

    @property
    def read(self) -> float:
        """Bytes/s of tokens that the whole run reads: 2 each, or 4 where two do not hold the vocabulary."""
        return self.tokens_per_second * (2 if self.run.shape.vocabulary <= 65536 else 4)

    @property
    def mfu(self) -> float:
        """Operations that the model needs over those that the GPUs could do.

        6 x weights + 12 x layers x width x tokens for each token, over the peak of its precision, which for
        8 bits is that of 16.
        """
        shape, run = self.run.shape, self.run
        work = 6 * (shape.parameters - shape.looked_up) + 12 * shape.layers * shape.width * run.sequence
        peak = {"fp32": run.gpu.fp32, "tf32": run.gpu.tensor / 2}.get(run.precision, run.gpu.tensor)
        return self.tokens_per_second * work / (run.gpus * peak)


@dataclass(frozen=True, slots=True)
class Quota:
    """Whether the job gets its GPUs at all."""

    gpus: int
    of_cluster: int | None
    of_team: int | None

    @property
    def fits(self) -> bool | None:
        """None where neither is known."""
        limits = [limit for limit in (self.of_cluster, self.of_team) if limit is not None]
        return all(self.gpus <= limit for limit in limits) if limits else None


@dataclass(frozen=True, slots=True)
class Forecast:
    """All of it."""

    job: Job
    speed: Speed
    terms: tuple[memory.Term, ...]
    scaling: tuple[Speed, ...]
    """The same job on 1, 2, 4 ... nodes: as many samples a rank."""
    steps: int
    """Optimizer steps to the budget."""
    seconds: float
    """Without failures."""
    goodput: Goodput
    reliability: Reliability
    price: float | None
    currency: str
    quota: Quota
    claim: float | None
    """Bytes of the claim for checkpoints; None where it is not stated."""
    keep: int

    @property
    def tokens(self) -> float:
        """Of the budget."""
        return float(self.steps) * self.speed.run.tokens

    @property
    def gpu_hours(self) -> float:
        """To the budget, what failures and saves cost included."""
        return (self.seconds + self.goodput.lost) / HOUR * self.speed.run.gpus

    @property
    def cost(self) -> float | None:
        """Of those hours."""
        return None if self.price is None else self.price * self.gpu_hours

    @property
    def starts(self) -> bool:
        """It fits into memory and quota, and its claim has room for its checkpoints."""
        room = self.claim is None or (self.keep + 1) * self.goodput.bytes <= self.claim
        return self.speed.fits and self.quota.fits is not False and room

    def efficiency(self, speed: Speed) -> float:
        """Tokens/s a GPU over those of the smallest size."""
        first = self.scaling[0]
        return speed.tokens_per_second / speed.run.gpus / (first.tokens_per_second / first.run.gpus)


def speed_of(run: Run) -> Speed:
    """The speed of a run."""
    return Speed(run, step(run, constants()), memory.total(run), memory.fits(run))


def forecast(job: Job, run: Run, wishes: Overrides, quota: int | None) -> Forecast:
    """The forecast of a run. `quota`: GPUs that the job's team may have on the cluster, if known."""
    if wishes.network is not None:
        run = replace(run, network=wishes.network)
    speed = speed_of(run)
    steps = _integer(job.spec.get("steps"), 1)
    if wishes.tokens is not None:
        steps = max(1, round(wishes.tokens / run.tokens))
    checkpoint = _map(job.spec.get("checkpoint"))
    facts = _map(job.cluster_spec.get("forecast"))
    reliability = _reliability(facts, wishes, run)
    seconds = steps * speed.step.total
    interval = _integer(checkpoint.get("everySteps"), 500) * speed.step.total
    nodes = job.cluster_spec.get("nodes")
    return Forecast(
        job=job,
        speed=speed,
        terms=memory.terms(run),
        scaling=tuple(speed_of(resized(run, size)) for size in sizes(run.nodes)),
        steps=steps,
        seconds=seconds,
        goodput=goodput(run, reliability, seconds, min(interval, seconds)),
        reliability=reliability,
        price=wishes.price if wishes.price is not None else facts.get("pricePerGpuHour"),
        currency=str(facts.get("currency", "")) if wishes.price is None else "",
        quota=Quota(run.gpus, nodes * run.gpus_per_node if isinstance(nodes, int) else None, quota),
        claim=_bytes(checkpoint.get("size")),
        keep=_integer(checkpoint.get("keep"), 1),
    )


def sizes(nodes: int) -> list[int]:
    """1, 2, 4 ... and the number itself."""
    found = [1]
    while found[-1] * 2 < nodes:
        found.append(found[-1] * 2)
    return found if nodes == 1 else [*found, nodes]


def resized(run: Run, nodes: int) -> Run:
    """The same work a rank on other nodes."""
    return replace(run, gpus=nodes * run.gpus_per_node)


def _reliability(facts: Mapping[str, Any], wishes: Overrides, run: Run) -> Reliability:
    prior = read("failure-rates.yaml")["assumed"]
    assumed = []
    rate = wishes.failures_per_1000_node_days or facts.get("failuresPer1000NodeDays")
    if rate is None:
        rate = prior["per_1000_node_days"]
        assumed.append(f"{rate:g} failures per 1000 node-days (Meta RSC-1)")
    write = facts.get("checkpointWriteGBps")
    if write is None:
        write = prior["write_gbs_per_node"] * run.nodes
        assumed.append(f"{prior['write_gbs_per_node']:g} GB/s a node to storage (BLOOM)")
    restart = facts.get("restartMinutes")
    if restart is None:
        restart = prior["restart_minutes"]
        assumed.append(f"{restart:g} minutes from a failure to the next step")
    return Reliability(float(rate), float(restart) * 60, float(write) * 1e9, tuple(assumed))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _bytes(value: Any) -> float | None:
    found = quantity(value)
    return None if found is None else float(found)
