"""Label selectors, with a third answer where a label is not known from manifests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.workload.model import PodSet
from trainyard.workload.plain import mapping, sequence, text

_OF_A_POD = frozenset(
    {
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "controller-uid",
        "training.kubeflow.org/job-role",
        "training.kubeflow.org/replica-index",
    }
)
_JOBSET = "jobset.sigs.k8s.io/"
_OF_A_KIND = {
    f"{_JOBSET}replicatedjob-name": frozenset(
        {"batch.kubernetes.io/job-name", "job-name"}
        | {
            f"{_JOBSET}{name}"
            for name in (
                "global-replicas",
                "group-replicas",
                "job-global-index",
                "job-group-index",
                "job-index",
                "job-key",
                "jobset-name",
                "jobset-uid",
                "priority",
                "replicatedjob-replicas",
                "restart-attempt",
            )
        }
    ),
    "ray.io/is-ray-node": frozenset({"ray.io/cluster", "ray.io/identifier"}),
    "volcano.sh/task-spec": frozenset({"volcano.sh/task-index"}),
}
"""By a label that shows which controller makes the pods, labels that it gives them."""
VARYING = _OF_A_POD.union(*_OF_A_KIND.values())
"""Labels that controllers give to pods, and whose value is another for each pod or not known before it exists."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of one thing, as far as they are known."""

    known: Mapping[str, str]
    unknown: frozenset[str] = frozenset()
    """Keys that may be there with any value, or be absent."""
    complete: bool = True
    """False where any key that is not listed may be there too."""

    def get(self, key: str) -> tuple[bool, str | None]:
        """Whether it is certain what the label is, and its value: None where it is absent."""
        if key in self.known:
            return True, self.known[key]
        return self.complete and key not in self.unknown, None


def pod_labels(pod_set: PodSet) -> Labels:
    """Labels of the pods of a set."""
    varying = _OF_A_POD.union(*(keys for label, keys in _OF_A_KIND.items() if label in pod_set.labels))
    return Labels(pod_set.labels, varying - pod_set.labels.keys())


def selects(selector: Any, labels: Labels) -> bool | None:
    """Whether a LabelSelector (`matchLabels`, `matchExpressions`) matches; None where that is not known.

    A selector without requirements matches everything. One of the wrong type is not known.
    """
    if not isinstance(selector, dict):
        return None
    answers = [equals(selector.get("matchLabels"), labels)]
    answers += [_expression(mapping(each), labels) for each in sequence(selector.get("matchExpressions"))]
    return all_of(answers)


def equals(wanted: Any, labels: Labels) -> bool | None:
    """Whether all the labels of a map (`matchLabels`, a Service's selector) are there; None where that is not known."""
    if wanted is None:
        return True
    if not isinstance(wanted, dict):
        return None
    return all_of(_has(labels, key, value) for key, value in wanted.items())


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """False if one is, else None if one is, else True."""
    found = list(answers)
    return False if False in found else None if None in found else True


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """True if one is, else None if one is, else False."""
    found = list(answers)
    return True if True in found else None if None in found else False


def _has(labels: Labels, key: Any, value: Any) -> bool | None:
    if not isinstance(key, str) or not isinstance(value, str):
        return None
    certain, actual = labels.get(key)
    return actual == value if certain else None


def _expression(expression: Mapping[Any, Any], labels: Labels) -> bool | None:
    key, operator, values = text(expression.get("key")), expression.get("operator"), sequence(expression.get("values"))
    certain, actual = labels.get(key)
    if not certain or not key:
        return None
    match operator:
        case "In":
            return actual in values
        case "NotIn":
            return actual not in values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    return None
