"""Every list that the replay merges, against the real kustomize: by the same keys, and no other list."""

import json
from pathlib import Path
from typing import Any

from tests.kustomize.replay.support import compare, write
from trainyard.kustomize.replay.mergekeys import KINDS, KNOWN_GROUPS, Shape


def _fields(shape: Shape, value: str) -> dict[str, Any]:
    """A field for everything that a type has, lists with one item that has a field of its own called `value`."""
    made: dict[str, Any] = {}
    for name in dict.fromkeys((*shape.lists, *shape.below)):
        below = shape.below.get(name)
        keys = shape.lists.get(name)
        inner = {value: "1", **(_fields(below, value) if below is not None else {})}
        made[name] = inner if keys is None else [{**dict.fromkeys(keys, "a"), **inner} if keys else value]
    return made


def _object(api_version: str, kind: str, value: str) -> dict[str, Any]:
    fields = _fields(KINDS.get((api_version, kind), Shape()), value)
    ports = {"ports": [{"containerPort": 80, "protocol": "TCP", value: "1"}]}
    for pod in _pods(fields):
        pod["ephemeralContainers"] = [{**each, **ports} for each in pod["ephemeralContainers"]]
        pod["tolerations"] = [{"key": "a", value: "1"}]
    metadata = {**fields.pop("metadata", {}), "finalizers": [value], "name": "x"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _pods(fields: Any) -> list[dict[str, Any]]:
    if not isinstance(fields, dict):
        return []
    return [fields] if "ephemeralContainers" in fields else [pod for each in fields.values() for pod in _pods(each)]


def test_lists_are_merged_as_kustomize_merges_them(tmp_path: Path) -> None:
    kinds = [*KINDS, *_ONE_OF_EACH_OTHER]
    assert {version for version, _ in kinds} >= KNOWN_GROUPS
    for index, (version, kind) in enumerate([*kinds, ("example.org/v1", "Unknown")]):
        old, new = (json.dumps(_object(version, kind, value)) for value in ("old", "new"))
        write(tmp_path, f"=== k{index}/old.yaml\n{old}\n=== k{index}/new.yaml\n{new}\n")
        write(tmp_path, f"=== k{index}/kustomization.yaml\nresources: [old.yaml]\npatches: [{{path: new.yaml}}]\n")
    resources = json.dumps([f"../k{index}" for index in range(len(kinds) + 1)])
    write(tmp_path, f"=== over/kustomization.yaml\nresources: {resources}\n")
    both = compare(tmp_path, "over")
    assert both.differences() == []
    assert len(both.objects) == len(kinds) + 1


_ONE_OF_EACH_OTHER = (
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("autoscaling/v1", "HorizontalPodAutoscaler"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1", "Lease"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema"),
    ("networking.k8s.io/v1", "Ingress"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget"),
    ("policy/v1beta1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
)
