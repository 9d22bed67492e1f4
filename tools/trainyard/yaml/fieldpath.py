"""Paths to fields of a rendered object, as tuples, and as the text that findings show."""

import re
from typing import Any

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$*-]+\Z")


def lookup(tree: Any, path: Path) -> Any:
    """The value at `path` in plain data. KeyError where there is none."""
    for step in path:
        try:
            tree = tree[step]
        except (LookupError, TypeError):
            raise KeyError(path) from None
    return tree


_NAMED = ("env", "volumes", "volumeMounts")
"""Long lists of small items, whose readers know them by name."""
_AMOUNTS = ("limits", "requests")


def format_path(tree: Any, path: Path) -> str:
    """`spec.template.spec.containers[0].env[NCCL_DEBUG].value`: items by index, variables and volumes by name, keys
    that are not plain words in brackets. `tree` is the object that `path` goes through; beyond a string it goes on into
    the document in the string.
    """
    text = ""
    key: str | int | None = None
    for step in path:
        below = _step(tree, step)
        if isinstance(step, int):
            name = below.get("name") if key in _NAMED and isinstance(below, dict) else None
            text += f"[{name if isinstance(name, str) else step}]"
        elif _PLAIN_KEY.match(step) and not (key in _AMOUNTS and "-" in step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
        key, tree = step, below
    return text


def _step(tree: Any, step: str | int) -> Any:
    try:
        return tree[step]
    except (LookupError, TypeError):
        return None
