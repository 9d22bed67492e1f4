"""What all pods of a rehearsal together may take of this machine: memory, processes, disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.rehearse.disk.slow import size
from trainyard.rehearse.network.held_namespaces import program_path

PROCESSES = 16384
"""Threads count as processes."""
LARGEST_FILE = 64 << 30
"""Bytes."""
LEFT_ON_DISK = 1 << 30
"""Bytes that the disk of the temporary folder keeps, or the tenth of it where that is less."""
_OF_MEMORY = 0.75
_CGROUPS = Path("/sys/fs/cgroup")
_PREFIX = "trainyard-rehearsal-"
_WANTED = {"memory", "pids"}
_BEGIN = """\
echo 1000 2>/dev/null >/proc/self/oom_score_adj
if [ "$1" ]; then echo 0 >"$1/cgroup.procs" || exit 126; fi
shift
exec "$@"
"""
"""Where memory runs out all the same, the kernel ends what is rehearsed before anything else."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one rehearsal."""

    memory: int
    """Bytes."""
    cgroup: Path | None
    """The cgroup of its pods; None where this process may make none, and rlimits and a look each second are left."""
    folder: Path
    """Where its volumes lie."""

    @property
    def told(self) -> str:
        """In a few words."""
        how = "by a cgroup" if self.cgroup else "looked at each second, for lack of a cgroup"
        return f"memory {size(self.memory)}, {how}; {PROCESSES} processes; files of {size(LARGEST_FILE)}"

    def words(self) -> list[str]:
        """What to put before a command that is to keep to them."""
        limits = [f"--nproc={PROCESSES}:{PROCESSES}", f"--fsize={LARGEST_FILE}:{LARGEST_FILE}"]
        prlimit = shutil.which("prlimit", path=program_path()) or "prlimit"
        return ["/bin/sh", "-c", _BEGIN, "sh", str(self.cgroup or ""), prlimit, *limits, "--"]

    def check(self, name: str, memory: int) -> None:
        """InputError where the pods of `name` have taken too much; `memory` is theirs in bytes."""
        if memory > self.memory:
            taken = f"its pods took {size(memory)} of memory, and a rehearsal here may take {size(self.memory)}"
            raise InputError(f"was stopped: {taken}", name, help="--nodes and --gpus-per-node make it smaller")
        disk = os.statvfs(self.folder)
        left, least = disk.f_bavail * disk.f_frsize, min(LEFT_ON_DISK, disk.f_blocks * disk.f_frsize // 10)
        if left < least:
            where = tempfile.gettempdir()
            raise InputError(
                f"was stopped: {size(left)} are left on the disk of {where}, and a rehearsal leaves {size(least)}",
                name,
                help="set TMPDIR to a folder with more room",
            )

    def close(self) -> None:
        """Take the cgroup away once no process is in it."""
        if self.cgroup is not None:
            with suppress(OSError):
                self.cgroup.rmdir()


def bounds(folder: Path, cgroups: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Bounds:
    """The bounds for a rehearsal whose volumes lie in `folder`."""
    memory = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _OF_MEMORY)
    for above in _above(cgroups, own):
        for left in above.glob(f"{_PREFIX}*"):  # by a rehearsal that was killed; one that lives cannot be removed
            with suppress(OSError):
                left.rmdir()
        made = above / f"{_PREFIX}{os.getpid()}"
        try:
            made.mkdir()
            (made / "memory.max").write_text(str(memory))
            (made / "pids.max").write_text(str(PROCESSES))
        except OSError:
            with suppress(OSError):
                made.rmdir()
            continue
        return Bounds(memory, made, folder)
    return Bounds(memory, None, folder)


def _above(cgroups: Path, own: Path) -> Iterator[Path]:
    """Groups of cgroup v2, from this process's own upwards, whose children can be bounded, if this process may."""
    with suppress(OSError):
        table = own.read_text().splitlines()
        path = next((line.removeprefix("0::/") for line in table if line.startswith("0::/")), None)
        start = None if path is None else cgroups / path
        for group in () if start is None else (start, *start.parents):
            if not group.is_relative_to(cgroups):
                return
            with suppress(OSError):
                if set((group / "cgroup.subtree_control").read_text().split()) >= _WANTED:
                    yield group
