"""Namespaces without names, held by a process of their own, and programs run in them."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.home import PACKAGE

_HOLDER = "trainyard.rehearse.network.holder"
_ENDED = "the process that holds the rehearsal's network has ended"


def program_path() -> str:
    """Where the system's programs are: /usr/sbin is not on every user's PATH."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


class NoRight(Exception):
    """This process may not make network namespaces here."""


class HeldNamespaces:
    """Network namespaces by number from 0, and one of users, for as long as this lives.

    Raises NoRight where the kernel allows none. `folder` is removed when it ends, even by SIGKILL of this process.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._one_at_a_time = threading.Lock()
        found = shutil.which("nsenter", path=program_path())
        if found is None:
            raise Fault("nsenter is not on PATH; install it (Debian and Ubuntu: apt-get install util-linux)")
        self._nsenter = found
        self._right = "root" if os.geteuid() == 0 else "user"
        self._process = subprocess.Popen(
            [sys.executable, "-m", _HOLDER, str(folder), str(count), self._right],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            start_new_session=True,
        )
        told = self._hear()
        if "error" in told:
            self._process.wait()
            raise NoRight(told["error"])
        self._files: list[int] = told["namespaces"]
        self._users_file: int = told["users"][0]
        self.users: int = told["users"][1]
        """How many users the namespace of users has beside its root."""

    def prefix(self, number: int, *, with_users: bool = False) -> list[str]:
        """What to put before a command so that it runs in a namespace, and as root of that of users if it is to."""
        users = f"--user=/proc/{self._process.pid}/fd/{self._users_file}"
        if self._right == "user":
            words = [users, "--preserve-credentials"]
        else:
            words = [users, "--setuid=0", "--setgid=0"] if with_users else []
        return [self._nsenter, *words, f"--net={self.path(number)}", "--"]

    def path(self, number: int) -> str:
        """The file that stands for a namespace."""
        return f"/proc/{self._process.pid}/fd/{self._files[number]}"

    def run(self, number: int, argv: Sequence[str], text: str) -> str:
        """Run a program of the system in a namespace with `text` as its input, and return its output."""
        environment = {**os.environ, "PATH": program_path()}
        done = subprocess.run(
            [*self.prefix(number), *argv], input=text, capture_output=True, text=True, env=environment
        )
        if done.returncode != 0:
            raise Fault(f"{' '.join(argv)}: {done.stderr.strip() or f'ends with {done.returncode}'}")
        return done.stdout

    def order(self, order: str, **details: Any) -> Any:
        """Have the holding process do something; see holder.py."""
        assert self._process.stdin is not None
        try:
            with self._one_at_a_time:
                self._process.stdin.write(json.dumps({"order": order, **details}).encode() + b"\n")
                self._process.stdin.flush()
                told = self._hear()
        except BrokenPipeError:
            raise Fault(_ENDED) from None
        if "error" in told:
            raise Fault(f"the rehearsal's network: {told['error']}")
        return told["done"]

    def close(self) -> None:
        """End the namespaces and whatever still runs in them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError), self._process.stdin:
            self._process.stdin.write(b"end\n")
        self._process.wait()
        self._process.stdout.close()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Fault(_ENDED)
        return json.loads(line)
