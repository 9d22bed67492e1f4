"""Words that only a shell understands, in a command that no shell reads: LCH003."""

import re
from collections.abc import Iterator
from itertools import takewhile

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import SHELLS, basename
from trainyard.workload.model import Container, Word, Workload

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<plain>[A-Za-z_]\w*))")
_OPERATORS = ("&&", "||", ";", "|", ">", ">>", "2>&1", "&")
_OF_RANKS = frozenset(
    [
        "RANK",
        "LOCAL_RANK",
        "NODE_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "HOSTNAME",
        "POD_NAME",
        "JOB_COMPLETION_INDEX",
    ]
)


@rule("LCH003", "shell-syntax-without-shell", Severity.ERROR, needs=Workload)
@once
def shell_syntax_without_shell(workload: Workload) -> Iterator[Problem]:
    """A command uses variables or operators of a shell, and no shell reads it.

    Kubernetes starts the program itself, with the words as they stand: `$RANK` stays five letters and `&&` is an
    argument. Kubernetes replaces `$(RANK)`, in round brackets; everything else takes `sh -c`.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, command: [torchrun], args: [--nnodes=4, --node_rank=$JOB_COMPLETION_INDEX, train.py]}
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, command: [torchrun], args: [--nnodes=4, --node_rank=$(JOB_COMPLETION_INDEX), train.py]}
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [torchrun, --nnodes=4, --no-python]
                args: [sh, -c, "exec python train.py --seed $RANK"]

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            words = container.words if container.launch is not None else ()
            for word in takewhile(lambda word: basename(word) not in SHELLS, words):
                found = _of_a_shell(container, word)
                if found:
                    yield Problem(
                        f"the program is given {found} as it stands, since no shell reads its command",
                        word.spot.saying("not replaced" if found.startswith("$") else "an argument of the program"),
                        help=f"write $({found.strip('${}')})" if found.startswith("$") else "start it with sh -c",
                    )


def _of_a_shell(container: Container, word: Word) -> str:
    """What of a word a shell would have read, where the word is an item of its own; empty where nothing is."""
    if word.spot.path[-2:-1] not in (("command",), ("args",)) or value_at(word.spot) != word.text:
        return ""
    if word.text in _OPERATORS:
        return word.text
    for match in _VARIABLE.finditer(word.text):
        if (match["braced"] or match["plain"]) in _OF_RANKS | container.env.keys():
            return match[0]
    return ""
