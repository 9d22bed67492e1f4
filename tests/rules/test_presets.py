"""What is said of a job's model is what the trainer itself says of it."""

import pytest

from tests.rules.judging import judge_good_job_with
from trainer.errors import ConfigError
from trainer.presets import PRESETS, Decoder, check_length

JOB = "kind: TrainingJob\nspec: {{model: {model}, sequenceLength: {length}{more}}}\n"
CONFIG = "---\nkind: ConfigMap\nmetadata: {{name: llama-sft-trainer}}\ndata: {{{variables}}}\n"


@pytest.mark.parametrize("model", PRESETS)
def test_a_sample_may_be_as_long_as_the_trainer_lets_it(model: str) -> None:
    shape = PRESETS[model]
    longest = shape.context if isinstance(shape, Decoder) else 1024
    for length in (longest, longest + 1):
        try:
            check_length(model, shape, length)
            refused = False
        except ConfigError:
            refused = True

        assert bool(judge_good_job_with("MOD011", JOB.format(model=model, length=length, more=""))) == refused, length


def test_what_the_ranks_are_told_counts() -> None:
    said = "error: sequenceLength is 2048, but gpt2-124m takes samples of at most 1024 tokens @ "
    config = CONFIG.format(variables="TRAINER_SEQUENCE_LENGTH: '2048'")
    short, long = (JOB.format(model="gpt2-124m", length=length, more="") for length in (512, 2048))

    assert judge_good_job_with("MOD011", short + config) == [
        f"{said}ConfigMap/llama-sft-trainer data.TRAINER_SEQUENCE_LENGTH"
    ]
    assert judge_good_job_with("MOD011", long) == [f"{said}TrainingJob/llama-sft spec.sequenceLength"]
    assert judge_good_job_with("MOD011", long + CONFIG.format(variables="TRAINER_SEQUENCE_LENGTH: '512'")) == []
    assert judge_good_job_with("MOD011", long + CONFIG.format(variables="TRAINER_MODEL: gpt3-1.3b")) == []


@pytest.mark.parametrize(
    "command", ["[torchrun, -m, my_trainer]", "[torchrun, -m, trainer, sequence_length=512]", "[train.sh]", "echo"]
)
def test_nothing_is_said_of_what_is_not_known(command: str) -> None:
    job = JOB.format(model="gpt2-124m", length=2048, more=f", command: {command}")

    assert judge_good_job_with("MOD011", job) == []
