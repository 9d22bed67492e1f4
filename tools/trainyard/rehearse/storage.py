"""Where the run's dataset and checkpoints lie on this machine."""

import os
import posixpath
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import Fault
from trainyard.home import HOME
from trainyard.rehearse.open_beneath import folder
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.sandbox import TRAINER
from trainyard.rehearse.volumes import Volume

DATASETS = HOME / ".tools" / "cache" / "rehearsal"
_STEP = re.compile(r"step-(\d{9})\Z")
_INDEX = re.compile(r"ckpt-(\d+)\.index\Z")
_DONE = "done.json"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The folder of a run's checkpoints, which containers write into: no link in it is followed."""

    volume: Path
    """The volume's folder here."""
    path: str
    """The folder in it."""

    def steps(self) -> list[int]:
        """Steps whose checkpoint is whole, oldest first."""
        names = [_STEP.match(name) for name in self._names()]
        indexes = [_INDEX.match(name) for name in self._names("tensorflow")]
        return sorted({int(name[1]) for name in (*names, *indexes) if name})

    def step_back(self) -> int | None:
        """Take the mark of the end and the newest checkpoint away, so that a run goes on from the one before it.

        Gives the step that it goes on from; None where there is only one checkpoint.
        """
        steps = self.steps()
        if len(steps) < 2:
            return None
        with folder(self.volume, self.path) as run:
            with suppress(FileNotFoundError):
                os.unlink(_DONE, dir_fd=run)
            newest = f"step-{steps[-1]:09}"
            if newest in os.listdir(run):
                if stat.S_ISDIR(os.lstat(newest, dir_fd=run).st_mode):
                    shutil.rmtree(newest, dir_fd=run)
                else:
                    os.unlink(newest, dir_fd=run)
                return steps[-2]
        self._step_back_tensorflow(steps)
        return steps[-2]

    def _names(self, below: str = "") -> list[str]:
        with suppress(OSError), folder(self.volume, f"{self.path}/{below}") as there:
            return os.listdir(there)
        return []

    def _step_back_tensorflow(self, steps: Sequence[int]) -> None:
        kept = [f'all_model_checkpoint_paths: "ckpt-{step}"\n' for step in steps[:-1]]
        listed = f'model_checkpoint_path: "ckpt-{steps[-2]}"\n' + "".join(kept)
        with folder(self.volume, f"{self.path}/tensorflow") as there:
            for name in os.listdir(there):
                if name == "checkpoint" or name.startswith(f"ckpt-{steps[-1]}."):
                    os.unlink(name, dir_fd=there)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open("checkpoint", flags, 0o666, dir_fd=there), "w") as file:
                file.write(listed)


def on_this_machine(path: str, container: ContainerPlan, volumes: Mapping[str, Volume]) -> tuple[Path, str] | None:
    """The volume's folder here that a path of a container lies in, and the path in it; None where none holds it."""
    best = None
    path = posixpath.normpath(path)
    for mount in container.mounts:
        inside = path == mount.path or path.startswith(f"{mount.path.rstrip('/')}/")
        if inside and (best is None or len(mount.path) > len(best.path)):
            best = mount
    volume = None if best is None else volumes.get(best.volume)
    if best is None or not isinstance(volume, Path):
        return None
    return volume, f"{best.sub_path}/{path[len(best.path) :]}"


def checkpoints(
    plans: Sequence[PodPlan], volumes: Mapping[str, Mapping[str, Volume]], settings: Mapping[str, str]
) -> Checkpoints | None:
    """The run's checkpoints; None where the program is not the trainer, or writes them into no volume."""
    where, run = settings.get("TRAINER_CHECKPOINT_DIR"), settings.get("TRAINER_RUN")
    if not where or not run:
        return None
    for plan in plans:
        for container in plan.containers:
            if (found := on_this_machine(f"{where}/{run}", container, volumes[plan.name])) is not None:
                return Checkpoints(*found)
    return None


def put_dataset(kind: str, path: str, plans: Sequence[PodPlan], volumes: Mapping[str, Mapping[str, Volume]]) -> bool:
    """Lay the made-up dataset where the job reads one; False where that is in no volume of any pod."""
    for plan in plans:
        for container in plan.containers:
            place = on_this_machine(path, container, volumes[plan.name])
            if place is not None:
                with folder(*place, make=True) as there:
                    if not os.listdir(there):
                        shutil.copytree(dataset(kind), f"/proc/self/fd/{there}", dirs_exist_ok=True)
                        os.fchmod(there, 0o777)
                return True
    return False


def dataset(kind: str) -> Path:
    """The made-up dataset of a kind, `text` or `images`; made once a checkout."""
    folder = DATASETS / kind
    if folder.is_dir():
        return folder
    DATASETS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=DATASETS) as own:  # another rehearsal may make it meanwhile
        part = Path(own, kind)
        command = [str(TRAINER / "bin" / "python"), "-m", "trainer.made_up", kind, str(part)]
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Fault(f"the dataset could not be made: {done.stderr.strip().splitlines()[-1:]}")
        with suppress(OSError):
            part.rename(folder)
    return folder
