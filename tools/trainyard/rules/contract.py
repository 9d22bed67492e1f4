"""What a job folder and its base promise each other: names and facts that must agree."""

from collections.abc import Iterator
from typing import Any

from trainyard.fieldpath import Path
from trainyard.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.unit import Unit

DEFAULT_NAME = "training-job"
"""What every base calls its objects until the wiring names them after the job."""


@rule("CTR001", "default-name-survives", Severity.ERROR, needs=Unit)
def default_name_survives(unit: Unit) -> Iterator[Problem]:
    """A default name of the base is left in what is applied.

    The wiring renames objects field by field, and renaming updates no reference: a field that no replacement names keeps
    `training-job`. Two jobs then share the object, or a pod waits for a ConfigMap, a claim or a Service that is not there.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              subdomain: training-job

    Good:

        kind: Job
        spec:
          backoffLimit: 4

    Near miss:

        kind: Job
        metadata:
          annotations:
            example.com/about: the training-jobs of this team

    Source: base/wiring/
    """
    job = unit.fact("TrainingJob")
    if job is None or DEFAULT_NAME in job.name:
        return
    for rendered in unit.objects:
        for path, text in _strings(rendered.data, ()):
            if _names_default(text):
                yield Problem(
                    f"{text!r} is the base's default name, and the wiring did not replace it",
                    rendered.at(*path, label=f"expected a name made from {job.name}"),
                    help="name this field in base/wiring, or write the job's own name here",
                )


@rule("CTR008", "cluster-differs", Severity.ERROR, needs=Unit)
def cluster_differs(unit: Unit) -> Iterator[Problem]:
    """job.yaml names another cluster than the one whose facts its kustomization.yaml takes.

    The facts decide the fabric, the node shape and the storage. The name in job.yaml is what its readers believe.

    Bad:

        kind: TrainingJob
        spec:
          cluster: another-cluster

    Good:

        kind: TrainingJob
        spec:
          nodes: 4

    Near miss:

        kind: Fabric
        metadata:
          name: another-fabric

    Source: clusters/
    """
    job, cluster = unit.fact("TrainingJob"), unit.fact("Cluster")
    if job is None or cluster is None:
        return
    spec = job.data.get("spec")
    named = spec.get("cluster") if isinstance(spec, dict) else None
    if isinstance(named, str) and named != cluster.name:
        yield Problem(
            f"job.yaml says cluster {named}, but kustomization.yaml takes the facts of {cluster.name}",
            job.at("spec", "cluster", label="the job's word"),
            (cluster.at("metadata", "name", label="the facts it gets"),),
            f"name ../../../clusters/{named}/facts in kustomization.yaml, or write cluster: {cluster.name}",
        )


def _names_default(text: str) -> bool:
    start = text.find(DEFAULT_NAME)
    while start >= 0:
        before, after = text[:start], text[start + len(DEFAULT_NAME) :]
        if not before[-1:].isalnum() and not after[:1].isalnum():
            return True
        start = text.find(DEFAULT_NAME, start + 1)
    return False


def _strings(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, below in tree.items():
            yield from _strings(below, (*path, key))
    elif isinstance(tree, list):
        for index, below in enumerate(tree):
            yield from _strings(below, (*path, index))
