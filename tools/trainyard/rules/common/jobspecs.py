"""The specs of batch Jobs and JobSets, wherever an object holds them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import integer, items, part, word

_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The spec of a batch Job."""

    spot: Spot
    in_jobset: bool
    """True where JobSet fills in what is not said: completionMode Indexed, restartPolicy OnFailure."""
    in_runtime: bool = False
    """True where Trainer writes the counts of pods once a TrainJob comes."""

    @property
    def data(self) -> Mapping[Any, Any]:
        """The fields."""
        return part(self.spot)

    @property
    def pod(self) -> Spot:
        """The spec of its pods."""
        return self.spot.below("template", "spec")

    @property
    def indexed(self) -> bool:
        """Whether its pods have indices."""
        return (word(self.spot.below("completionMode")) or ("Indexed" if self.in_jobset else "")) == "Indexed"

    @property
    def restart_policy(self) -> str:
        """That of its pods; empty where nobody says it."""
        return word(self.pod.below("restartPolicy")) or ("OnFailure" if self.in_jobset else "")

    @property
    def pods(self) -> int:
        """Pods that run at once, one where nobody says it."""
        found = integer(self.spot.below("parallelism"))
        return 1 if found is None else found


def jobset_spec(item: Object) -> Spot | None:
    """The spec of a JobSet: of a JobSet itself, or that which a runtime of TrainJobs holds."""
    if (item.group, item.kind) == ("jobset.x-k8s.io", "JobSet"):
        return item.at("spec")
    if item.group == "trainer.kubeflow.org" and item.kind in _RUNTIMES:
        return item.at("spec", "template", "spec")
    return None


def job_specs(item: Object) -> Iterator[JobSpec]:
    """The specs of the Jobs that an object is, or makes."""
    if (item.group, item.kind) == ("batch", "Job"):
        yield JobSpec(item.at("spec"), in_jobset=False)
    if (item.group, item.kind) == ("batch", "CronJob"):
        yield JobSpec(item.at("spec", "jobTemplate", "spec"), in_jobset=False)
    jobset = jobset_spec(item)
    if jobset is not None:
        for spot, _ in items(jobset.below("replicatedJobs")):
            yield JobSpec(spot.below("template", "spec"), in_jobset=True, in_runtime=item.kind in _RUNTIMES)
