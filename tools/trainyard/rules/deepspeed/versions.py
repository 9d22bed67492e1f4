"""Releases of the libraries in a container, where its script or its image names them."""

import re

from trainyard.workload.model import Container, Workload
from trainyard.workload.plain import mapping, sequence, text

Release = tuple[int, ...]

_PINNED = re.compile(
    r"(?<![\w-])(deepspeed|transformers|accelerate)(?:\[[\w,-]+\])?\s*==\s*(\d+(?:\.\d+)+)", re.IGNORECASE
)
_NUMBERS = re.compile(r"\d+(\.\d+)+\Z")
_IMAGE = re.compile(r"(?:^|/)deepspeed:v?(0\.\d+\.\d+)(?:[-+@]|\Z)")


def parsed(text: str) -> Release:
    """`0.19.3` as numbers that compare."""
    return tuple(int(part[:9]) for part in text.split("."))


def release(workload: Workload, container: Container, library: str) -> Release | None:
    """The release of deepspeed, transformers or accelerate that a container has; None where nothing tells.

    The last pin of its script counts, else for deepspeed the tag of an image that is called so, else what job.yaml or
    the cluster's facts state of the image.
    """
    found: Release | None = None
    for name in ("command", "args"):
        for script in sequence(container.data.get(name)):
            for pinned, number in _PINNED.findall(script) if isinstance(script, str) else ():
                if pinned.lower() == library:
                    found = parsed(number)
    if found is not None or library != "deepspeed":
        return found
    image = _IMAGE.search(container.image)
    return parsed(image[1]) if image is not None else _stated(workload)


def _stated(workload: Workload) -> Release | None:
    for fact in (workload.training_job, workload.cluster):
        stated = text(mapping(fact.data.get("spec")).get("deepspeedVersion")) if fact is not None else ""
        if _NUMBERS.match(stated):
            return parsed(stated)
    return None


def written(numbers: Release) -> str:
    """The numbers as people write them."""
    return ".".join(map(str, numbers))
