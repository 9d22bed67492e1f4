"""How the training operator, and exit codes, decide on another try: RST003 and up."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import remove
from trainyard.rules.common.jobspecs import job_specs
from trainyard.rules.common.once import once
from trainyard.rules.common.operator_kinds import of_training_operator, replicas
from trainyard.rules.common.parts import integer, items, word
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, sequence, text

_OF_TORCHRUN = 1
_BY_SIGNAL = 128
_RUNNERS = ("torchrun", "accelerate")


@rule("RST003", "retries-not-counted", Severity.WARNING, needs=Object)
def retries_not_counted(item: Object) -> Iterator[Problem]:
    """backoffLimit does not bound the retries of restartPolicy ExitCode.

    The limit counts restarts of containers. With ExitCode the operator deletes a pod that ended with 128 or more and
    makes a new one, whose count is zero: a pod that is killed for memory comes back for ever, and keeps its GPUs.

    Bad:
        # on: pytorchjob
        spec: {runPolicy: {backoffLimit: 5}, pytorchReplicaSpecs: {Worker: {restartPolicy: ExitCode}}}
    Good:
        # on: pytorchjob
        spec: {runPolicy: {backoffLimit: 5}, pytorchReplicaSpecs: {Worker: {restartPolicy: OnFailure}}}
    Near miss:
        # on: pytorchjob
        spec:
          runPolicy: {backoffLimit: 5, activeDeadlineSeconds: 86400}
          pytorchReplicaSpecs: {Worker: {restartPolicy: ExitCode}}

    Source: https://github.com/kubeflow/trainer/issues/2045
    """
    limit = item.at("spec", "runPolicy", "backoffLimit")
    by_code = [each for each in replicas(item) if word(each.spot.below("restartPolicy")) == "ExitCode"]
    bounded = integer(item.at("spec", "runPolicy", "activeDeadlineSeconds")) is not None
    if of_training_operator(item) and by_code and integer(limit) is not None and not bounded:
        first, *others = (each.spot.below("restartPolicy") for each in by_code)
        yield Problem(
            f"backoffLimit {integer(limit)} does not bound the retries of ExitCode: pods are created again without end",
            first.saying("a new pod for each try"),
            (limit.saying("counts restarts within a pod"), *others),
            "use OnFailure, or bound the whole job by activeDeadlineSeconds",
        )


@rule("RST004", "exit-code-hidden", Severity.WARNING, needs=Workload)
@once
def exit_code_hidden(workload: Workload) -> Iterator[Problem]:
    """A rule waits for the exit code of a rank, but torchrun ends with 1 whatever its ranks end with.

    torchrun and accelerate report which rank failed and exit with 1. ExitCode takes 1 for a permanent failure, and a
    podFailurePolicy that lists other codes of a program never matches. Codes above 128 come only if the pod is killed.

    Bad:
        kind: Job
        spec:
          podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}
    Good:
        kind: Job
        spec:
          podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1]}}]}
    Near miss:
        kind: Job
        spec:
          template: {spec: {containers: [{name: trainer, command: [python], args: [train.py]}]}}
          podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}

    Source: https://docs.pytorch.org/docs/stable/elastic/errors.html
    """
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is None or main.launch is None or main.launch.launcher not in _RUNNERS:
            continue
        launcher = main.launch
        for spot, said in _waits_for_codes(workload.object, pod_set.template, main.name):
            yield Problem(
                f"{said}, but {launcher.launcher} ends with 1 whatever its ranks end with",
                spot,
                (launcher.spot.saying("hides the code of a rank"),),
                "decide on code 1, or restart ranks by max_restarts",
            )


@rule("RST005", "retries-never-made", Severity.WARNING, needs=Object, fix="unsafe")
def retries_never_made(item: Object) -> Iterator[Problem]:
    """backoffLimit asks for retries, but restartPolicy Never makes none.

    The training operator fails a job with the first pod that fails where its replicas say Never. The limit is not even
    looked at.

    Bad:
        # on: pytorchjob
        spec:
          runPolicy: {backoffLimit: 5}
          pytorchReplicaSpecs: {Master: {restartPolicy: Never}, Worker: {restartPolicy: Never}}
    Good:
        # on: pytorchjob
        spec:
          runPolicy: {backoffLimit: 5}
          pytorchReplicaSpecs: {Master: {restartPolicy: OnFailure}, Worker: {restartPolicy: OnFailure}}
    Near miss:
        # on: pytorchjob
        spec:
          runPolicy: {backoffLimit: 0}
          pytorchReplicaSpecs: {Master: {restartPolicy: Never}, Worker: {restartPolicy: Never}}

    Source: https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/job.go
    """
    limit = item.at("spec", "runPolicy", "backoffLimit")
    written = [each.spot.below("restartPolicy") for each in replicas(item)]
    if not of_training_operator(item) or item.kind == "MPIJob" or not written or (integer(limit) or 0) < 1:
        return
    if all(word(spot) == "Never" for spot in written):
        yield Problem(
            f"backoffLimit {integer(limit)} asks for retries, but the first pod that fails ends the job",
            limit.saying("not looked at"),
            tuple(spot.saying("never restarts") for spot in written),
            "use OnFailure, or leave backoffLimit out",
            remove(limit).saying("leave backoffLimit out, which is not looked at").unsafe(),
        )


def _waits_for_codes(item: Object, template: Spot, container: str) -> Iterator[tuple[Spot, str]]:
    """The places that decide by an exit code of a container, where 1 is none of those that count."""
    for replica in replicas(item):
        policy = replica.spot.below("restartPolicy")
        if replica.spot.path == template.path[:-1] and word(policy) == "ExitCode":
            yield policy, "ExitCode tries again from code 128 on"
    for job in job_specs(item):
        if job.spot.path != template.path[:-1]:
            continue
        for spot, data in items(job.spot.below("podFailurePolicy", "rules")):
            codes = mapping(data.get("onExitCodes"))
            if _never_seen(codes) and text(codes.get("containerName")) in ("", container):
                listed = ", ".join(map(str, sequence(codes.get("values"))))
                yield spot.below("onExitCodes", "values"), f"the policy waits for code {listed}"


def _never_seen(codes: Mapping[Any, Any]) -> bool:
    """Whether none of the codes that a rule lists is one that torchrun ends with, or a killed pod."""
    values = [code for code in sequence(codes.get("values")) if isinstance(code, int)]
    return codes.get("operator") == "In" and bool(values) and all(_OF_TORCHRUN < code < _BY_SIGNAL for code in values)
