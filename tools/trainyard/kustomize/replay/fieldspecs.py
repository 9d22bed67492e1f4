"""Kustomize's field specs: which fields of which kinds labels, annotations, images and counts go into."""

from collections.abc import Callable
from dataclasses import dataclass

from trainyard.kustomize.replay.resources import Resource, empty_map, text_of
from trainyard.yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A path in objects of a kind. `create` makes it where it is missing."""

    path: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""
    create: bool = False

    @classmethod
    def of(cls, node: Node) -> "FieldSpec":
        """Read one from a configuration file."""
        create = node.child("create")
        return cls(
            split(text_of(node.child("path"))),
            text_of(node.child("kind")),
            text_of(node.child("group")),
            text_of(node.child("version")),
            create is not None and create.value is True,
        )

    def applies(self, resource: Resource) -> bool:
        """Whether the spec is about this object's kind."""
        if self.kind and self.kind != resource.kind:
            return False
        if not self.group and not self.version:
            return True
        group, version = resource.group_version
        return (not self.group or self.group == group) and (not self.version or self.version == version)


Setter = Callable[[Node, str], None]
"""Called with the map that holds the field, and the field's name."""


def each(node: Node, path: tuple[str, ...], create: bool, setter: Setter) -> None:
    """Call `setter` for every field that a path leads to. Lists on the way are entered at every item."""
    if type(node.value) is list:
        for item in node.value:
            each(item, path, create, setter)
        return
    if type(node.value) is not dict:
        return
    name = path[0].removesuffix("[]")
    may_create = create and name == path[0]
    child = node.value.get(name)
    if len(path) == 1:
        if child is not None or may_create:
            setter(node, name)
        return
    if child is None or child.value is None:
        if not may_create:
            return
        child = node.value[name] = empty_map(None if child is None else child.key_raw)
    each(child, path[1:], create, setter)


def split(path: str) -> tuple[str, ...]:
    """`metadata/annotations/a.b\\/c` in its parts."""
    marked = path.strip("/").replace("\\/", "\0")
    return tuple(part.replace("\0", "/") for part in marked.split("/"))


def _specs(lines: str) -> tuple[FieldSpec, ...]:
    found = []
    for line in lines.split("\n"):
        if not line.strip():
            continue
        path, kind, group, version, create = (*line.split(), "", "", "", "")[:5]
        blank = {"-": ""}
        found.append(
            FieldSpec(
                split(path),
                blank.get(kind, kind),
                blank.get(group, group),
                blank.get(version, version),
                create == "create",
            )
        )
    return tuple(found)


_TEMPLATES = """
spec/template/metadata/{0} ReplicationController - v1 create
spec/template/metadata/{0} Deployment - - create
spec/template/metadata/{0} ReplicaSet - - create
spec/template/metadata/{0} DaemonSet - - create
spec/template/metadata/{0} StatefulSet {1} - create
spec/template/metadata/{0} Job batch - create
spec/jobTemplate/metadata/{0} CronJob batch - create
spec/jobTemplate/spec/template/metadata/{0} CronJob batch - create
"""

METADATA_LABELS = FieldSpec(("metadata", "labels"), create=True)
TEMPLATE_LABELS = (METADATA_LABELS, *_specs(_TEMPLATES.format("labels", "apps")))
CLAIM_TEMPLATE_LABELS = _specs("spec/volumeClaimTemplates[]/metadata/labels StatefulSet apps - create")
ANNOTATIONS = (
    FieldSpec(("metadata", "annotations"), create=True),
    *_specs(_TEMPLATES.format("annotations", "-")),
)

_AFFINITY = "".join(
    f"spec/template/spec/affinity/{affinity}/{term}/labelSelector/matchLabels {kind} apps\n"
    for kind in ("Deployment", "StatefulSet")
    for affinity in ("podAffinity", "podAntiAffinity")
    for term in (
        "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm",
        "requiredDuringSchedulingIgnoredDuringExecution",
    )
)
SELECTOR_LABELS = (
    *_specs(
        """
spec/selector Service - v1 create
spec/selector ReplicationController - v1 create
spec/selector/matchLabels Deployment - - create
spec/selector/matchLabels ReplicaSet - - create
spec/selector/matchLabels DaemonSet - - create
spec/selector/matchLabels StatefulSet apps - create
spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels Deployment apps
spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels StatefulSet apps
spec/selector/matchLabels Job batch
spec/jobTemplate/spec/selector/matchLabels CronJob batch
spec/selector/matchLabels PodDisruptionBudget policy
spec/podSelector/matchLabels NetworkPolicy networking.k8s.io
spec/ingress/from/podSelector/matchLabels NetworkPolicy networking.k8s.io
spec/egress/to/podSelector/matchLabels NetworkPolicy networking.k8s.io
"""
        + _AFFINITY
    ),
    *TEMPLATE_LABELS,
    *CLAIM_TEMPLATE_LABELS,
)
IMAGES = _specs(
    """
spec/volumes[]/image/reference
spec/template/spec/volumes[]/image/reference
spec/jobTemplate/spec/template/spec/volumes[]/image/reference
"""
)
REPLICAS = _specs(
    """
spec/replicas Deployment - - create
spec/replicas ReplicationController - - create
spec/replicas ReplicaSet - - create
spec/replicas StatefulSet - - create
"""
)
NAMESPACES = _specs(
    """
metadata/name Namespace - v1 create
spec/service/namespace APIService apiregistration.k8s.io - create
spec/conversion/webhook/clientConfig/service/namespace CustomResourceDefinition apiextensions.k8s.io
"""
)
