"""Fields as the API server names them."""

import re
from typing import Any

from trainyard.yaml.fieldpath import Path

_TOKEN = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
_SELECTED = re.compile(r'\b(\w+)="([^"]*)"')


def server_path(field: str, data: Any) -> Path:
    """A field as the API server writes it, `spec.containers[0].resources.limits[cpu]`, as a path through `data`.

    It ends at the first step that is absent.
    """
    path: list[str | int] = []
    steps = [_Step(found[1], found[2]) for found in _TOKEN.finditer(field)]
    while steps:
        step = steps.pop(0)
        below, taken = _into(data, step, steps)
        if below is None:
            key = step.key(data)
            return tuple(path) if key is None else (*path, key)
        del steps[: taken - 1]
        path.append(below[0])
        data = below[1]
    return tuple(path)


class _Step:
    """One part of a field path: a name, an index, or a key in brackets."""

    def __init__(self, name: str | None, bracket: str | None) -> None:
        self.text = name if name is not None else bracket or ""
        self.bracket = name is None

    def key(self, data: Any) -> str | int | None:
        """The key that it is in `data`, there or not; None where it can be none."""
        if isinstance(data, dict):
            return self.text.strip('"')
        if not isinstance(data, list):
            return None
        if self.text.isdigit():
            return int(self.text) if int(self.text) < len(data) else None
        wanted = dict(_SELECTED.findall(self.text))
        fits = (
            index
            for index, each in enumerate(data)
            if wanted and isinstance(each, dict) and all(str(each.get(key)) == value for key, value in wanted.items())
        )
        return next(fits, None)


def _into(data: Any, step: _Step, after: list[_Step]) -> tuple[tuple[str | int, Any] | None, int]:
    """The entry of `data` that a step names, and how many steps that took: keys may hold dots of their own."""
    key = step.key(data)
    if key is None:
        return None, 1
    try:
        return (key, data[key]), 1
    except (LookupError, TypeError):
        pass
    name = str(key)
    for taken, more in enumerate(after, start=2):
        if more.bracket:
            break
        name += f".{more.text}"
        if isinstance(data, dict) and name in data:
            return (name, data[name]), taken
    return None, 1
