"""Names that controllers make from the job's name."""

from collections.abc import Iterator

from trainyard.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import made_names
from trainyard.workload.model import Workload


@rule("NAM001", "name-too-long", Severity.ERROR, needs=Workload)
def name_too_long(workload: Workload) -> Iterator[Problem]:
    """A name that the job's controller makes from the job's own is longer than it may be.

    Pods, their host names and Services are called after the job, with a role and a number at the end, and DNS allows 63
    characters. Some controllers refuse such a job. Others take it, fail to create what is named so, and try again for
    ever: the job has no pods, and says so in events alone.

    Bad:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: llama-8b-supervised-finetuning-on-the-second-instruction-mix, namespace: research}
        spec:
          pytorchReplicaSpecs:
            Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: trainer}]}}}
    Good:
        # whole
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: llama-8b-sft-mix-2, namespace: research}
        spec:
          pytorchReplicaSpecs:
            Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: trainer}]}}}
    Near miss:
        # whole
        apiVersion: batch/v1
        kind: Job
        metadata: {name: llama-8b-supervised-finetuning-on-the-second-instruction-mix, namespace: research}
        spec: {completionMode: Indexed, completions: 4, parallelism: 4}

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """
    longest = max(
        (made for made in made_names(workload) if len(made.text) > made.limit),
        key=lambda made: len(made.text) - made.limit,
        default=None,
    )
    if longest is None:
        return
    over = len(longest.text) - longest.limit
    name, length = workload.object.at("metadata", "name"), len(longest.text)
    yield Problem(
        f"{longest.what} would be called {longest.text}: {length} characters, but {longest.limit} are allowed",
        name.saying(f"{over} too long" if longest.spot.path == name.path else "the name"),
        () if longest.spot.path == name.path else (longest.spot.saying("a part of it"),),
        f"shorten the job's name by {over}",
    )
