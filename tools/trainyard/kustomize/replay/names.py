"""References by name, which kustomize repairs at the end where the object that they mean was renamed."""

from collections.abc import Iterable, Iterator

from trainyard.kustomize.replay.fieldspecs import FieldSpec, each, split
from trainyard.kustomize.replay.resources import Resource, retyped, string, text_of
from trainyard.yaml.nodes import Node

Reference = tuple[str, str, FieldSpec]
"""Kind and group of what is named, and the field that names it."""

PODS = {
    "Pod": "spec",
    "PodTemplate": "template/spec",
    "Deployment": "spec/template/spec",
    "ReplicaSet": "spec/template/spec",
    "ReplicationController": "spec/template/spec",
    "DaemonSet": "spec/template/spec",
    "StatefulSet": "spec/template/spec",
    "Job": "spec/template/spec",
    "CronJob": "spec/jobTemplate/spec/template/spec",
}
IN_PODS = (
    ("ConfigMap", "volumes/configMap/name"),
    ("ConfigMap", "containers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "initContainers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "containers/envFrom/configMapRef/name"),
    ("ConfigMap", "initContainers/envFrom/configMapRef/name"),
    ("ConfigMap", "volumes/projected/sources/configMap/name"),
    ("Secret", "volumes/secret/secretName"),
    ("Secret", "containers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "initContainers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "containers/envFrom/secretRef/name"),
    ("Secret", "initContainers/envFrom/secretRef/name"),
    ("Secret", "imagePullSecrets/name"),
    ("Secret", "volumes/projected/sources/secret/name"),
    ("ServiceAccount", "serviceAccountName"),
    ("PersistentVolumeClaim", "volumes/persistentVolumeClaim/claimName"),
    ("PriorityClass", "priorityClassName"),
)
_NOT_IN = {
    "ConfigMap": ("ReplicationController",),
    "Secret": ("ReplicationController",),
    "ServiceAccount": ("PodTemplate", "ReplicaSet"),
    "PersistentVolumeClaim": ("PodTemplate", "ReplicaSet"),
    "PriorityClass": ("PodTemplate", "ReplicaSet"),
}
"""Pods whose references of a kind kustomize forgets."""
ELSEWHERE = (
    ("Deployment", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ReplicationController", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ReplicaSet", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("StatefulSet", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ConfigMap", "Role", "rules/resourceNames"),
    ("ConfigMap", "ClusterRole", "rules/resourceNames"),
    ("Secret", "Role", "rules/resourceNames"),
    ("Secret", "ClusterRole", "rules/resourceNames"),
    ("Secret", "Ingress", "spec/tls/secretName"),
    ("Secret", "ServiceAccount", "imagePullSecrets/name"),
    ("Service", "StatefulSet", "spec/serviceName"),
    ("Service", "Ingress", "spec/rules/http/paths/backend/serviceName"),
    ("Service", "Ingress", "spec/rules/http/paths/backend/service/name"),
    ("Service", "Ingress", "spec/defaultBackend/service/name"),
    ("Service", "APIService", "spec/service/name"),
    ("Service", "ValidatingWebhookConfiguration", "webhooks/clientConfig/service"),
    ("Service", "MutatingWebhookConfiguration", "webhooks/clientConfig/service"),
    ("Role", "RoleBinding", "roleRef/name"),
    ("ClusterRole", "RoleBinding", "roleRef/name"),
    ("ClusterRole", "ClusterRoleBinding", "roleRef/name"),
    ("ServiceAccount", "RoleBinding", "subjects"),
    ("ServiceAccount", "ClusterRoleBinding", "subjects"),
    ("PersistentVolume", "PersistentVolumeClaim", "spec/volumeName"),
    ("StorageClass", "PersistentVolume", "spec/storageClassName"),
    ("StorageClass", "PersistentVolumeClaim", "spec/storageClassName"),
    ("StorageClass", "StatefulSet", "spec/volumeClaimTemplates/spec/storageClassName"),
    ("ConfigMap", "Ingress", "metadata/annotations/nginx.ingress.kubernetes.io\\/fastcgi-params-configmap"),
    ("ConfigMap", "Node", "spec/configSource/configMap"),
    ("PersistentVolume", "ClusterRole", "rules/resourceNames"),
    ("Secret", "Ingress", "metadata/annotations/ingress.kubernetes.io\\/auth-secret"),
    ("Secret", "Ingress", "metadata/annotations/nginx.ingress.kubernetes.io\\/auth-secret"),
    ("Secret", "Ingress", "metadata/annotations/nginx.ingress.kubernetes.io\\/auth-tls-secret"),
    ("Secret", "StorageClass", "parameters/adminSecretName"),
    ("Secret", "StorageClass", "parameters/secretName"),
    ("Secret", "StorageClass", "parameters/secretRef"),
    ("Secret", "StorageClass", "parameters/userSecretName"),
    ("Secret", "PersistentVolume", "spec/azureFile/secretName"),
    ("Service", "Ingress", "spec/backend/serviceName"),
    ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "spec/policyName"),
)


def _defaults() -> Iterator[Reference]:
    for kind, prefix in PODS.items():
        for named, path in IN_PODS:
            if kind in _NOT_IN.get(named, ()):
                continue
            yield named, "", FieldSpec(split(f"{prefix}/{path}"), kind)
    for named, kind, path in ELSEWHERE:
        yield named, "", FieldSpec(split(path), kind)


_REFERENCES: dict[str, list[Reference]] = {}
for _reference in _defaults():
    _REFERENCES.setdefault(_reference[2].kind, []).append(_reference)


def repair(resources: list[Resource], extra: Iterable[Reference]) -> None:
    """Write the new names of renamed objects into the fields that name them."""
    renamed = [each for each in resources if each.previous]
    if not renamed:
        return
    by_kind: dict[str, list[Resource]] = {}
    for candidate in renamed:
        for kind in {former.kind for former in candidate.previous}:
            by_kind.setdefault(kind, []).append(candidate)
    for referrer in resources:
        for named, group, spec in (*_REFERENCES.get(referrer.kind, ()), *extra):
            candidates = by_kind.get(named)
            if candidates and spec.applies(referrer):
                _repair_field(
                    referrer, spec, [c for c in candidates if not group or c.group_version[0] == group], named
                )


def _repair_field(referrer: Resource, spec: FieldSpec, candidates: list[Resource], named: str) -> None:
    def change(parent: Node, name: str) -> None:
        node = parent.value[name]
        if type(node.value) is list:
            parent.value[name] = Node(
                [_renamed(referrer, item, candidates, named) for item in node.value],
                node.raw,
                node.key_raw,
                node.style,
                "",
                "seq",
            )
            return
        parent.value[name] = _renamed(referrer, node, candidates, named)

    if _would_change(referrer, spec, candidates):
        each(referrer.own(), spec.path, False, change)
        referrer.renamed()


def _would_change(referrer: Resource, spec: FieldSpec, candidates: list[Resource]) -> bool:
    """Spares a copy of the object where no field of it names one of the candidates."""
    formers = {former.name for candidate in candidates for former in candidate.previous}
    hit = False

    def look(parent: Node, name: str) -> None:
        nonlocal hit
        node = parent.value[name]
        items = node.value if type(node.value) is list else [node]
        hit = hit or any(text_of(item.child("name") if type(item.value) is dict else item) in formers for item in items)

    each(referrer.node, spec.path, False, look)
    return hit


def _renamed(referrer: Resource, node: Node, candidates: list[Resource], named: str) -> Node:
    if type(node.value) is dict:
        return _renamed_map(referrer, node, candidates, named)
    target = _referral(referrer, text_of(node), candidates, named)
    if target is None or target.name == text_of(node):
        return node
    return _named(target, node)


def _renamed_map(referrer: Resource, node: Node, candidates: list[Resource], named: str) -> Node:
    name = node.child("name")
    if name is None:
        return node
    namespace = text_of(node.child("namespace"))
    if namespace:
        in_namespace = [c for c in candidates if c.original.namespace == namespace]
        candidates = in_namespace or [c for c in candidates if c.namespace == namespace]
    target = _referral(referrer, text_of(name), candidates, named)
    if target is None:
        return node
    fields = dict(node.value)
    if target.name != text_of(name):
        fields["name"] = _named(target, name)
    if target.namespace:
        source = target.node.at(("metadata", "namespace"))
        present = fields.get("namespace")
        if source is not None and text_of(present) != target.namespace:
            fields["namespace"] = string(
                target.namespace, source.raw, source.key_raw if present is None else present.key_raw
            )
    return Node(fields, node.raw, node.key_raw, node.style, "", "map")


def _named(target: Resource, node: Node) -> Node:
    source = target.node.at(("metadata", "name"))
    return node if source is None else retyped(source, source.text, node)


def _referral(referrer: Resource, name: str, candidates: list[Resource], named: str) -> Resource | None:
    fitting = [
        candidate
        for candidate in candidates
        if any(former.name == name for former in candidate.previous)
        and any(former.kind == named for former in candidate.previous)
        and (
            referrer.cluster_scoped
            or candidate.cluster_scoped
            or candidate.kind == "ServiceAccount"
            or candidate.effective_namespace == referrer.effective_namespace
        )
    ]
    if len(fitting) > 1:
        fitting = [each for each in fitting if _same_affixes(each, referrer, may_lack=True)]
    if len(fitting) > 1:
        fitting = [each for each in fitting if _same_affixes(each, referrer, may_lack=False)]
    return fitting[0] if fitting and len({candidate.name for candidate in fitting}) == 1 else None


def _same_affixes(one: Resource, other: Resource, *, may_lack: bool) -> bool:
    """Whether two objects came through the same prefixes and suffixes, the shorter list being the end of the longer."""
    for ours, theirs in ((one.prefixes, other.prefixes), (one.suffixes, other.suffixes)):
        if may_lack and (not ours or not theirs):
            continue
        shared = min(len(ours), len(theirs))
        if ours[len(ours) - shared :] != theirs[len(theirs) - shared :]:
            return False
    return True
