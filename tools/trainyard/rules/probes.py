"""Probes and deadlines that end pods which still train."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import put, remove
from trainyard.rules.common.counts import whole
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Setting, Workload
from trainyard.workload.plain import mapping, sequence, text
from trainyard.workload.templates import SERVING

_LEAST_PATIENCE = 300
_SLEEP = re.compile(r"\bsleep\s+([0-9]+)\b")
_DEFAULT_GRACE = 30


@rule("PRB001", "liveness-probe-on-training", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def liveness_probe_on_training(workload: Workload) -> Iterator[Problem]:
    """A liveness probe may kill a rank that is busy.

    A rank that loads a checkpoint, compiles or waits for a collective does not answer for minutes. A probe that gives
    it less than five kills the container, which ends the job on every other node as well. The watchdogs of NCCL and
    torchrun see a rank that hangs; a probe adds nothing.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer,
          livenessProbe: {tcpSocket: {port: 29400}, periodSeconds: 10, failureThreshold: 3}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer,
          livenessProbe: {exec: {command: [check-progress]}, periodSeconds: 60, failureThreshold: 30}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer,
          startupProbe: {exec: {command: [test, -f, /tmp/ready]}, periodSeconds: 10, failureThreshold: 3}}]}}}

    Source: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        if container is None or container.by_controller or not container.gpus or workload.object.group == "ray.io":
            continue
        if workload.object.kind in SERVING:
            continue
        probe = mapping(container.data.get("livenessProbe"))
        period, failures = whole(probe.get("periodSeconds")) or 10, whole(probe.get("failureThreshold")) or 3
        if probe and period * failures < _LEAST_PATIENCE:
            yield Problem(
                f"a rank that does not answer for {period} s x {failures} = {period * failures} s is killed",
                container.spot.below("livenessProbe", label="ends the job on every node"),
                help="leave the probe out, or give it the time that the slowest step takes",
                fix=remove(container.spot.below("livenessProbe")).unsafe(),
            )


@rule("PRB002", "grace-shorter-than-its-hook", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def grace_shorter_than_its_hook(workload: Workload) -> Iterator[Problem]:
    """A pod is killed before it can end as it was meant to.

    The time of a preStop hook is part of `terminationGracePeriodSeconds`, 30 s by default. Where the hook alone takes
    as long, the program gets no SIGTERM in time and writes no last checkpoint. A grace of 0 kills at once.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer,
          lifecycle: {preStop: {exec: {command: [sh, -c, sleep 120]}}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 300, containers: [{name: trainer,
          lifecycle: {preStop: {exec: {command: [sh, -c, sleep 120]}}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer,
          lifecycle: {preStop: {exec: {command: [sh, -c, sleep 5]}}}}]}}}

    Source: https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
    """
    for pod_set in workload.pod_sets:
        written = whole(pod_set.spec.get("terminationGracePeriodSeconds"))
        grace = _DEFAULT_GRACE if written is None else written
        field = pod_set.template.below("spec", "terminationGracePeriodSeconds")
        if written == 0 and any(container.gpus for container in pod_set.containers):
            yield Problem(
                "the pods are killed without a warning, and write no last checkpoint",
                field.saying("no time to end"),
                help="give them as long as a checkpoint takes",
            )
            continue
        for container in pod_set.containers:
            seconds = _hook_seconds(container)
            if seconds and seconds >= grace:
                yield Problem(
                    f"the preStop hook takes {seconds} s, but the pod is killed after {grace} s",
                    field.saying("the default" if written is None else "no more than the hook takes"),
                    (container.spot.below("lifecycle", "preStop", label=f"{seconds} s"),),
                    f"set terminationGracePeriodSeconds to {seconds} and the time of a checkpoint",
                    put(field, seconds + _DEFAULT_GRACE).unsafe(),
                )


def _hook_seconds(container: Container) -> int:
    """What a preStop hook sleeps at least."""
    hook = mapping(mapping(container.data.get("lifecycle")).get("preStop"))
    command = " ".join(text(item) for item in sequence(mapping(hook.get("exec")).get("command")))
    slept = sum(int(found[:9]) for found in _SLEEP.findall(command)[:8])
    return max(slept, whole(mapping(hook.get("sleep")).get("seconds")) or 0)


@rule("PRB003", "torchrun-and-pod-end-at-odds", Severity.WARNING, needs=Workload)
@once
def torchrun_and_pod_end_at_odds(workload: Workload) -> Iterator[Problem]:
    """torchrun kills its ranks before the pod's grace is over, or the pod is gone before torchrun would.

    A pod that is evicted gets SIGTERM and has `terminationGracePeriodSeconds` to end. torchrun hands the signal to its
    ranks and kills them after a time of its own: 30 s, unless `--shutdown-timeout` or `TORCH_ELASTIC_SHUTDOWN_TIMEOUT`
    says otherwise. So a longer grace alone gives the last checkpoint no more time. A torchrun that waits as long as the
    pod may live is killed with its ranks, and says nothing of it.

    Bad:
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 300, containers: [{name: trainer,
          command: [torchrun, train.py]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 120, containers: [{name: trainer,
          command: [torchrun, --shutdown-timeout=120, train.py]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 300, containers: [{name: trainer,
          command: [torchrun, --shutdown-timeout=280, train.py]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {terminationGracePeriodSeconds: 150, containers: [{name: trainer,
          command: [torchrun, train.py],
          lifecycle: {preStop: {sleep: {seconds: 120}}}}]}}}

    Source: https://github.com/pytorch/pytorch/blob/main/torch/distributed/launcher/api.py
    """
    for pod_set in workload.pod_sets:
        written = whole(pod_set.spec.get("terminationGracePeriodSeconds"))
        field = pod_set.template.below("spec", "terminationGracePeriodSeconds")
        for container in pod_set.containers:
            launch = container.launch
            if launch is None or launch.launcher != "torchrun" or container.by_controller:
                continue
            given = launch.option("shutdown_timeout") or _variable(container, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
            waits = _DEFAULT_GRACE if given is None else whole(given.value)
            left = (_DEFAULT_GRACE if written is None else written) - _hook_seconds(container)
            if waits is None or left <= 0:
                continue
            if given is not None and waits >= left:
                yield Problem(
                    f"torchrun gives its ranks {waits} s to save, but the pod is killed after {left} s",
                    given.spot,
                    (field.saying("the default" if written is None else f"{written} s"),),
                    f"set terminationGracePeriodSeconds above {waits} s and what comes before SIGTERM",
                )
            if given is None and written is not None and waits < left:
                yield Problem(
                    f"torchrun kills its ranks {waits} s after SIGTERM, though the pod has {left} s to end",
                    launch.spot,
                    (field.saying(f"{written} s, of which {left - waits} s are not used"),),
                    "set TORCH_ELASTIC_SHUTDOWN_TIMEOUT a little below the grace",
                )


def _variable(container: Container, name: str) -> Setting | None:
    variable = container.env.get(name)
    return None if variable is None else Setting(variable.value, variable.spot)
