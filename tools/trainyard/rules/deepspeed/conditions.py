"""Whether what a constraint says holds for a configuration."""

from collections.abc import Mapping
from typing import Any

from trainyard.catalogues.deepspeed import Constraint
from trainyard.rules.deepspeed.configs import Config


def holds(constraint: Constraint, config: Config) -> bool:
    """True where every condition of the constraint is known to hold."""
    return all(_is(config, path, wanted) for path, wanted in constraint.when.items())


def _is(config: Config, path: str, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        (relation, bound), *_ = wanted.items()
        if relation == "given":
            return config.given(path) is bound
        return _relates(config.value(path), relation, bound)
    value = config.value(path)
    return any(_same(value, each) for each in (wanted if isinstance(wanted, list) else [wanted]))


def _relates(value: Any, relation: str, bound: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if relation == "above":
        return bool(value > bound)
    if relation == "below":
        return bool(value < bound)
    if relation == "not":
        return bool(value != bound)
    if relation == "odd":
        return value % 2 == 1
    return bool(value % bound)


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)
