"""Remedies for what rules find in launchers' options and containers."""

import re
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, add, put, reword
from trainyard.workload.model import Container, Setting
from trainyard.yaml.fieldpath import lookup


def held(spot: Spot) -> Any:
    """What a manifest holds at a field; None where it is absent."""
    try:
        return lookup(spot.object.data, spot.path)
    except KeyError:
        return None


def variable_of(container: Container, name: str, value: str) -> Remedy:
    """One more variable of a container."""
    return add(container.spot.below("env"), {"name": name, "value": value})


def told(setting: Setting | None, value: object, *flags: str) -> Remedy | None:
    """Another value for an option: a field, a variable, or `--flag=value` or `--flag value` in a command line."""
    if setting is None or setting.implied:
        return None
    spot, text, old = setting.spot, held(setting.spot), str(setting.value)
    if isinstance(text, int) and not isinstance(text, bool):
        return put(spot, value)
    if not isinstance(text, str):
        return None
    if text == old:
        return put(spot, str(value))
    joined = [f"{sign}{flag}={old}" for flag in flags for sign in ("--", "-")]
    if text in joined:
        return put(spot, f"{text.partition('=')[0]}={value}")
    found = [each for each in joined if re.search(rf"(?<!\S){re.escape(each)}(?!\S)", text)]
    if len(found) == 1:
        return reword(spot, found[0], f"{found[0].partition('=')[0]}={value}")
    last = spot.path[-1] if spot.path else None
    following = Spot(spot.object, (*spot.path[:-1], last + 1)) if isinstance(last, int) else None
    if following is not None and text.lstrip("-") in flags and held(following) == old:
        return put(following, str(value))
    return None
