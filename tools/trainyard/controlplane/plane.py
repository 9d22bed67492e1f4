"""The caller's side of a control plane: asks a supervisor for one, and lets go of it."""

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from trainyard.controlplane import programs
from trainyard.controlplane.client import Client
from trainyard.errors import Fault
from trainyard.home import PACKAGE

NODE_STAGES = ("node-fast-node-initialize.yaml",)
POD_STAGES = ("pod-fast-pod-ready.yaml", "pod-fast-pod-delete.yaml")
"""kwok's pods become ready and stay so: whoever asks the questions says when they finish or fail."""
FINISHING = ("pod-fast-pod-complete.yaml",)
"""Added to the stages, the pods of a Job succeed as soon as they are ready."""


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    server: str
    """Its address, such as https://127.0.0.1:40123."""
    token: str = field(repr=False)
    """A bearer token of the group system:masters."""
    folder: Path
    """Where its certificates, kubeconfigs (admin.kubeconfig) and logs (NAME.log) are while it runs."""
    pids: dict[str, int]
    """Process ids by program, and of the supervisor."""

    def client(self) -> Client:
        """A client with every right."""
        return Client(self.server, ssl.create_default_context(cafile=str(self.folder / "ca.crt")), token=self.token)

    def log(self, program: str) -> str:
        """What a program has said so far."""
        return (self.folder / f"{program}.log").read_text(errors="replace")


@contextlib.contextmanager
def running(
    *components: str,
    controllers: Sequence[str] = programs.JOB_CONTROLLERS,
    stages: Sequence[str] = NODE_STAGES + POD_STAGES,
    watched: bool = True,
) -> Iterator[Plane]:
    """A fresh control plane: etcd, kube-apiserver and what of COMPONENTS is named.

    A server that is not `watched` keeps no changes for controllers: its memory does not grow as objects come and go,
    and lists do not wait. Fault where the programs are not built or do not start. Nothing of the plane is left
    afterwards, nor where this process is killed.
    """
    if not (programs.PROGRAMS / "stamp").is_file():
        raise Fault(f"{programs.PROGRAMS} is missing: run tools/verify-jobs, which builds it")
    unknown = set(components) - set(programs.COMPONENTS)
    if unknown:
        raise ValueError(f"no component is called {', '.join(sorted(unknown))}")
    process = _supervisor()
    assert process.stdin is not None
    assert process.stdout is not None
    folder: Path | None = None
    try:
        asked = {"components": components, "controllers": list(controllers), "stages": list(stages), "watched": watched}
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise Fault("the control plane's supervisor ended at once") from None
        folder = Path(_answer(process.stdout)["folder"])
        ready = _answer(process.stdout)
        pids = {"supervisor": process.pid, **ready["pids"]}
        yield Plane(ready["server"], ready["token"], folder, pids)
    finally:
        _let_go(process, folder)


def _supervisor() -> "subprocess.Popen[bytes]":
    package = PACKAGE.parent
    return subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(package)!r}); "
            "from trainyard.controlplane.supervisor import main; sys.exit(main())",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
        start_new_session=True,
    )


def _answer(output: IO[bytes]) -> dict[str, Any]:
    line = output.readline()
    if not line:
        raise Fault("the control plane's supervisor was killed")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        said = f": {answer['log'][-1].strip()}" if answer["log"] else ""
        raise Fault(f"the control plane does not start: {answer['error']}{said}")
    return answer


def _let_go(process: "subprocess.Popen[bytes]", folder: Path | None) -> None:
    """End the supervisor, and so everything; where it was killed itself, remove what it left."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    while True:
        try:
            process.wait()
            break
        except KeyboardInterrupt:
            continue  # it is ending already, and must not be left half way
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
