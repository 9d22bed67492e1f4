"""Rendered objects of two sides, object by object."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard.diff.model import ObjectDiff
from trainyard.objects.objects import Object

HIDDEN = "(hidden)"


def object_diffs(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], renamed: tuple[str, str] = ("", "")
) -> tuple[ObjectDiff, ...]:
    """Objects that are in one side alone, or differ, in the order of the new side; lost ones come last.

    `renamed`: what a job was called and what it is called, so that its name alone is no difference.
    """
    new = _by_title(after)
    old = _renamed(_by_title(before), new, *renamed) if renamed[0] else _by_title(before)
    found = []
    for title in [*new, *(title for title in old if title not in new)]:
        lines = _unified(old.get(title), new.get(title))
        if lines:
            what = "added" if title not in old else "removed" if title not in new else "changed"
            found.append(ObjectDiff(title, what, lines))
    return tuple(found)


def without_twins(differences: Sequence[ObjectDiff], before: Sequence[dict[str, Any]]) -> tuple[ObjectDiff, ...]:
    """The same, but an object that is added and says, names apart, what another one says already keeps no lines."""
    shapes = {_shape(Object.of(data, 0).name, [f"+{line}" for line in _text(data)]) for data in before}
    return tuple(
        replace(item, lines=())
        if item.what == "added" and _shape(item.title.rpartition("/")[2], item.lines[1:]) in shapes
        else item
        for item in differences
    )


def _shape(name: str, lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.replace(name, "<name>") for line in lines)


def _by_title(objects: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for index, data in enumerate(objects):
        title = Object.of(data, index).title
        found[title] = found.get(title, []) + _text(data)
    return found


def _renamed(
    objects: Mapping[str, list[str]], others: Mapping[str, list[str]], old: str, new: str
) -> dict[str, list[str]]:
    """Objects under their new names. A line that kept the old name, such as a model of that name, stays."""
    found: dict[str, list[str]] = {}
    for title, lines in objects.items():
        named = title.replace(old, new)
        kept = set(others.get(named, ()))
        found[named] = found.get(named, []) + [line if line in kept else line.replace(old, new) for line in lines]
    return found


def _unified(before: list[str] | None, after: list[str] | None) -> tuple[str, ...]:
    lines = difflib.unified_diff(before or [], after or [], n=3, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++")))


def _text(data: Mapping[str, Any]) -> list[str]:
    import yaml

    if data.get("kind") == "Secret":
        data = {key: _masked(value) if key in ("data", "stringData") else value for key, value in data.items()}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=True, width=10**6, allow_unicode=True)
    return text.splitlines()


def _masked(values: Any) -> Any:
    return dict.fromkeys(values, HIDDEN) if isinstance(values, Mapping) else HIDDEN
