"""What a rehearsal has seen of a job, and what it has not: ranks that met, steps, a save, a resume, devices."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.rehearse.rehearsal import RehearsalRecord
from trainyard.rehearse.runs import Run
from trainyard.rehearse.worlds import worlds


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a job has to do."""

    what: str
    seen: str
    """How it was seen; empty where it was not."""
    why: str = ""
    """Why it was not."""


def evidence(seen: RehearsalRecord) -> tuple[Evidence, ...]:
    """All that a job has to do on a cluster, seen or not."""
    return tuple(_evidence(seen))


def not_seen(seen: RehearsalRecord) -> str:
    """What was not seen, in one line; empty where all was."""
    return ", ".join(each.what for each in evidence(seen) if not each.seen)


def _evidence(seen: RehearsalRecord) -> Iterator[Evidence]:
    run = seen.first
    yield Evidence("ranks", _ranks(seen, run), "no rank told that it joined a process group of PyTorch")
    yield Evidence("steps", _steps(run), "no line is known as a step; --step-pattern tells how the program prints one")
    yield Evidence("save", _save(seen), _why_not_saved(seen))
    yield Evidence("resume", _resume(seen), _why_not_resumed(seen))
    if run.outcome.ending != "succeeded":
        yield Evidence("end", "", f"it {ending(run)}")
    if any(container.gpus for each in seen.loaded.workload.pod_sets for container in each.containers):
        yield Evidence("devices", "", "this machine's processors stand in for GPUs, and its memory for theirs")


def _ranks(seen: RehearsalRecord, run: Run) -> str:
    expected, met = seen.loaded.ranks, worlds(run.joined)
    of = f" of {expected}" if expected else ""
    waited = "" if run.joined_after is None else f" after {run.joined_after:.1f} s"
    if len(met) > 1:
        return f"{len(met)} separate worlds, of {', '.join(str(each.size) for each in met)}{of} ranks{waited}"
    if run.ranks:
        return f"{run.ranks}{of} ranks{waited}"
    told = run.observed.result.get("world_size")
    return f"{told}{of} ranks" if isinstance(told, int) else ""


def _steps(run: Run) -> str:
    steps, losses = run.observed.steps, run.observed.losses
    if not steps:
        return ""
    low, high = min(steps), max(steps)
    told = f"steps {low} to {high}" if low != high else f"step {low}"
    if not losses:
        return told
    return f"{told}, loss {losses[min(losses)]:.4f} to {losses[max(losses)]:.4f}"


def _save(seen: RehearsalRecord) -> str:
    if seen.saved:
        steps = ", ".join(map(str, seen.saved))
        return f"{plural(len(seen.saved), 'checkpoint')}: step{'s' * (len(seen.saved) != 1)} {steps}"
    return seen.written


def _why_not_saved(seen: RehearsalRecord) -> str:
    claims = any("persistentVolumeClaim" in volume for plan in seen.plans for volume in plan.volumes.values())
    return "nothing was written to a claim" if claims else "the job mounts no claim"


def _resume(seen: RehearsalRecord) -> str:
    first, second = seen.first, seen.second
    if second is not None and seen.goes_on_from in second.observed.resumed_from:
        same = sorted(set(second.observed.losses) & set(first.observed.losses))
        again = f", loss {second.observed.losses[same[-1]]:.4f} at step {same[-1]} again" if same else ""
        return f"started again, it went on from step {seen.goes_on_from}{again}"
    back = ", ".join(str(step) for step in dict.fromkeys(first.resumed_from))
    return f"from step {back}, {plural(first.outcome.replaced, 'pod')} made anew" if back and first.chaos.done else ""


def _why_not_resumed(seen: RehearsalRecord) -> str:
    if seen.first.chaos.done or seen.second is not None:
        return "it was not seen to go on from a step"
    if seen.trains and len(seen.saved) == 1:
        return f"there is no checkpoint before that of step {seen.saved[0]} to go on from"
    return "nothing happened to the job; --chaos kill-rank@5 ends a rank"


def ending(run: Run) -> str:
    """How a run ended, in a word or two."""
    names = {"succeeded": "succeeded", "failed": "failed", "hangs": "hung", "timeout": "was stopped"}
    return names[run.outcome.ending]


def plural(count: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {noun}{'s' * (count != 1)}"
