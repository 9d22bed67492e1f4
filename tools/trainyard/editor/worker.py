"""The process that judges for the language server: it lives as long as the server, and each answer is whole or none.

A message is its length in four bytes and JSON. A request names a repository, its open documents and unsaved texts; the
answer holds findings, or says why there are none. An interrupt ends the judgement that runs, and no other.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from struct import Struct
from types import FrameType
from typing import IO, Any

LENGTH = Struct("<I")
READY = 0
"""The number of the message that says that requests may come, and interrupts."""

_USED = (
    "json",
    "selectors",
    "subprocess",
    "trainyard.editor.targets",
    "trainyard.findings.suppress",
    "trainyard.fixes.plan",
    "trainyard.kustomize.rendered",
    "trainyard.lint.pipeline",
    "trainyard.lint.unjudged",
)
"""Modules that are imported where they are needed first."""


def pack(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent."""
    data = json.dumps(message).encode()
    return LENGTH.pack(len(data)) + data


class _Interrupts:
    """Lets an interrupt end a judgement, and passes over one that comes too late."""

    def __init__(self) -> None:
        self.taken = False
        signal.signal(signal.SIGINT, self._take)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.taken:
            self.taken = False
            raise KeyboardInterrupt


def main() -> int:
    """Answer requests from standard input until it ends. What else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    interrupts = _Interrupts()
    requests = sys.stdin.buffer
    answers.write(pack({"id": READY}))
    _warm()
    while (request := _read(requests)) is not None:
        answer: dict[str, Any] = {"id": request["id"], "error": "", "interrupted": False}
        try:
            interrupts.taken = True
            answer |= _judged(request)
            interrupts.taken = False
        except KeyboardInterrupt:
            answer["interrupted"] = True
        except Exception as error:
            interrupts.taken = False
            answer["error"] = f"{type(error).__name__}: {error}"
        answers.write(pack(answer))
    return 0


def _warm() -> None:
    """Load what each judgement needs, which the processes that judge would load anew for each: good jobs are judged.

    What is there afterwards is left alone when garbage is looked for.
    """
    from trainyard.lint.result import found_by_rules
    from trainyard.rules.examples import good_job, good_names
    from trainyard.rules.index import all_rules
    from trainyard.schemas import schema

    for name in _USED:
        import_module(name)
    for unit in map(good_job, good_names()):
        for _ in (*found_by_rules(all_rules(), unit), *schema.check([unit])):
            pass
    gc.collect()
    gc.freeze()


def _read(requests: IO[bytes]) -> dict[str, Any] | None:
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    found: dict[str, Any] = json.loads(requests.read(LENGTH.unpack(head)[0]))
    return found


def _judged(request: Mapping[str, Any]) -> dict[str, Any]:
    from trainyard.editor.targets import reading
    from trainyard.findings import codec
    from trainyard.lint.pipeline import lint

    root, unsaved = Path(request["root"]), request["unsaved"]
    found = reading(root, request["documents"], unsaved)
    if not found.targets and not found.errors:
        return {"found": codec.encode((), ()), "units": []}
    outcome = lint(root, found, unsaved=unsaved)
    return {"found": codec.encode(outcome.findings, ()), "units": list(outcome.units)}


if __name__ == "__main__":
    sys.exit(main())
