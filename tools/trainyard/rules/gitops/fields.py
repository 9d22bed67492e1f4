"""What an object's metadata tells Argo CD, Flux and Kueue."""

from trainyard.objects.objects import Object
from trainyard.yaml.fieldpath import lookup

HOOK = "argocd.argoproj.io/hook"
QUEUE = "kueue.x-k8s.io/queue-name"


def value(obj: Object, *path: str | int) -> object:
    """The value of a field; None where it is absent."""
    try:
        return lookup(obj.data, path)
    except KeyError:
        return None


def annotation(obj: Object, key: str) -> object:
    """The value of an annotation; None where it is absent."""
    return value(obj, "metadata", "annotations", key)


def label(obj: Object, key: str) -> object:
    """The value of a label; None where it is absent."""
    return value(obj, "metadata", "labels", key)
