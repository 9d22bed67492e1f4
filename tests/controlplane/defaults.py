"""What the API server fills into a pod by itself, and objects compared as far as somebody wrote them."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.objects.quantity import quantity

ANY = object()
"""Whatever value the API server, an admission plugin or the scheduler chooses."""

POD: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "nodeName": ANY,
    "preemptionPolicy": ANY,
    "priority": ANY,
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "serviceAccount": ANY,
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
    "tolerations": [],
}
CONTAINER: Mapping[str, Any] = {
    "imagePullPolicy": ANY,
    "ports": ANY,  # an operator declares its own where none is written, which opens nothing
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "volumeMounts": [],
}
TOKEN_VOLUME = "kube-api-access-"
"""How the volume begins that the ServiceAccount plugin adds."""

_EVICTIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS = 300


def pod_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's spec without the tolerations that the API server adds to every pod."""
    found = dict(spec)
    if "tolerations" in found:
        found["tolerations"] = [each for each in found["tolerations"] if not _is_eviction(each)]
    return found


def container_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """A container without the ServiceAccount's token."""
    found = dict(data)
    if "volumeMounts" in found:
        mounts = found["volumeMounts"]
        found["volumeMounts"] = [each for each in mounts if not each["name"].startswith(TOKEN_VOLUME)]
    return found


def is_default(key: str, value: Any, defaults: Mapping[str, Any]) -> bool:
    """Whether a field may hold a value that nobody wrote."""
    return key in defaults and (defaults[key] is ANY or defaults[key] == value)


def covers(written: Any, real: Any) -> bool:
    """Whether an object holds all that was written: maps may hold more, lists may not, quantities count as numbers."""
    if isinstance(written, Mapping):
        if not written and real is None:
            return True
        return isinstance(real, Mapping) and all(covers(value, real.get(key)) for key, value in written.items())
    if isinstance(written, Sequence) and not isinstance(written, str):
        if not written and real is None:
            return True
        if not isinstance(real, list) or len(written) != len(real):
            return False
        return all(covers(ours, theirs) for ours, theirs in zip(written, real, strict=True))
    if written == real or (real is None and written in (False, "")):  # what Go leaves out of JSON
        return True
    number = quantity(written)
    return number is not None and not isinstance(real, bool) and number == quantity(real)


def _is_eviction(toleration: Mapping[str, Any]) -> bool:
    return toleration.get("key") in _EVICTIONS and toleration.get("tolerationSeconds") == _EVICTION_SECONDS
