"""A forecast as JSON: the numbers of the text, in SI units."""

from dataclasses import fields
from typing import Any

from trainyard.plan.compare import Variant
from trainyard.plan.forecast import Forecast, Speed
from trainyard.plan.goodput import HOUR


def document(forecast: Forecast) -> dict[str, Any]:
    """The whole forecast."""
    run, good, quota = forecast.speed.run, forecast.goodput, forecast.quota
    return {
        "job": forecast.job.name,
        "cluster": forecast.job.cluster,
        "fabric": {"name": forecast.job.fabric, "transport": run.transport, "bytes_per_second": run.network},
        "model": {"name": run.shape.name, "parameters": run.shape.parameters},
        "gpu": run.gpu.name,
        "memory": {
            "fits": forecast.speed.fits,
            "bytes": round(forecast.speed.memory),
            "usable_bytes": round(run.gpu.memory),
            "terms": [{"name": t.name, "bytes": round(t.bytes), "formula": t.formula} for t in forecast.terms],
        },
        "step": {field.name: _short(getattr(forecast.speed.step, field.name)) for field in fields(forecast.speed.step)}
        | {"total": _short(forecast.speed.step.total)},
        "speed": _speed(forecast.speed),
        "scaling": [
            {**_speed(speed), "efficiency": _short(forecast.efficiency(speed)), "fits": speed.fits}
            for speed in forecast.scaling
        ],
        "budget": {
            "steps": forecast.steps,
            "tokens": forecast.tokens,
            "seconds_without_failures": _short(forecast.seconds),
            "seconds": _short(forecast.seconds + good.lost),
            "gpu_hours": _short(forecast.gpu_hours),
            "cost": None if forecast.cost is None else _short(forecast.cost),
            "currency": forecast.currency or None,
        },
        "checkpoint": {
            "bytes": good.bytes,
            "pause_seconds": _short(good.pause),
            "write_seconds": _short(good.write_seconds),
            "interval_seconds": _short(good.interval),
            "best_interval_seconds": _short(good.best_interval),
            "claim_bytes": forecast.claim,
            "claim_needed_bytes": (forecast.keep + 1) * good.bytes,
        },
        "failures": {
            "seconds_between": _short(good.mtbf),
            "expected": _short(good.failures),
            "lost_seconds": _short(good.lost),
            "lost_seconds_at_best_interval": _short(good.lost_at_best),
            "assumed": list(forecast.reliability.assumed),
        },
        "quota": {"gpus": quota.gpus, "of_cluster": quota.of_cluster, "of_team": quota.of_team, "fits": quota.fits},
    }


def compared(options: list[Variant], first: Variant | None, forecast: Forecast) -> dict[str, Any]:
    """The comparison."""
    return {
        "variants": [
            {
                "group": option.group,
                "name": option.name,
                "is_job": option.is_job,
                "same_global_batch": option.same_result,
                "fits": option.speed.fits,
                "memory_bytes": round(option.speed.memory),
                "gpu_hours_without_failures": _short(forecast.tokens * option.gpu_seconds_per_token / HOUR),
                **_speed(option.speed),
            }
            for option in options
        ],
        "helps_most": None if first is None else {"group": first.group, "name": first.name},
    }


def _speed(speed: Speed) -> dict[str, Any]:
    run = speed.run
    return {
        "nodes": run.nodes,
        "gpus": run.gpus,
        "micro_batch": run.micro,
        "accumulation": run.accumulation,
        "global_batch": run.samples,
        "step_seconds": _short(speed.step.total),
        "tokens_per_second": _short(speed.tokens_per_second),
        "tokens_per_second_per_gpu": _short(speed.tokens_per_second / run.gpus),
        "samples_per_second": _short(speed.samples_per_second),
        "read_bytes_per_second": None if run.shape.patches else _short(speed.read),
        "mfu": _short(speed.mfu),
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")
