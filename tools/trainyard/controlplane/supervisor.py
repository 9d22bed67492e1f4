"""The process that a control plane lives and dies with.

plane.py starts it with one line of JSON on standard input: what to start. It answers with lines of JSON on standard
output: `{"folder": ...}` once there is one, then `{"server": ..., "token": ...}` once all is up, or
`{"error": ..., "log": [...]}`. It ends when its standard input does, which happens however its caller ends.

Linux ends the programs where this process is killed; their folder then stays until the next plane starts, or the caller
removes it. Elsewhere only SIGKILL on this very process leaves them behind.
"""

import ctypes
import fcntl
import http.client
import json
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainyard import leftovers
from trainyard.controlplane import programs

PREFIX = "trainyard-control-plane-"
START_SECONDS = 120
"""How long a plane may take to become ready on a machine that does much else."""
PORT_TRIES = 5
PORT_TAKEN = "address already in use"
LOG_LINES = 8
_PR_SET_PDEATHSIG = 1


class CallerGone(Exception):
    """The caller is gone, so there is nothing more to do."""


class Failed(Exception):
    """A program ended, or did not become ready."""

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)


def main() -> int:
    """Supervise one plane. Returns 0 when the caller let go of it, 1 where it failed."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    try:
        asked = json.loads(sys.stdin.readline() or "null")
    except CallerGone:
        return 0
    if asked is None:
        return 0
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    supervisor = _Supervisor(folder)
    code = 0
    try:
        supervisor.hold()
        _say({"folder": str(folder)})
        _say(supervisor.start(**asked))
        supervisor.watch()
    except (CallerGone, BrokenPipeError):
        pass
    except Failed as error:
        code = 1
        _try_to_say({"error": str(error), "log": error.log})
    except OSError as error:
        code = 1
        _try_to_say({"error": f"{error.filename or folder}: {error.strerror or error}", "log": []})
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        supervisor.end()
    return code


def sweep(where: Path | None = None) -> list[Path]:
    """Remove what planes left behind whose supervisor was killed. Gives what it removed."""
    return leftovers.sweep(PREFIX, where)


class _Supervisor:
    """The programs of one plane, and their folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.held = -1

    def hold(self) -> None:
        """Lock the folder, which says that it is in use."""
        self.held = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.held, fcntl.LOCK_EX)

    def start(
        self, components: Sequence[str], controllers: Sequence[str], stages: Sequence[str], watched: bool
    ) -> dict[str, Any]:
        """Start everything and wait until the API server is ready. Gives how to reach it."""
        authority = [str(programs.PROGRAMS / "authority"), ".", "apiserver"]
        if subprocess.run(authority, cwd=self.folder, stdin=subprocess.DEVNULL, check=False).returncode:
            raise Failed("the control plane's certificates could not be made")
        tokens = programs.write_tokens(self.folder)
        self._spawn("etcd", programs.etcd())
        port = self._start_api_server(watched)
        server = f"https://127.0.0.1:{port}"
        programs.write_kubeconfigs(self.folder, server, tokens)
        for name in components:
            self._spawn(name, programs.component(name, self.folder, controllers, stages))
        pids = {name: process.pid for name, process in self.processes.items()}
        return {"server": server, "token": tokens["admin"], "pids": pids}

    def watch(self) -> None:
        """Return when the caller lets go, by an exception; raise Failed where a program ends before that."""
        while True:
            self._breathe(0.2)

    def end(self) -> None:
        """Kill every program, then remove the folder."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_api_server(self, watched: bool) -> int:
        for attempt in range(PORT_TRIES):
            port = free_port()
            self._spawn("kube-apiserver", programs.api_server(port, watched))
            try:
                self._await_api_server(port)
            except Failed as error:
                if attempt + 1 < PORT_TRIES and PORT_TAKEN in " ".join(error.log):
                    continue
                raise
            return port
        raise AssertionError("the last attempt returns or raises")

    def _await_api_server(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        token = (self.folder / "tokens.csv").read_text().partition(",")[0]
        while not _is_ready(port, trust, token):
            if time.monotonic() > deadline:
                raise Failed(f"kube-apiserver was not ready after {START_SECONDS} s", self._log("kube-apiserver"))
            self._breathe(0.05)

    def _breathe(self, seconds: float) -> None:
        """Wait a little. CallerGone where the caller is gone, Failed where a program is."""
        if select.select([sys.stdin], [], [], seconds)[0] and not os.read(sys.stdin.fileno(), 1):
            raise CallerGone
        for name, process in self.processes.items():
            if (code := process.poll()) is not None:
                raise Failed(f"{name} ended with {code}", self._log(name))

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=self.folder,
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "HOME": str(self.folder),
                    "GOGC": programs.GOGC,
                    "GOMEMLIMIT": programs.GOMEMLIMIT,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with(os.getpid()),
            )

    def _log(self, name: str) -> list[str]:
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return [line for line in text.splitlines() if line.strip()][-LOG_LINES:]


def die_with(supervisor: int) -> Callable[[], None]:
    """What a child runs first: on Linux it asks to be killed with its parent. This process has one thread."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None

    def ask() -> None:
        if library is None:
            return
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    return ask


def _is_ready(port: int, trust: ssl.SSLContext, token: str) -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=trust)
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _try_to_say(message: dict[str, Any]) -> None:
    try:
        _say(message)
    except OSError:
        return


def _end(*_: Any) -> None:
    raise CallerGone
