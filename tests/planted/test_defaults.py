"""What a job leaves to the defaults of the base, and contradicts: the finding stands in its own file."""

import pytest

from tests.planted.checkout import GPT2, Checkout, Found

pytestmark = pytest.mark.commands

JOB = f"{GPT2}/job.yaml"
OBJECT = "TrainingJob/research/gpt2-124m"
BATCH = "  batch:\n    micro: 15\n    accumulation: 1\n    global: 480\n"
OWN_PROGRAM = "  command: [torchrun, /code/train.py]\n"


def test_a_batch_is_told_at_the_number_that_the_job_says(checkout: Checkout) -> None:
    checkout.replace(JOB, BATCH, "")
    [found] = checkout.expect(Found("BAT001", JOB, "nodes: ▸4", OBJECT, "spec.nodes"))
    assert found["message"] == "micro 1 x accumulation 1 x ranks 32 = 32, but global is 8"


def test_a_batch_of_which_the_job_says_a_part(checkout: Checkout) -> None:
    checkout.replace(JOB, BATCH, "  batch:\n    micro: 15\n")
    checkout.expect(Found("BAT001", JOB, "micro: ▸15", OBJECT, "spec.batch.micro"))


def test_a_default_that_contradicts_another_is_told_where_it_stands(checkout: Checkout) -> None:
    schedule = "  warmupSteps: 2000\n  steps: 600000\n"
    checkout.replace(JOB, schedule, "")
    checkout.replace("base/run/training-job.yaml", "warmupSteps: 100", "warmupSteps: 1000")
    _, document = checkout.lint(GPT2)
    [place] = [(each["file"], each["path"]) for each in document["findings"] if each["rule"] == "BAT005"]
    assert place == ("base/run/training-job.yaml", "spec.warmupSteps")


@pytest.mark.parametrize("batch", ["", BATCH.replace("480", "481")])
def test_a_program_that_reads_no_batch_needs_none(checkout: Checkout, batch: str) -> None:
    """Where the job sets one all the same, its author means it."""
    checkout.replace(JOB, BATCH, batch + OWN_PROGRAM)
    rules = {each["rule"] for each in checkout.lint(GPT2)[1]["findings"]}
    assert ("BAT001" in rules) == bool(batch)


def test_a_checkpoint_that_never_comes_is_told_at_the_steps_of_the_job(checkout: Checkout) -> None:
    checkout.replace(JOB, "    everySteps: 2000\n", "")
    checkout.replace(JOB, "  warmupSteps: 2000\n  steps: 600000\n", "  steps: 300\n")
    checkout.expect(Found("CKP002", JOB, "steps: ▸300", OBJECT, "spec.steps"))
