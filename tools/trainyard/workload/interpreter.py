"""Asks the renderer what shell scripts do: a process of tools/go/render that runs none of them."""

import json
from functools import lru_cache
from typing import Any

from trainyard import limits
from trainyard.coprocess import Coprocess
from trainyard.kustomize.render import PROGRAM

_renderer = Coprocess([str(PROGRAM), "-scripts", f"-memory-bytes={limits.RENDER_BYTES}"])


@lru_cache(maxsize=4096)
def answer(request: str) -> dict[str, Any]:
    """What the renderer says about a request, both as JSON; see `request` and `reply` in tools/go/render/script.go.

    Empty where a script breaks it or takes too long. Fault where it does not start.
    """
    said = _renderer.ask(request.encode("utf-8", "replace"), limits.SCRIPT_SECONDS)
    found: dict[str, Any] = json.loads(said) if said else {}
    return found
