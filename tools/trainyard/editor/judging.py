"""The server's side of the process that judges: one judgement at a time, and none that nobody waits for."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.editor.worker import LENGTH, READY, pack
from trainyard.errors import Fault
from trainyard.findings import codec
from trainyard.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judgement came to."""

    findings: tuple[Finding, ...]
    units: tuple[str, ...]
    """What was judged: job folders, kustomizations and manifests that read the open documents."""


class Judging:
    """Judges in a process that is started when it is needed, and again where it ended."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        """Done once the process can be interrupted."""
        self._listening: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        """By number, requests that somebody waits for."""
        self._number = READY
        self._free = asyncio.Lock()

    async def judge(self, root: Path, documents: Sequence[str], unsaved: Mapping[str, str]) -> Judged:
        """The findings of what reads the documents, paths below `root`. Fault where there are none since it broke.

        Where the task is cancelled that waits here, the judgement ends too.
        """
        async with self._free:
            process = await self._running()
            self._number += 1
            request = {"id": self._number, "root": str(root), "documents": list(documents), "unsaved": dict(unsaved)}
            answered = self._waiting[self._number] = asyncio.get_running_loop().create_future()
            assert process.stdin is not None
            try:
                process.stdin.write(pack(request))
                answer = await answered
            except asyncio.CancelledError:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
                raise
            finally:
                self._waiting.pop(self._number, None)
        if answer["error"] or answer["interrupted"]:
            raise Fault(answer["error"] or "the judgement was interrupted")
        findings, _, _ = codec.decode(answer["found"])
        return Judged(findings, tuple(answer["units"]))

    def end(self) -> None:
        """End the process, which ends what it started."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    async def _running(self) -> Process:
        """The process, once it is ready. Fault where it ends before."""
        if self._process is None or self._process.returncode is not None:
            isolated = "-I" if sys.flags.isolated else "-P"
            command = (sys.executable, isolated, "-m", "trainyard.editor.worker")
            self._process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
            self._ready = self._waiting[READY] = asyncio.get_running_loop().create_future()
            self._listening = asyncio.create_task(self._listen(self._process))
        assert self._ready is not None
        await asyncio.shield(self._ready)
        return self._process

    async def _listen(self, process: Process) -> None:
        """Hand out answers until the process ends. What nobody waits for any more is dropped."""
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError):
            while True:
                (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                answer: dict[str, Any] = json.loads(await process.stdout.readexactly(length))
                waits = self._waiting.pop(answer["id"], None)
                if waits is not None and not waits.done():
                    waits.set_result(answer)
        code = await process.wait()
        ended = Fault(f"the process that judges ended ({_ending(code)}); the next edit starts it again")
        for waits in self._waiting.values():
            if not waits.done():
                waits.set_exception(ended)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
