"""Runs in every Python of a rehearsed pod: tells when a rank has joined its group, and where it stands when asked.

SIGUSR2 writes the stack of every thread into TRAINYARD_REHEARSAL, the folder that the rehearsal reads; there, too, a
rank that joined a process group of PyTorch leaves its number.
"""

import contextlib
import importlib.machinery
import json
import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

FOLDER = os.environ.get("TRAINYARD_REHEARSAL", "")
ABSENT = os.environ.get("TRAINYARD_REHEARSAL_ABSENT", "")
JOINED = "torch.distributed.distributed_c10d"


def note(name: str, content: dict[str, Any]) -> None:
    """Leave a file for the rehearsal, whole from the moment it has its name."""
    path = os.path.join(FOLDER, f"{name}-{os.uname().nodename}-{os.getpid()}-{time.time_ns()}")
    with contextlib.suppress(OSError):
        with open(f"{path}.part", "w") as file:
            json.dump(content, file)
        os.rename(f"{path}.part", f"{path}.json")


class Watch(importlib.machinery.PathFinder):
    """Finds modules as before; hides the package that the image has not, and watches the module that joins ranks."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if ABSENT and fullname == ABSENT:
            return None
        spec = super().find_spec(fullname, path, target)
        if fullname == JOINED and spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_watch(module: ModuleType) -> None:
                run(module)
                watch(module)

            spec.loader.exec_module = run_and_watch  # type: ignore[method-assign]
        return spec


def watch(module: Any) -> None:
    """Have the module tell when this rank has joined."""
    join = module.init_process_group

    def joining(*given: Any, **named: Any) -> Any:
        began = time.time()
        note("joining", {"began": began})
        made = join(*given, **named)
        rank, world = module.get_rank(), module.get_world_size()
        content = {"rank": rank, "world": world, "group": group_of(module, world), "pod": os.uname().nodename}
        note("joined", {**content, "process": os.getpid(), "began": began, "joined": time.time()})
        return made

    module.init_process_group = joining


def group_of(module: Any, world: int) -> str:
    """A word that all ranks of the group agree on through its store, and no other group has; empty without one."""
    own = f"{os.uname().nodename}-{os.getpid()}-{time.time_ns()}"
    if world == 1:
        return own
    with contextlib.suppress(Exception):  # a store or a version of PyTorch that cannot
        agreed = module._get_default_store().compare_set("trainyard-rehearsal", "", own)
        return str(agreed.decode(errors="replace"))
    return ""


def on_demand() -> None:
    """Write where every thread stands on SIGUSR2."""
    import faulthandler
    import signal

    rank = os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", ""))
    name = f"stack-{os.uname().nodename}-{os.getpid()}-{rank}.txt"
    with contextlib.suppress(OSError, ValueError):
        file = open(os.path.join(FOLDER, name), "w")  # noqa: SIM115
        faulthandler.register(signal.SIGUSR2, file=file, all_threads=True)


if FOLDER:
    sys.meta_path[:] = [Watch if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
    on_demand()
