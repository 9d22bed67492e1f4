"""Ranks as processes that are forked from one in which PyTorch is imported already: starting them takes no time."""

import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["trainer.loop", "trainer.zero", "deepspeed"])
TIMEOUT = 180


def run(arguments: Sequence[str], environments: Sequence[Mapping[str, str]]) -> tuple[list[int], str, str]:
    """Runs `python -m trainer` once for each environment; returns the exit codes, rank 0's output, and all errors."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [(Path(folder) / f"out-{rank}", Path(folder) / f"errors-{rank}") for rank in range(len(environments))]
        ranks = [
            SERVER.Process(target=_rank, args=(list(arguments), dict(environment), *map(str, files)), daemon=True)
            for environment, files in zip(environments, paths, strict=True)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(TIMEOUT)
        hanging = [number for number, rank in enumerate(ranks) if rank.exitcode is None]
        for rank in ranks:
            rank.kill()
            rank.join()
        errors = "".join(path.read_text() for _, path in paths)
        assert not hanging, f"ranks {hanging} hang\n{paths[0][0].read_text()}\n{errors}"
        return [rank.exitcode or 0 for rank in ranks], paths[0][0].read_text(), errors


def _rank(arguments: list[str], environment: dict[str, str], out: str, errors: str) -> None:
    """One rank, in a process of its own."""
    for path, descriptor in ((out, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    from trainer.__main__ import main

    code = 1
    try:
        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
