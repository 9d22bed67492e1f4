"""Probes and deadlines that end pods which still train."""

import re
from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.rules.counts import whole
from trainyard.rules.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, sequence, text
from trainyard.workload.templates import SERVING

_LEAST_PATIENCE = 300
_SLEEP = re.compile(r"\bsleep\s+([0-9]+)\b")
_DEFAULT_GRACE = 30


@rule("PRB001", "liveness-probe-on-training", Severity.WARNING, needs=Workload)
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
            )


@rule("PRB002", "grace-shorter-than-its-hook", Severity.WARNING, needs=Workload)
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
            hook = mapping(mapping(container.data.get("lifecycle")).get("preStop"))
            command = " ".join(text(item) for item in sequence(mapping(hook.get("exec")).get("command")))
            seconds = sum(int(found) for found in _SLEEP.findall(command)[:8])
            seconds = max(seconds, whole(mapping(hook.get("sleep")).get("seconds")) or 0)
            if seconds and seconds >= grace:
                yield Problem(
                    f"the preStop hook takes {seconds} s, but the pod is killed after {grace} s",
                    field.saying("the default" if written is None else "no more than the hook takes"),
                    (container.spot.below("lifecycle", "preStop", label=f"{seconds} s"),),
                    f"set terminationGracePeriodSeconds to {seconds} and the time of a checkpoint",
                )
