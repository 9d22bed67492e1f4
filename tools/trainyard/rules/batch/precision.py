"""Number formats, held against the GPU and against each other."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.once import once
from trainyard.rules.common.programs import Program, programs
from trainyard.rules.deepspeed.configs import readable
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload
from trainyard.workload.plain import entries, mapping, sequence

_WITHOUT_BF16 = re.compile(
    r"(?<![a-z0-9])(?:v100s?|t4|p100|p40|p4|k80|m60|titan[-_ ]?v|quadro[-_ ]rtx[-_ ]?\d+|rtx[-_ ]?20\d0)(?![0-9])"
    r"|^p[23](?:dn)?\.|^g4dn\.|^standard_nc\d+r?s_v[23]$|^standard_nd40rs_v2$|^standard_nc\d+as_t4_v3$",
    re.IGNORECASE,
)
"""GPUs before Ampere, by the names of products, and machines of clouds that have them."""
_NODE_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "accelerator",
    "gpu",
    "gpu-type",
)
_MIXED = ("bf16", "bfloat16", "bf16-mixed", "bf16-true")


@rule("BAT012", "bf16-without-hardware", Severity.WARNING, needs=Workload)
@once
def bf16_without_hardware(workload: Workload) -> Iterator[Problem]:
    """The run computes in bf16 on GPUs that cannot.

    Volta, Turing and older GPUs have no bf16 arithmetic. DeepSpeed and the Hugging Face Trainer refuse it there with
    older releases of PyTorch; newer ones emulate it, several times slower than fp16. Which GPU it is, is read from the
    cluster's facts, or from the node labels that the pods select.

    Bad:
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: Tesla-V100-SXM2-32GB}, containers: [
          {name: trainer, args: [train.py, --bf16]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}, containers: [
          {name: trainer, args: [train.py, --bf16]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.product: Tesla-V100-SXM2-32GB}, containers: [
          {name: trainer, args: [train.py, --fp16]}]}}}

    Source: https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
    """
    for program in programs(workload):
        gpu, where = _gpu(workload, program)
        if where is None:
            continue
        for spot in _asked(workload, program):
            yield Problem(
                f"bf16 is asked for, but {gpu} has no bf16 arithmetic",
                spot,
                related=(where.saying("the GPU"),),
                help="use fp16 there, or run on Ampere or newer",
            )


@rule("BAT013", "two-precisions", Severity.ERROR, needs=Workload)
@once
def two_precisions(workload: Workload) -> Iterator[Problem]:
    """The program is told to compute in fp16 and in bf16.

    The Hugging Face Trainer, Megatron and most scripts stop at it.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --fp16, --bf16]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [pretrain_gpt.py, --bf16]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, args: [run_clm.py, --fp16=False, --bf16]}]}}}

    Source: https://huggingface.co/docs/transformers/main_classes/trainer
    """
    for program in programs(workload):
        fp16, bf16 = program.flag("fp16"), program.flag("bf16")
        if fp16 is not None and bf16 is not None:
            yield Problem(
                "the program is given both --fp16 and --bf16", bf16.spot, related=(fp16.spot,), help="keep one of them"
            )


def _gpu(workload: Workload, program: Program) -> tuple[str, Spot | None]:
    """A GPU without bf16 that the pods land on, and the field that says so."""
    cluster = workload.cluster
    model = mapping(mapping(cluster.data.get("spec")).get("node")).get("gpu") if cluster is not None else None
    if cluster is not None and isinstance(model, str):
        return (model, cluster.at("spec", "node", "gpu")) if _WITHOUT_BF16.search(model) else ("", None)
    spec = program.pod_set.template.below("spec")
    selector = mapping(program.pod_set.spec.get("nodeSelector"))
    for label in _NODE_LABELS:
        if isinstance(selector.get(label), str) and _WITHOUT_BF16.search(selector[label]):
            return selector[label], spec.below("nodeSelector", label)
    node = mapping(mapping(program.pod_set.spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for _, term in entries(required.get("nodeSelectorTerms")):
        for _, expression in entries(term.get("matchExpressions")):
            values = sequence(expression.get("values"))
            wanted = expression.get("key") in _NODE_LABELS and expression.get("operator") == "In" and values
            if wanted and all(isinstance(value, str) and _WITHOUT_BF16.search(value) for value in values):
                return values[0], spec.below("affinity")
    return "", None


def _asked(workload: Workload, program: Program) -> Iterator[Spot]:
    """Where bf16 is asked for."""
    for config in readable(workload):
        if config.container is program.container and config.value("bf16.enabled") is True:
            yield config.at("bf16.enabled")
            return
    launch = program.container.launch
    mixed = launch.option("mixed_precision") if launch is not None and launch.launcher == "accelerate" else None
    found: list[Setting | None] = [mixed, program.setting("precision")]
    found += [program.given(*program.trainer.mixed)] if program.trainer.mixed else []
    for setting in found:
        if setting is not None and str(setting.value).lower() in _MIXED:
            yield setting.spot
            return
    flag = program.flag("bf16")
    if flag is not None:
        yield flag.spot
