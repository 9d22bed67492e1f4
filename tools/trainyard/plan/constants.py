"""The few numbers of the model that no data sheet states; schemas/hardware/forecast.yaml says what each is."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from trainyard.plan.hardware import read


@dataclass(frozen=True, slots=True)
class Constants:
    """Global: the same for every run, GPU and model that they apply to."""

    sustained_ampere: float
    sustained_hopper: float
    sustained_blackwell: float
    fp8_gain: float
    operand_traffic: float
    eager_passes: float
    fused_passes: float
    attention_per_cycle: float
    attention_native: float
    contention: float
    hop_latency: float
    tensor_parallel_hidden: float
    spread: float
    step_overhead: float

    def sustained(self, generation: str) -> float:
        """Part of the best product that training keeps up. Generations that nobody measured count as the nearest."""
        if generation in ("hopper", "ada"):
            return self.sustained_hopper
        return self.sustained_blackwell if generation == "blackwell" else self.sustained_ampere


NAMES = tuple(field.name for field in fields(Constants))


@cache
def constants() -> Constants:
    """Those of forecast.yaml."""
    document = read("forecast.yaml")["constants"]
    return Constants(**{name: float(document[name]["value"]) for name in NAMES})


def changed(base: Constants, values: Mapping[str, float]) -> Constants:
    """`base` with other values for some."""
    return Constants(**{name: values.get(name, getattr(base, name)) for name in NAMES})
