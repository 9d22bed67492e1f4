"""Ranks as processes: forked from one in which PyTorch is imported already, which takes no time, or by a launcher."""

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "trainer.loop",
        "trainer.zero",
        "trainer.bench",
        # what a run imports on its way
        "deepspeed.module_inject.auto_ep_layer",
        "fsspec.implementations.local",
        "torch._inductor.compile_fx",
        "torch.utils.cpp_extension",
    ]
)
TIMEOUT = 600
"""Seconds until a run counts as hanging; Ray alone takes three minutes to start where others keep all cores busy."""


class Launched:
    """A command that starts ranks in processes of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], home: Path) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.paths = [Path(self.folder.name) / name for name in ("out", "errors")]
        with self.paths[0].open("w") as out, self.paths[1].open("w") as errors:
            self.process = subprocess.Popen(
                command, cwd=home, env=environment, stdout=out, stderr=errors, start_new_session=True
            )

    @property
    def out(self) -> str:
        return self.paths[0].read_text()

    @property
    def errors(self) -> str:
        return self.paths[1].read_text()

    def kill(self) -> None:
        """kill -9 for it and all that it started; torchrun's ranks are in sessions of their own."""
        import psutil  # comes with DeepSpeed; where there is no PyTorch nothing is started

        children = [] if self.process.poll() is not None else psutil.Process(self.process.pid).children(recursive=True)
        for started in (*children, self.process):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                started.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self) -> int:
        """The exit code; what hangs is killed with all its ranks."""
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the run hangs\n{self.out}\n{self.errors}") from None


class Started:
    """`python -m MODULE ARGUMENT...` once for each environment."""

    def __init__(self, module: str, arguments: Sequence[str], environments: Sequence[Mapping[str, str]]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        self.paths = [(folder / f"out-{rank}", folder / f"errors-{rank}") for rank in range(len(environments))]
        self.processes = [
            SERVER.Process(
                target=_rank, args=(module, list(arguments), dict(environment), *map(str, paths)), daemon=True
            )
            for environment, paths in zip(environments, self.paths, strict=True)
        ]
        for process in self.processes:
            process.start()

    @property
    def out(self) -> str:
        """What rank 0 has printed so far."""
        return self.paths[0][0].read_text() if self.paths[0][0].exists() else ""

    @property
    def errors(self) -> str:
        return "".join(path.read_text() for _, path in self.paths if path.exists())

    def send(self, number: int, ranks: Sequence[int] = ()) -> None:
        """Sends a signal to some ranks, or to all; to those that have ended there is nothing to send."""
        for rank in ranks or range(len(self.processes)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.processes[rank].pid or 0, number)

    def wait(self) -> list[int]:
        """The exit codes; ranks that hang are killed."""
        end = time.monotonic() + TIMEOUT
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        hanging = [rank for rank, process in enumerate(self.processes) if process.exitcode is None]
        for rank in hanging:
            self.processes[rank].kill()
            self.processes[rank].join()
        assert not hanging, f"ranks {hanging} hang\n{self.out}\n{self.errors}"
        return [process.exitcode or 0 for process in self.processes]


def _rank(module: str, arguments: list[str], environment: dict[str, str], out: str, errors: str) -> None:
    """One rank, in a process of its own."""
    for path, descriptor in ((out, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
