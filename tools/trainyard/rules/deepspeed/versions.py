"""Releases of the libraries in a container, where its script or its image names them."""

import re

from trainyard.workload.model import Container
from trainyard.workload.plain import sequence

Release = tuple[int, ...]

_PINNED = re.compile(
    r"(?<![\w-])(deepspeed|transformers|accelerate)(?:\[[\w,-]+\])?\s*==\s*(\d+(?:\.\d+)+)", re.IGNORECASE
)
_IMAGE = re.compile(r"(?:^|/)deepspeed:v?(0\.\d+\.\d+)(?:[-+@]|\Z)")


def parsed(text: str) -> Release:
    """`0.19.3` as numbers that compare."""
    return tuple(int(part) for part in text.split("."))


def release(container: Container, library: str) -> Release | None:
    """The release of deepspeed, transformers or accelerate that the container pins; None where nothing tells.

    The last pin of its script counts, else the tag of an image that is called deepspeed.
    """
    found: Release | None = None
    for name in ("command", "args"):
        for script in sequence(container.data.get(name)):
            for pinned, number in _PINNED.findall(script) if isinstance(script, str) else ():
                if pinned.lower() == library:
                    found = parsed(number)
    image = _IMAGE.search(container.image) if found is None and library == "deepspeed" else None
    return parsed(image[1]) if image is not None else found


def written(numbers: Release) -> str:
    """The numbers as people write them."""
    return ".".join(map(str, numbers))
