"""The two files of a job folder, and how they come to be there: whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trainyard.author.answers import Answers, Refused, check_new
from trainyard.author.propose import Proposal
from trainyard.errors import UsageError

_KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: {team} # the team, which is the folder
resources:
- ../../../base/{launcher} # how it is launched
- ../../../clusters/{cluster}/facts # where it runs, and so on what fabric
{components}{generators}patches:
- path: job.yaml
  target:
    kind: TrainingJob
  options:
    allowNameChange: true
{patches}transformers:
- ../../../base/wiring
"""


def kustomization(answers: Answers, generators: str = "", patches: str = "") -> str:
    """kustomization.yaml. `generators` and `patches` are whole lines that a job adds."""
    components = f"components:\n- ../../../base/queue/{answers.queue}\n" if answers.queue else ""
    return _KUSTOMIZATION.format(
        team=answers.team,
        launcher=answers.launcher,
        cluster=answers.cluster,
        components=components,
        generators=generators,
        patches=patches,
    )


def job(answers: Answers, proposal: Proposal, gpus_per_node: int) -> str:
    """job.yaml: what differs from the defaults, and why where it was proposed."""
    recipe = proposal.recipe
    shared = f" # {proposal.why_shared}" if proposal.why_shared else ""
    lines = [*_head(answers.name), f"  model: {answers.model}"]
    if proposal.parallelism == "fsdp":
        lines.append(f"  parallelism: fsdp{shared}")
    if proposal.deepspeed:
        lines.append(f"  deepspeed: {proposal.deepspeed}{shared}")
    if proposal.sequence is not None:
        lines.append(f"  sequenceLength: {proposal.sequence}")
    lines += [
        f"  nodes: {answers.nodes}",
        f"  gpusPerNode: {gpus_per_node}",
        "  batch:",
        f"    micro: {proposal.micro}",
        f"    accumulation: {proposal.accumulation}",
        f"    global: {proposal.batch}",
    ]
    rate = number(proposal.learning_rate)
    if proposal.scaled:
        lines += [
            f"  learningRate: {rate}",
            f"  learningRateScaling: # from {recipe.name}: {recipe.source}",
            "    rule: sqrt",
            f"    baseLearningRate: {number(recipe.learning_rate)}",
            f"    baseBatch: {recipe.batch}",
        ]
    elif proposal.learning_rate == recipe.learning_rate:
        lines.append(f"  learningRate: {rate} # {recipe.name}: {recipe.source}")
    else:
        lines.append(f"  learningRate: {rate}")
    lines += [
        f"  warmupSteps: {proposal.warmup_steps}",
        f"  steps: {proposal.steps}",
        "  dataset:",
        f"    claim: {answers.claim}",
        f"    path: {answers.path}",
        "  checkpoint:",
        f"    size: {proposal.room}",
        f"    everySteps: {proposal.every_steps}",
        "    keep: 3",
    ]
    if proposal.checkpointing != "none":
        lines += ["  env:", f"    TRAINER_ACTIVATION_CHECKPOINTING: {proposal.checkpointing} # {proposal.why_again}"]
    return "\n".join(lines) + "\n"


def _head(name: str) -> list[str]:
    return [
        "# yaml-language-server: $schema=../../../schemas/trainyard.dev/trainingjob_v1alpha1.json",
        "apiVersion: trainyard.dev/v1alpha1",
        "kind: TrainingJob",
        "metadata:",
        f"  name: {name}",
        "spec:",
    ]


def number(value: float) -> str:
    """A small number as people write learning rates: 6e-4."""
    digits, _, exponent = f"{value:e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"


def place(root: Path, folder: str, files: Mapping[str, str]) -> None:
    """Make a job folder of files. Refused where it is there; nothing half-written is left behind."""
    check_new(root, folder)
    target = root / folder
    made: list[Path] = []
    try:
        for parent in reversed([target.parent, *target.parent.parents]):
            if parent.is_relative_to(root) and not parent.exists():
                parent.mkdir()
                made.append(parent)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        _unmake(made)
        raise UsageError(f"cannot write {folder}: {(error.strerror or type(error).__name__).lower()}") from None
    try:
        temporary.chmod(0o755)
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8")
        if os.path.lexists(target):
            raise Refused(f"{folder} is there already")
        os.rename(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        _unmake(made)
        if isinstance(error, OSError):
            raise UsageError(f"cannot write {folder}: {(error.strerror or type(error).__name__).lower()}") from None
        raise


def _unmake(folders: list[Path]) -> None:
    for folder in reversed(folders):
        folder.rmdir()
