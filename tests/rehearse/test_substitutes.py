"""What is put in place of a job's own settings fits together."""

import json

import pytest

from tests.rehearse.rehearsing import HOME
from tests.workload.manifests import unit
from trainyard.rehearse.fullsize import arguments_of
from trainyard.rehearse.substitutes import DEFAULTS, Substitutes
from trainyard.workload.of_unit import workloads


@pytest.mark.parametrize(
    ("steps", "written", "warmup"), [(6, "2000", "2"), (2, "2000", "1"), (1, "2000", "0"), (6, "0", "0")]
)
def test_warm_up_leaves_steps_to_train(steps: int, written: str, warmup: str) -> None:
    assert Substitutes(steps, 2, trains=True).variable("TRAINER_WARMUP_STEPS", written) == warmup


WRITTEN = {
    "TRAINER_MICRO_BATCH": "15",
    "TRAINER_ACCUMULATION": "1",
    "TRAINER_GLOBAL_BATCH": "480",
    "TRAINER_PRECISION": "bf16",
}


@pytest.mark.claim("policies-are-scaled")
@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"train_batch_size": 480, "bf16": {"enabled": True}}, "auto for train_batch_size, bf16.enabled"),
        ({"train_micro_batch_size_per_gpu": 15, "fp16": {"enabled": False, "loss_scale": 0}},
         "auto for train_micro_batch_size_per_gpu, fp16.enabled"),
        ({"gradient_accumulation_steps": 1}, "auto for gradient_accumulation_steps"),
        ({"train_batch_size": 450, "bf16": {"enabled": False}, "fp16": {"enabled": True}}, ""),
        ({"train_batch_size": "auto", "zero_optimization": {"stage": 2}}, ""),
    ],
)  # fmt: skip
def test_a_policy_that_says_the_jobs_own_numbers_is_scaled_with_them(policy: dict[str, object], told: str) -> None:
    """One that says others stays as it is, so that the trainer refuses it here as it does on a cluster."""
    substitutes = Substitutes(6, 2, trains=True, written=WRITTEN)

    found = json.loads(substitutes.file("zero.json", json.dumps(policy)))

    assert substitutes.told.get("DeepSpeed policy", "") == told
    assert found.keys() == policy.keys()
    assert (found == policy) == (not told)
    assert "480" not in json.dumps(found)


@pytest.mark.parametrize("content", ["[1]", "{", "train_batch_size", "[" * 100_000, '{"bf16": 3}', '{"bf16": {}}'])
def test_what_is_no_policy_stays(content: str) -> None:
    assert Substitutes(6, 2, trains=True, written=WRITTEN).file("any.json", content) == content


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: own, namespace: research}
spec:
  template:
    spec:
      containers:
      - name: trainer
        image: trainer
        command: [COMMAND]
"""


def of_command(command: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a rehearsal makes of a command line, and the trainer's variables that it adds."""
    (job,) = workloads(unit(JOB.replace("COMMAND", command)))
    container = job.pod_sets[0].containers[0]
    substitutes = Substitutes(6, 2)
    substitutes.learn(job, {})
    variables = substitutes.variables({}, container)
    words = substitutes.words(container.data["command"], container)
    return words, {name.removeprefix("TRAINER_"): value for name, value in variables.items() if "TRAINER_" in name}


def test_keys_that_nobody_wrote_are_replaced_too() -> None:
    """The trainer's own defaults do not fit the small model."""
    words, variables = of_command("python, -m, trainer, run=own")

    assert words[-1] == "run=own"
    assert variables == {
        "METRICS_EVERY_STEPS": "1",
        "MODEL": "gpt-tiny",
        "SEQUENCE_LENGTH": "64",
        "STEPS": "6",
        "WARMUP_STEPS": "2",
        "PRECISION": "fp32",
    }
    defaults = json.loads((HOME / "schemas" / "trainer.schema.json").read_text())["properties"]
    assert {name: str(defaults[name.lower()]["default"]) for name in DEFAULTS} == DEFAULTS


def test_keys_of_the_command_line_are_replaced_as_variables_are() -> None:
    command = "torchrun, --nproc-per-node=1, -m, trainer, model=llama-3.1-8b, --sequence_length=8192, dataset=/a=b"

    assert of_command(command)[0][-3:] == ("model=llama-tiny", "--sequence_length=64", "dataset=/a=b")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("torchrun, -m, trainer, model=llama-tiny, --steps=5, run.yaml", ["model=llama-tiny", "--steps=5", "run.yaml"]),
        ("python, -m, trainer.ray, --workers, 2, steps=5", ["steps=5"]),
        ('bash, -c, "ray job submit -- python -m trainer.ray; exit $?; while :; do sleep 5; x=1; done"', []),
    ],
)
def test_the_check_at_full_size_has_the_trainers_own_words(command: str, arguments: list[str]) -> None:
    """A RayJob's submitter goes on in its script after the trainer: none of that is a config file."""
    (job,) = workloads(unit(JOB.replace("COMMAND", command)))

    assert arguments_of(job.pod_sets[0].containers[0]) == arguments


def test_what_is_not_a_word_of_the_trainer_stays() -> None:
    assert of_command("python, -m, trainer, run.yaml")[1] == {"METRICS_EVERY_STEPS": "1"}
    script = "sh, -c, steps=1000; exec python -m trainer steps=$steps"
    assert of_command(script)[0] == ("sh", "-c", "steps=1000; exec python -m trainer steps=$steps")
    assert of_command("python, train.py, model=llama-3.1-8b") == (("python", "train.py", "model=llama-3.1-8b"), {})
