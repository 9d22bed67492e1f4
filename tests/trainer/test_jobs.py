"""What the manifests hand to the trainer, it takes: every job below jobs/, read as its ranks would read it."""

from pathlib import Path

import pytest

from tests.controlplane.harness import unit_of, workload_of
from trainer import sources
from trainer.presets import preset
from trainyard.objects.unit import Unit
from trainyard.workload.model import Workload

pytestmark = pytest.mark.torch

HOME = Path(__file__).parents[2]
JOBS = sorted(str(file.parent.relative_to(HOME)) for file in HOME.glob("jobs/*/*/job.yaml"))


def settings(workload: Workload) -> dict[str, str]:
    """The trainer's variables in the container that trains."""
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is not None and "TRAINER_RUN" in main.env:
            values = {name: variable.value for name, variable in main.env.items() if name.startswith("TRAINER_")}
            assert None not in values.values(), values
            return {name: value for name, value in values.items() if value is not None}
    raise AssertionError("no container has the trainer's settings")


def declared(unit: Unit) -> dict[str, object]:
    job = unit.fact("TrainingJob")
    assert job is not None
    spec: dict[str, object] = job.data["spec"]
    return spec


@pytest.mark.parametrize("job", JOBS)
def test_the_trainer_reads_what_job_yaml_says(job: str) -> None:
    unit = unit_of(job)
    config = sources.read([], settings(workload_of(unit)))

    said = declared(unit)
    batch = said["batch"]
    assert isinstance(batch, dict)
    assert preset(config.model)
    assert (config.run, config.model, config.parallelism) == (Path(job).name, said["model"], said["parallelism"])
    assert (config.micro_batch, config.accumulation, config.global_batch) == tuple(batch.values())
    assert (config.learning_rate, config.steps) == (said["learningRate"], said["steps"])
    assert config.checkpoint.dir == "/checkpoints"
    assert config.deepspeed.config == (
        "/deepspeed/" + str(said["deepspeed"]) + ".json" if config.deepspeed.config else ""
    )
