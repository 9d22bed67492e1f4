"""A value that was copied, against what it ends as."""

import json
from dataclasses import dataclass
from typing import Any

from trainyard.objects.hashed import is_hashed_form
from trainyard.yaml.fieldpath import Path


@dataclass(frozen=True, slots=True)
class Later:
    """What may change a copied value afterwards, and be right."""

    wired: set[Path]
    """Fields that other replacements write."""
    names: frozenset[str]
    """Names of what is applied: kustomize ends those of generated objects in a hash, where they are used too."""


def difference(written: Any, ends: Any, path: Path, later: Later) -> tuple[Path, Any, Any] | None:
    """The first field in which a copied value ends otherwise, what was copied there and what it ends as."""
    if isinstance(written, dict) and isinstance(ends, dict):
        below = (((*path, key), value, ends.get(key)) for key, value in written.items())
    elif isinstance(written, list) and isinstance(ends, list) and len(written) == len(ends):
        below = (((*path, index), each, ends[index]) for index, each in enumerate(written))
    else:
        hashed = isinstance(written, str) and ends in later.names and is_hashed_form(ends, written)
        return None if written == ends or hashed else (path, written, ends)
    found = (difference(before, after, at, later) for at, before, after in below if at not in later.wired)
    return next((each for each in found if each is not None), None)


def said(value: Any) -> str:
    """A value as YAML and JSON write it, and of a map or a list what it is."""
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else f"a list of {len(value)}"
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
