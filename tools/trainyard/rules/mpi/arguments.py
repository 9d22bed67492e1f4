"""Whether mpirun, or another launcher, can read its command line."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Workload
from trainyard.workload.plain import sequence

_LAUNCHERS = frozenset({"mpirun", "mpiexec", "horovodrun", "torchrun", "deepspeed", "accelerate", "python", "python3"})
_FLAG_AND_VALUE = re.compile(r"--?[A-Za-z][\w-]*\s+\S")
_TAKES_ARGUMENTS = re.compile(r"(args|arguments|opts|options|flags|cmd|command)\Z")


@rule("MPI001", "joined-arguments", Severity.ERROR, needs=Workload)
def joined_arguments(workload: Workload) -> Iterator[Problem]:
    """One item of a command line holds a flag and its value, or a program and its arguments.

    Kubernetes starts the program without a shell, so nobody splits an item at its blanks: mpirun is given one word
    `-np 32` that it does not know, and looks for a program whose name is `python train.py`.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: launcher, command: [mpirun, -np 32, python train.py]}]}}}
            Worker: {replicas: 4}

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template: {spec: {containers: [{name: launcher, command: [mpirun, -np, "32", python, train.py]}]}}
            Worker: {replicas: 4}

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, torchrun -m trainer]
                args: []

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            joined = list(_joined(container))
            if not joined:
                continue
            text, spot = joined[0]
            words = text.split()
            what = "a flag and its value" if text.startswith("-") else "a program and its arguments"
            yield Problem(
                f'"{" ".join(words)}" is one word of the command line, not {what}',
                spot.saying("no shell splits this"),
                tuple(other.saying("nor this") for _, other in joined[1:]),
                f"write each word as an item of its own: {', '.join(words)}",
            )


def _joined(container: Container) -> Iterator[tuple[str, Spot]]:
    """Items that hold several words, where the program that reads them is known to take them one by one."""
    items = [
        (text, container.spot.below(field, index))
        for field in ("command", "args")
        for index, text in enumerate(sequence(container.data.get(field)))
        if isinstance(text, str)
    ]
    if not container.data.get("command") or not items or not items[0][0].split():
        return
    if PurePosixPath(items[0][0].split()[0]).name not in _LAUNCHERS:
        return
    before = ""
    for text, spot in items:
        words = text.split()
        program = len(words) > 1 and PurePosixPath(words[0]).name in _LAUNCHERS
        if (program or _FLAG_AND_VALUE.match(text)) and before != "-c" and not _TAKES_ARGUMENTS.search(before):
            yield text, spot
        before = text
