"""A program that answers each line of input with a line of output, and runs as long as whoever asks it."""

import os
import select
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, Popen

from trainyard.bounded import unbounded
from trainyard.errors import Fault


class Coprocess:
    """Starts its program when it is first asked. A fork starts one of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: Popen[bytes] | None = None
        self._owner = 0

    def ask(self, line: bytes, seconds: float) -> bytes:
        """The answer to a line, both without a line's end in them; nothing where the program breaks or is silent for
        that long. Fault where it does not start."""
        asked = self._started()
        assert asked.stdin
        assert asked.stdout
        parts: list[bytes] = []
        try:
            asked.stdin.write(line + b"\n")
            while not parts or not parts[-1].endswith(b"\n"):
                ready, _, _ = select.select([asked.stdout], [], [], seconds)
                part = os.read(asked.stdout.fileno(), 1 << 20) if ready else b""
                if not part:
                    raise BrokenPipeError
                parts.append(part)
        except BrokenPipeError:
            asked.kill()
            asked.communicate()
            self._process = None
            return b""
        return b"".join(parts)

    def _started(self) -> "Popen[bytes]":
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            try:
                with unbounded():
                    self._process = Popen(self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, bufsize=0)
            except OSError as error:
                raise Fault(f"{self._command[0]} does not start: {error.strerror}") from error
            self._owner = os.getpid()
        return self._process
