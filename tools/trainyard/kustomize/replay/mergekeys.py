"""Which lists of built-in kinds a strategic-merge patch merges, and by which keys: kustomize's Kubernetes schema.

Lists of every other kind are replaced as a whole: kustomize knows no schema of custom resources.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shape:
    """A type: the lists in it that merge, and the fields below which some do."""

    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the merge by field; an empty tuple for a list of plain values."""
    below: dict[str, "Shape"] = field(default_factory=dict)


_METADATA = Shape({"finalizers": (), "ownerReferences": ("uid",)})
_EPHEMERAL: dict[str, tuple[str, ...]] = {
    "env": ("name",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
_CONTAINER = Shape({**_EPHEMERAL, "ports": ("containerPort", "protocol")})
_CLAIM_TEMPLATE = Shape({}, {"metadata": _METADATA})
_VOLUME = Shape({}, {"ephemeral": Shape({}, {"volumeClaimTemplate": _CLAIM_TEMPLATE})})
_POD = Shape(
    {
        "containers": ("name",),
        "ephemeralContainers": ("name",),
        "hostAliases": ("ip",),
        "imagePullSecrets": ("name",),
        "initContainers": ("name",),
        "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
        "volumes": ("name",),
    },
    {
        "containers": _CONTAINER,
        "ephemeralContainers": Shape(_EPHEMERAL),
        "initContainers": _CONTAINER,
        "volumes": _VOLUME,
    },
)
_TEMPLATE = Shape({}, {"metadata": _METADATA, "spec": _POD})
_JOB = Shape({}, {"template": _TEMPLATE})
_BARE = Shape({}, {"metadata": _METADATA})


def _of(spec: Shape) -> Shape:
    return Shape({}, {"metadata": _METADATA, "spec": spec})


_WORKLOAD = _of(_JOB)
_CRON_JOB = _of(Shape({}, {"jobTemplate": Shape({}, {"metadata": _METADATA, "spec": _JOB})}))
_WEBHOOKS = Shape({"webhooks": ("name",)}, {"metadata": _METADATA})

KINDS: dict[tuple[str, str], Shape] = {
    ("v1", "Pod"): _of(_POD),
    ("v1", "PodTemplate"): Shape({}, {"metadata": _METADATA, "template": _TEMPLATE}),
    ("v1", "ReplicationController"): _WORKLOAD,
    ("v1", "Service"): _of(Shape({"ports": ("port", "protocol")})),
    ("v1", "ServiceAccount"): Shape({"secrets": ("name",)}, {"metadata": _METADATA}),
    ("v1", "Node"): _of(Shape({"podCIDRs": ()})),
    ("apps/v1", "DaemonSet"): _WORKLOAD,
    ("apps/v1", "Deployment"): _WORKLOAD,
    ("apps/v1", "ReplicaSet"): _WORKLOAD,
    ("apps/v1", "StatefulSet"): _WORKLOAD,
    ("batch/v1", "Job"): _WORKLOAD,
    ("batch/v1", "CronJob"): _CRON_JOB,
    ("batch/v1beta1", "CronJob"): _CRON_JOB,
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("storage.k8s.io/v1", "CSINode"): _of(Shape({"drivers": ("name",)})),
}
KNOWN_GROUPS = frozenset(
    [
        "v1",
        "apps/v1",
        "batch/v1",
        "batch/v1beta1",
        "apiextensions.k8s.io/v1",
        "apiregistration.k8s.io/v1",
        "autoscaling/v1",
        "autoscaling/v2beta2",
        "certificates.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "networking.k8s.io/v1",
        "policy/v1",
        "policy/v1beta1",
        "rbac.authorization.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1",
        "node.k8s.io/v1",
        "coordination.k8s.io/v1",
    ]
)


def shape_of(api_version: str, kind: str) -> Shape | None:
    """What is known of a kind, or None for one without a schema."""
    found = KINDS.get((api_version, kind))
    return found or (_BARE if api_version in KNOWN_GROUPS else None)
