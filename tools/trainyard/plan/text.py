"""A forecast as people read it."""

from trainyard.plan import memory
from trainyard.plan.chart import terminal
from trainyard.plan.compare import Variant
from trainyard.plan.forecast import Forecast
from trainyard.plan.goodput import DAY, HOUR

STEP_PARTS = (
    ("computing", "compute"),
    ("computing again", "recompute"),
    ("exposed communication", "data_parallel"),
    ("optimizer", "optimizer"),
    ("host and data loader", "host"),
    ("waiting for the slowest", "stragglers"),
)
"""What the parts of a step are called, and their names in Step."""


def text(forecast: Forecast) -> str:
    """The whole forecast."""
    run, job = forecast.speed.run, forecast.job
    where = (
        f"{run.nodes} x {run.gpus_per_node} {run.gpu.name}, {job.fabric}, {run.network * 8 / 1e9:,.0f} Gbit/s a node"
    )
    lines = [
        f"{job.name} on {job.cluster}: {run.shape.name}, {memory.count(run.shape.parameters)} weights, "
        f"{_strategy(forecast)}",
        f"  {where}",
        f"  micro {run.micro} x accumulation {run.accumulation} x ranks {run.data} = {run.samples:,} samples"
        f" = {run.tokens:,} tokens a step",
        "",
        *_memory(forecast),
        "",
        *_step(forecast),
        "",
        "scaling, as many samples a rank",
        *terminal(forecast),
        "",
        *_budget(forecast),
        "",
        *_checkpoints(forecast),
        *_assumptions(forecast),
    ]
    return "\n".join(lines) + "\n"


def comparison(options: list[Variant], first: Variant | None, forecast: Forecast) -> str:
    """Variants side by side, and the one that helps most."""
    lines = ["", f"{'':34}{'tokens/s':>14}{'a GPU':>10}{'MFU':>7}{'memory':>11}{'GPU-hours':>12}"]
    group = ""
    for option in options:
        if option.group != group:
            group = option.group
            lines.append(group)
        speed = option.speed
        hours = forecast.tokens * option.gpu_seconds_per_token / HOUR
        notes = ["" if speed.fits else "does not fit", "" if option.same_result else f"batch {speed.run.samples:,}"]
        mark = "*" if option.is_job else " "
        said = "; ".join(note for note in notes if note)
        rate = speed.tokens_per_second
        lines.append(
            f" {mark}{option.name:32}{rate:>14,.0f}{rate / speed.run.gpus:>10,.0f}"
            f"{speed.mfu:>7.1%}{speed.memory / memory.GIB:>7.1f} GiB{hours:>12,.0f}{'  ' + said if said else ''}"
        )
    lines += ["", "* as the job is; GPU-hours without failures", "", helps(first, forecast)]
    return "\n".join(lines) + "\n"


def helps(first: Variant | None, forecast: Forecast) -> str:
    """The single change that helps most, in a sentence."""
    if first is None:
        why = "" if forecast.speed.fits else ", and the job does not fit as it is"
        return f"no single change that keeps nodes and global batch saves 1 % of the GPU-hours{why}"
    run = first.speed.run
    batch = f" (micro {run.micro} x accumulation {run.accumulation})" if first.group == "micro-batch" else ""
    now = forecast.speed.run.gpus / forecast.speed.tokens_per_second
    change = 1 - first.gpu_seconds_per_token / now
    if not forecast.speed.fits:
        return f"the job does not fit; it would with {first.group}: {first.name}{batch}"
    return f"what helps most: {first.group}: {first.name}{batch}, {change:.1%} fewer GPU-hours"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 2 * HOUR:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / HOUR:.3g} h" if seconds < 3 * DAY else f"{seconds / DAY:.3g} days"


def _strategy(forecast: Forecast) -> str:
    spec = forecast.job.spec
    kind = str(spec.get("parallelism"))
    return f"{kind} {spec.get('deepspeed')}" if kind == "deepspeed" else kind


