"""One side of a comparison: a tree of files, and what its folders come to."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.gitops.cluster import Platforms
from trainyard.gitops.cluster_folders import followed
from trainyard.kustomize.kustomization import load_graph
from trainyard.kustomize.render import Rendering, render
from trainyard.kustomize.rendered import rendered_folder
from trainyard.objects.unit import Unit
from trainyard.plan.forecast import Forecast, Overrides, forecast
from trainyard.plan.job import Unplannable, job_of, run_of
from trainyard.plan.memory import GIB
from trainyard.plan.repository import environment, quota
from trainyard.plan.text import duration
from trainyard.repository.discover import Target, TargetKind
from trainyard.workload.containers import runs_trainer
from trainyard.workload.of_unit import workloads
from trainyard.yaml.sources import Sources

OF_TRAINER = "TRAINER_"
SETTINGS = ("NCCL_", "GLOO_", "UCX_", "FI_", OF_TRAINER, "TORCH_", "OMP_", "CUDA_", "OMPI_", "HOROVOD_", "TF_")
"""How the names of variables begin that say how ranks talk and in what batches they train."""


@dataclass(slots=True)
class Side:
    """A tree of files. Its folders are rendered once."""

    root: Path
    renderings: dict[str, Rendering] = field(default_factory=dict)
    sources: Sources = field(init=False)
    platforms: Platforms = field(init=False)

    def __post_init__(self) -> None:
        self.sources = Sources(self.root)
        self.platforms = Platforms(self.root, self.sources)

    def jobs(self) -> set[str]:
        """Every job folder."""
        return {file.parent.relative_to(self.root).as_posix() for file in self.root.glob("jobs/*/*/job.yaml")}

    def applied_folders(self) -> set[str]:
        """Every folder but jobs that Argo CD or Flux apply. What leads to them is rendered for it."""
        return followed(self.root, self._rendered)

    def _rendered(self, folders: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        self.render(folders)
        return {folder: self.renderings[folder].objects for folder in folders}

    def render(self, folders: Iterable[str]) -> None:
        """Render what was not yet, and asks for nothing that is refused."""
        allowed = []
        for folder in sorted(set(folders) - set(self.renderings)):
            try:
                load_graph(self.sources, folder)
                allowed.append(folder)
            except InputError as error:
                self.renderings[folder] = Rendering(folder, [], {}, str(error))
        for folder, rendering in zip(allowed, render(self.root, allowed), strict=True):
            self.renderings[folder] = rendering


@dataclass(frozen=True)
class JobSide:
    """A job of one side, as far as it can be known."""

    side: Side
    folder: str

    @property
    def problem(self) -> str:
        """Why it cannot be rendered; empty where it can."""
        return self._unit if isinstance(self._unit, str) else ""

    @property
    def settings(self) -> dict[str, str]:
        """Effective variables of the container that trains, those that say how."""
        if isinstance(self._unit, str):
            return {}
        found = environment(self._unit)
        read = SETTINGS if _runs_trainer(self._unit) else tuple(each for each in SETTINGS if each != OF_TRAINER)
        return {name: value for name, value in sorted(found.items()) if name.startswith(read)}

    @cached_property
    def numbers(self) -> dict[str, str]:
        """What it asks for and comes to, in the words of reports."""
        if isinstance(self._unit, str):
            return {}
        facts = {kind: _data(self._unit, kind) for kind in ("TrainingJob", "Cluster", "Fabric")}
        spec, cluster = _map(facts["TrainingJob"].get("spec")), _map(facts["Cluster"].get("metadata")).get("name", "")
        batch = _map(spec.get("batch"))
        team = self.folder.split("/")[1]
        allowed = quota(self.side.root, str(cluster), team)
        said = {
            "cluster": str(cluster),
            "nodes": str(spec.get("nodes", "")),
            "GPUs": str(_gpus(self._unit) or ""),
            f"quota of {team}, GPUs": "" if allowed is None else str(allowed),
        }
        if _runs_trainer(self._unit):
            said["batch"] = "micro {micro} x accumulation {accumulation}, global {global}".format(
                **{key: batch.get(key) for key in ("micro", "accumulation", "global")}
            )
        return said | self._forecast(facts, allowed)

    def _forecast(self, facts: Mapping[str, Mapping[str, Any]], allowed: int | None) -> dict[str, str]:
        assert isinstance(self._unit, Unit)
        job = job_of(facts["TrainingJob"], facts["Cluster"], facts["Fabric"], environment(self._unit))
        try:
            found = forecast(job, run_of(job), Overrides(), allowed)
        except Unplannable as error:
            return {"forecast": f"none: {error.reason}"}
        return forecast_numbers(found)

    @cached_property
    def _unit(self) -> Unit | str:
        rendering = self.side.renderings[self.folder]
        try:
            made = rendered_folder(self.side.sources, Target(self.folder, TargetKind.JOB), rendering)
            if made.made is None:
                return made.findings[0].message
            unit, origin = made.made
            with suppress(InputError):  # a broken platform is told of itself
                unit, _ = self.side.platforms.under(unit, origin)
            return unit
        except InputError as error:
            return str(error)


def forecast_numbers(found: Forecast) -> dict[str, str]:
    """A forecast in a few lines."""
    good, speed = found.goodput, found.speed
    return {
        "memory of a GPU": f"{speed.memory / GIB:.1f} GiB{'' if speed.fits else ', DOES NOT FIT'}",
        "step": duration(speed.step.total),
        "tokens/s": f"{speed.tokens_per_second:,.0f}",
        "to the last step": duration(found.seconds + good.lost),
        "GPU-hours": f"{found.gpu_hours:,.0f}",
        "checkpoint every": duration(good.interval),
    }


def _runs_trainer(unit: Unit) -> bool:
    """Whether the trainer reads the numbers of job.yaml. A program of one's own has its own, and they are not known."""
    sets = (pod_set for workload in workloads(unit) for pod_set in workload.pod_sets)
    return any(runs_trainer(container) for pod_set in sets for container in pod_set.containers)


def _gpus(unit: Unit) -> int:
    total = 0
    for workload in workloads(unit):
        for pods in workload.pod_sets:
            count = pods.count.value
            total += (count if isinstance(count, int) else 0) * sum(container.gpus for container in pods.containers)
    return total


def _data(unit: Unit, kind: str) -> Mapping[str, Any]:
    fact = unit.fact(kind)
    return fact.data if fact is not None else {}


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
