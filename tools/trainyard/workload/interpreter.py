"""Asks the renderer what shell scripts do: a process of tools/go/render that runs none of them."""

import json
import os
import select
from functools import lru_cache
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

from trainyard import limits
from trainyard.bounded import unbounded
from trainyard.errors import Fault
from trainyard.kustomize.render import PROGRAM

_process: tuple[int, "Popen[bytes]"] | None = None
"""The process that answers, and the one that started it: a fork starts its own."""


@lru_cache(maxsize=4096)
def answer(request: str) -> dict[str, Any]:
    """What the renderer says about a request, both as JSON; see `request` and `reply` in tools/go/render/script.go.

    Empty where a script breaks it or takes too long. Fault where it does not start.
    """
    asked = _started()
    assert asked.stdin
    assert asked.stdout
    try:
        asked.stdin.write(request.encode("utf-8", "replace") + b"\n")
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            ready, _, _ = select.select([asked.stdout], [], [], limits.SCRIPT_SECONDS)
            part = os.read(asked.stdout.fileno(), 1 << 20) if ready else b""
            if not part:
                raise BrokenPipeError
            parts.append(part)
    except BrokenPipeError:
        _end()
        return {}
    found: dict[str, Any] = json.loads(b"".join(parts))
    return found


def _started() -> "Popen[bytes]":
    global _process
    if _process is None or _process[0] != os.getpid() or _process[1].poll() is not None:
        command = [str(PROGRAM), "-scripts", f"-memory-bytes={limits.RENDER_BYTES}"]
        try:
            with unbounded():
                started = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, bufsize=0)
        except OSError as error:
            raise Fault(f"{PROGRAM} does not start: {error.strerror}") from error
        _process = (os.getpid(), started)
    return _process[1]


def _end() -> None:
    global _process
    assert _process
    _process[1].kill()
    _process[1].communicate()
    _process = None