def _memory(forecast: Forecast) -> list[str]:
    run, speed = forecast.speed.run, forecast.speed
    free = run.gpu.memory
    verdict = "fits" if speed.fits else "DOES NOT FIT"
    lines = [f"memory of a GPU: {speed.memory / memory.GIB:.1f} of {free / memory.GIB:.1f} GiB, {verdict}"]
    for term in forecast.terms:
        lines.append(f"  {term.name:32}{term.bytes / memory.GIB:>8.2f} GiB  {term.formula}")
    return lines


def _step(forecast: Forecast) -> list[str]:
    step, speed = forecast.speed.step, forecast.speed
    lines = [f"step: {duration(step.total)}"]
    for name, key in STEP_PARTS:
        seconds = getattr(step, key)
        if seconds:
            lines.append(f"  {name:32}{duration(seconds):>10}{seconds / step.total:>7.1%}")
    hidden = step.communication - step.data_parallel
    if step.communication:
        lines.append(
            f"  communication in all {duration(step.communication)}, "
            f"{duration(max(0.0, hidden))} of it beside computing"
        )
    run = speed.run
    unit = "images" if run.shape.patches else "tokens"
    rate = speed.samples_per_second if run.shape.patches else speed.tokens_per_second
    lines.append(
        f"  {rate:,.0f} {unit}/s, {rate / run.gpus:,.0f} a GPU, MFU {speed.mfu:.1%}, "
        f"{forecast.efficiency(speed):.0%} of one node's speed a GPU"
    )
    if not run.shape.patches:
        lines.append(f"  reads {speed.read / 1e6:,.3g} MB/s of tokens")
    return lines


def _budget(forecast: Forecast) -> list[str]:
    good = forecast.goodput
    total = forecast.seconds + good.lost
    price = f"{forecast.cost:,.0f} {forecast.currency}".rstrip() if forecast.cost is not None else "no price is stated"
    quota, gpus = forecast.quota, forecast.quota.gpus
    lines = [
        f"to {forecast.tokens:.3g} tokens ({forecast.steps:,} steps): {duration(total)}, "
        f"{duration(forecast.seconds)} of it without failures",
        f"  {forecast.gpu_hours:,.0f} GPU-hours, {price}",
    ]
    for name, limit in (("cluster", quota.of_cluster), ("team's quota", quota.of_team)):
        if limit is not None:
            lines.append(f"  {gpus} of {limit} GPUs of the {name}{'' if gpus <= limit else ': NEVER STARTS'}")
    return lines


def _checkpoints(forecast: Forecast) -> list[str]:
    good, steps = forecast.goodput, forecast.speed.step.total
    every = good.interval / steps
    best = max(1, round(good.best_interval / steps))
    lines = [
        f"checkpoints: {good.bytes / 1e9:,.1f} GB, training stops {duration(good.pause)}, "
        f"written in {duration(good.write_seconds)}",
        f"  a failure every {duration(good.mtbf)}: {good.failures:.2g} expected in the run",
        f"  every {every:,.0f} steps ({duration(good.interval)}): {duration(good.lost)} expected to be lost",
        f"  best every {best:,} steps ({duration(good.best_interval)}): {duration(good.lost_at_best)}",
    ]
    if forecast.claim is not None:
        room = (forecast.keep + 1) * good.bytes
        said = "" if room <= forecast.claim else ": THE CLAIM IS TOO SMALL"
        lines.append(
            f"  {forecast.keep} kept and one being written take {room / 1e9:,.0f} "
            f"of {forecast.claim / 1e9:,.0f} GB{said}"
        )
    return lines


def _assumptions(forecast: Forecast) -> list[str]:
    assumed = forecast.reliability.assumed
    return ["", "assumed, since the cluster does not say: " + "; ".join(assumed)] if assumed else []
