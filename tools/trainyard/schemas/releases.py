"""Fields and kinds that an older Kubernetes than that of schemas/ does not know.

A cluster's older API server refuses such a field, or drops it in silence: SCH001. The tables were made by comparing the
examples that k8s.io/api carries of each release (testdata/), in which every field is set. They hold what authors write:
neither a status nor what controllers alone make. A field counts from its first release on, alpha or not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import VIOLATION, SchemaProblem
from trainyard.workload.of_unit import bystanders, workloads
from trainyard.yaml.fieldpath import Path, format_path, lookup

OLDEST, NEWEST = 28, 36
"""Minor versions: the oldest that the tables were compared with, and that of schemas/."""

_NODE_TERMS = tuple(
    f"affinity.{affinity}.{terms}.{key}"
    for affinity in ("podAffinity", "podAntiAffinity")
    for terms in (
        "preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm",
        "requiredDuringSchedulingIgnoredDuringExecution",
    )
    for key in ("matchLabelKeys", "mismatchLabelKeys")
)
_POD: Mapping[int, tuple[str, ...]] = {
    29: (
        *_NODE_TERMS,
        "volumes.ephemeral.volumeClaimTemplate.spec.volumeAttributesClassName",
        "volumes.projected.sources.clusterTrustBundle",
    ),
    30: ("securityContext.appArmorProfile",),
    31: (
        "resourceClaims.resourceClaimName",
        "resourceClaims.resourceClaimTemplateName",
        "securityContext.supplementalGroupsPolicy",
        "volumes.image",
    ),
    32: ("resources", "securityContext.seLinuxChangePolicy"),
    34: ("hostnameOverride", "volumes.projected.sources.podCertificate"),
    35: ("volumes.projected.sources.podCertificate.userAnnotations",),
    36: ("schedulingGroup",),
}
"""Fields of a pod's spec, by the minor version that brought them. A name goes through every item of a list."""

_CONTAINER: Mapping[int, tuple[str, ...]] = {
    29: ("lifecycle.postStart.sleep", "lifecycle.preStop.sleep"),
    30: ("securityContext.appArmorProfile", "volumeMounts.recursiveReadOnly"),
    31: ("resources.claims.request",),
    33: ("lifecycle.stopSignal",),
    34: ("env.valueFrom.fileKeyRef", "restartPolicyRules"),
}
"""Fields of containers, the same way."""

_JOB = ("managedBy", "successPolicy")
_OBJECT: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "apps/v1/StatefulSet": {29: ("spec.volumeClaimTemplates.spec.volumeAttributesClassName",)},
    "autoscaling/v2/HorizontalPodAutoscaler": {
        33: ("spec.behavior.scaleDown.tolerance", "spec.behavior.scaleUp.tolerance")
    },
    "batch/v1/CronJob": {30: tuple(f"spec.jobTemplate.spec.{field}" for field in _JOB)},
    "batch/v1/Job": {30: tuple(f"spec.{field}" for field in _JOB)},
    "jobset.x-k8s.io/v1alpha2/JobSet": {30: tuple(f"spec.replicatedJobs.template.spec.{field}" for field in _JOB)},
    "storage.k8s.io/v1/CSIDriver": {
        33: ("spec.nodeAllocatableUpdatePeriodSeconds",),
        35: ("spec.serviceAccountTokenInSecrets",),
        36: ("spec.preventPodSchedulingIfMissing",),
    },
    "v1/PersistentVolume": {29: ("spec.volumeAttributesClassName",)},
    "v1/PersistentVolumeClaim": {29: ("spec.volumeAttributesClassName",)},
    "v1/Service": {30: ("spec.trafficDistribution",)},
}
"""Fields of objects, by apiVersion and kind, the same way."""

_KINDS: Mapping[str, int] = {
    "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy": 36,
    "admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding": 36,
    "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy": 30,
    "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding": 30,
    "networking.k8s.io/v1/IPAddress": 33,
    "networking.k8s.io/v1/ServiceCIDR": 33,
    "resource.k8s.io/v1/DeviceClass": 34,
    "resource.k8s.io/v1/ResourceClaim": 34,
    "resource.k8s.io/v1/ResourceClaimTemplate": 34,
    "resource.k8s.io/v1/ResourceSlice": 34,
    "storage.k8s.io/v1/VolumeAttributesClass": 34,
}
"""The minor version that brought an apiVersion of a kind."""


def newer(unit: Unit, kubernetes: str) -> Iterator[SchemaProblem]:
    """A problem for each object and field that a release such as 1.31 does not know; none where it is empty."""
    if not kubernetes:
        return
    minor = int(kubernetes.partition(".")[2])
    for obj in unit.objects:
        name = f"{obj.api_version}/{obj.kind}"
        if (since := _KINDS.get(name, 0)) > minor:
            message = f"{obj.kind} of {obj.api_version} {_unknown(kubernetes, since)}"
            yield SchemaProblem(0, VIOLATION.id, obj, ("apiVersion",), message, _HELP)
            continue
        for since, path in _set(obj.data, _OBJECT.get(name, {}), minor):
            yield _problem(obj, path, kubernetes, since)
    for template in _templates(unit):
        spec = (*template.path, "spec")
        data = template.object.data
        for since, path in _of_pod(lookup(data, spec), minor):
            yield _problem(template.object, (*spec, *path), kubernetes, since)


_HELP = "leave it out until the cluster is upgraded"


def _unknown(kubernetes: str, since: int) -> str:
    return f"is unknown to Kubernetes {kubernetes}, which the settings name: it came with 1.{since}"


def _problem(obj: Object, path: Path, kubernetes: str, since: int) -> SchemaProblem:
    message = f"{format_path(obj.data, path)} {_unknown(kubernetes, since)}"
    return SchemaProblem(0, VIOLATION.id, obj, path, message, _HELP, at_key=True)


def _templates(unit: Unit) -> list[Spot]:
    """The pod templates that stand in the unit, each once."""
    own = {id(obj) for obj in unit.objects}
    spots = {
        (id(pod_set.template.object), pod_set.template.path): pod_set.template
        for workload in (*workloads(unit), *bystanders(unit))
        for pod_set in workload.pod_sets
        if id(pod_set.template.object) in own
    }
    return list(spots.values())


def _of_pod(spec: Any, minor: int) -> Iterator[tuple[int, Path]]:
    yield from _set(spec, _POD, minor)
    for key in ("initContainers", "containers", "ephemeralContainers"):
        containers = spec.get(key) if isinstance(spec, dict) else None
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            for since, path in _set(container, _CONTAINER, minor):
                yield since, (key, index, *path)


def _set(data: Any, fields: Mapping[int, tuple[str, ...]], minor: int) -> Iterator[tuple[int, Path]]:
    """The fields newer than a minor version that stand in an object, and since when there are such."""
    for since, names in fields.items():
        if since > minor:
            for name in names:
                yield from ((since, path) for path in _ways(data, name.split(".")))


def _ways(data: Any, keys: list[str], path: Path = ()) -> Iterator[Path]:
    if not keys:
        yield path
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _ways(item, keys, (*path, index))
    elif isinstance(data, dict) and data.get(keys[0]) is not None:
        yield from _ways(data[keys[0]], keys[1:], (*path, keys[0]))
