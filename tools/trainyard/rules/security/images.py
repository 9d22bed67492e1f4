"""Images that come from where the settings of a repository do not allow: a part of SEC011."""

from collections.abc import Iterator
from typing import Any

from trainyard.objects.unit import Unit
from trainyard.repository.discover import SETTINGS
from trainyard.rules.common.plain_secrets import is_reference
from trainyard.rules.registry import Problem
from trainyard.yaml.fieldpath import Path, format_path

_TEXTS = ("ConfigMap", "CustomResourceDefinition", "Secret")
"""Kinds in which a key of this name is somebody's text, or a field's definition."""


def images_from_elsewhere(unit: Unit) -> Iterator[Problem]:
    """A problem for each image, in whatever kind of object, that begins with none of `unit.images`."""
    allowed = tuple(map(_in_full, unit.images))
    for obj in unit.objects:
        if obj.kind in _TEXTS:
            continue
        for path, image in _images(obj.data):
            if not is_reference(image) and not _in_full(image).startswith(allowed):
                yield Problem(
                    f"{format_path(obj.data, path)} is {image}, which is not an image that this repository may run "
                    f"({', '.join(unit.images)})",
                    obj.at(*path),
                    help=f"take it from there, or add to `images` in {SETTINGS}",
                )


def _images(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The images of containers, under the key `image`, and of volumes, whose `image` has a `reference`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key != "image":
                yield from _images(value, (*path, key))
            elif isinstance(value, str) and value:
                yield (*path, key), value
            elif isinstance(value, dict) and isinstance(reference := value.get("reference"), str) and reference:
                yield (*path, key, "reference"), reference
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _images(value, (*path, index))


def _in_full(image: str) -> str:
    """With the registry that a name without one stands for: python:3.12 is docker.io/library/python:3.12."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    return image if "." in first or ":" in first or first == "localhost" else f"docker.io/{image}"
