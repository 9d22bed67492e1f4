"""Where the run's dataset and checkpoints lie on this machine."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import Fault
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.sandbox import HOME, TRAINER

DATASETS = HOME / ".tools" / "cache" / "rehearsal"
_STEP = re.compile(r"step-(\d{9})\Z")
_DONE = "done.json"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The folder of a run's checkpoints."""

    folder: Path

    def steps(self) -> list[int]:
        """Steps whose checkpoint is whole, oldest first."""
        if not self.folder.is_dir():
            return []
        names = [_STEP.match(path.name) for path in self.folder.iterdir()]
        found = {int(name[1]) for name in names if name}
        found |= {int(path.name[5:-6]) for path in self.folder.glob("tensorflow/ckpt-*.index")}
        return sorted(found)

    def result(self) -> Mapping[str, object] | None:
        """What the run wrote when it was done."""
        with suppress(OSError, ValueError):
            content: Mapping[str, object] = json.loads((self.folder / _DONE).read_text())
            return content
        return None

    def step_back(self) -> int | None:
        """Take the mark of the end and the newest checkpoint away, so that a run goes on from the one before it.

        Gives the step that it goes on from; None where there is only one checkpoint.
        """
        steps = self.steps()
        if len(steps) < 2:
            return None
        (self.folder / _DONE).unlink(missing_ok=True)
        newest = self.folder / f"step-{steps[-1]:09}"
        if newest.is_dir():
            shutil.rmtree(newest)
        else:
            self._step_back_tensorflow(steps)
        return steps[-2]

    def _step_back_tensorflow(self, steps: Sequence[int]) -> None:
        folder = self.folder / "tensorflow"
        for path in folder.glob(f"ckpt-{steps[-1]}.*"):
            path.unlink()
        kept = [f'all_model_checkpoint_paths: "ckpt-{step}"\n' for step in steps[:-1]]
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{steps[-2]}"\n' + "".join(kept))


def on_this_machine(path: str, container: ContainerPlan, volumes: Mapping[str, Path]) -> Path | None:
    """Where a path of a container lies here; None where no volume holds it."""
    best = None
    for mount in container.mounts:
        inside = path == mount.path or path.startswith(f"{mount.path.rstrip('/')}/")
        if inside and (best is None or len(mount.path) > len(best.path)):
            best = mount
    if best is None:
        return None
    rest = path[len(best.path) :].strip("/")
    below = "/".join(part for part in (best.sub_path.strip("/"), rest) if part)
    return volumes[best.volume] / below


def checkpoints(
    plans: Sequence[PodPlan], folders: Mapping[str, Mapping[str, Path]], settings: Mapping[str, str]
) -> Checkpoints | None:
    """The run's checkpoints; None where the program is not the trainer, or writes them into no volume."""
    where, run = settings.get("TRAINER_CHECKPOINT_DIR"), settings.get("TRAINER_RUN")
    if not where or not run:
        return None
    for plan in plans:
        for container in plan.containers:
            if (found := on_this_machine(where, container, folders[plan.name])) is not None:
                return Checkpoints(found / run)
    return None


def put_dataset(kind: str, path: str, plans: Sequence[PodPlan], folders: Mapping[str, Mapping[str, Path]]) -> bool:
    """Lay the made-up dataset where the job reads one; False where that is in no volume of any pod."""
    for plan in plans:
        for container in plan.containers:
            place = on_this_machine(path, container, folders[plan.name])
            if place is not None:
                if not place.exists() or not any(place.iterdir()):
                    shutil.copytree(dataset(kind), place, dirs_exist_ok=True)
                return True
    return False


def dataset(kind: str) -> Path:
    """The made-up dataset of a kind, `text` or `images`; made once a checkout."""
    folder = DATASETS / kind
    if folder.is_dir():
        return folder
    part = DATASETS / f".{kind}"
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    command = [str(TRAINER / "bin" / "python"), "-m", "trainer.made_up", kind, str(part)]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Fault(f"the dataset could not be made: {done.stderr.strip().splitlines()[-1:]}")
    with suppress(OSError):
        part.rename(folder)
    return folder
