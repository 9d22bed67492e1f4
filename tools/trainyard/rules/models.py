"""What the repository's own trainer would refuse of the model that a job names: MOD001 and up."""

import difflib
import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.plan.shapes import shapes
from trainyard.rules.common.training_jobs import module_of, own_first, runs_the_trainer, spec_of
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload


@rule("MOD001", "unknown-model", Severity.ERROR, needs=Workload)
def unknown_model(workload: Workload) -> Iterator[Problem]:
    """The trainer has no preset of the model that the job names.

    Every rank ends at its start, with the names there are, after the nodes were waited for. Nothing is said where the
    job runs another program.

    Bad:
        kind: TrainingJob
        spec: {model: llama-4-8b}
    Good:
        kind: TrainingJob
        spec: {model: llama-3.1-8b}
    Near miss:
        kind: TrainingJob
        spec: {model: llama-4-8b, command: [torchrun, -m, my_trainer]}

    Source: trainer/presets.py
    """

    model = spec_of(workload).get("model")
    if workload.training_job is None or not isinstance(model, str) or model in shapes():
        return
    if not runs_the_trainer(workload.training_job):
        return
    near = difflib.get_close_matches(model, shapes(), 1)
    known = f"did you mean {near[0]}?" if near else f"there are {', '.join(shapes())}"
    spot = workload.training_job.at("spec", "model", label="no such preset")
    yield Problem(f"model {model} is not one that the trainer knows", spot, help=known)


@rule("MOD011", "sample-longer-than-context", Severity.ERROR, needs=Workload)
def sample_longer_than_context(workload: Workload) -> Iterator[Problem]:
    """A sample has more tokens than the model was made for.

    The trainer ends at its start: learned positions have no row for the tokens beyond the context, and rotary ones
    were never trained there. What is compared is what the ranks read, `TRAINER_MODEL` and `TRAINER_SEQUENCE_LENGTH`
    where they are set, else the job's `model` and `sequenceLength`. Nothing is said where the job runs another program,
    or its command gives one of the two itself.

    Bad:
        kind: TrainingJob
        spec: {model: gpt2-124m, sequenceLength: 2048}
    Good:
        kind: TrainingJob
        spec: {model: gpt2-124m, sequenceLength: 1024}
    Near miss:
        kind: TrainingJob
        spec: {model: gpt3-1.3b, sequenceLength: 2048}

    Source: trainer/presets.py
    """
    job = workload.training_job
    if job is None or not runs_the_trainer(job):
        return
    command = spec_of(workload).get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if any(word.startswith(("model=", "sequence_length=")) for word in words):
        return
    model, length = _told(workload, "model"), _told(workload, "sequenceLength")
    shape = shapes().get(str(model.value))
    tokens = int(length.value) if re.fullmatch(r"[0-9]{1,9}", str(length.value)) else 0
    if shape is None or not 0 < shape.context < tokens:
        return
    spots = (
        length.spot.saying(f"more than {shape.context}"),
        model.spot.saying(f"takes {shape.context} tokens"),
    )
    spot, others = own_first(spots, workload.own)
    longer = [each.name for each in shapes().values() if each.context >= tokens]
    help = f"set sequenceLength to {shape.context} or less"
    yield Problem(
        f"sequenceLength is {tokens}, but {shape.name} takes samples of at most {shape.context} tokens",
        spot,
        others,
        f"{help}, or take a model that has such a context: {', '.join(longer)}" if longer else help,
    )


@rule("MOD010", "sharded-under-tensorflow", Severity.ERROR, needs=Workload)
def sharded_under_tensorflow(workload: Workload) -> Iterator[Problem]:
    """A job asks to be sharded, and its program is the trainer for TensorFlow, which only copies the model.

    Each GPU then holds the whole model and optimizer, whatever `parallelism` says, and runs out of memory where the
    model was meant to be sharded. A ZeRO policy (`base/zero`) is mounted and nobody reads it.

    Bad:
        kind: TrainingJob
        spec: {parallelism: deepspeed, command: [python, -m, trainer.tensorflow]}
    Good:
        kind: TrainingJob
        spec: {parallelism: ddp, command: [python, -m, trainer.tensorflow]}
    Near miss:
        kind: TrainingJob
        spec: {parallelism: deepspeed, command: [torchrun, -m, trainer]}

    Source: trainer/tensorflow.py
    """
    spec = spec_of(workload)
    way = spec.get("parallelism")
    if (
        workload.training_job is not None
        and module_of(workload.training_job) == "trainer.tensorflow"
        and isinstance(way, str)
        and way != "ddp"
    ):
        yield Problem(
            f"parallelism is {way}, but trainer.tensorflow keeps a copy of the model on each GPU",
            workload.training_job.at("spec", "parallelism", label="not read under TensorFlow"),
            help="leave parallelism out, or take a base that runs the PyTorch trainer, such as ../../../base/torchrun",
        )


def _told(workload: Workload, field: str) -> Setting:
    """What the ranks are told of a field: the trainer's variable where a container has it, else the field itself."""
    assert workload.training_job is not None
    name = "TRAINER_" + re.sub(r"([A-Z])", r"_\1", field).upper()
    said = Setting(spec_of(workload).get(field), workload.training_job.at("spec", field))
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            variable = container.env.get(name)
            if variable is not None and variable.value != str(said.value):
                return Setting(variable.value, variable.spot)
    return said
