"""GIT021: the folders from which Argo CD and Flux start apply what they need and nothing else."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.gitops.cluster_folders import entry_of
from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.rules.gitops.expected import ANY, EXPECTED, Among, ExpectedObject
from trainyard.rules.registry import Problem, rule
from trainyard.yaml.fieldpath import format_path

_METADATA = dict.fromkeys(("annotations", "labels", "name", "namespace"), ANY)
_NO_TEAMS = ("", "argocd", "default", "flux-system", "kube-public", "kube-system")
"""Namespaces that are no team's."""


@rule("GIT021", "not-of-an-entry-point", Severity.ERROR, needs=Unit, guarded=True)
def not_of_an_entry_point(unit: Unit) -> Iterator[Problem]:
    """An entry point of Argo CD or Flux applies something that does not belong there.

    `clusters/<name>/flux`, its `jobs` and `teams`, and `clusters/<name>/argocd` say what is applied to a cluster, by
    which account and from which folder. They are applied with a cluster administrator's rights, or decide who gets
    these rights. They hold the objects of base/gitops. Times, health checks, the repository and its credentials may
    differ from base/gitops; all other fields are the same as there.

    Bad:
        # whole clusters/gpu-east/flux
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: researchers}
    Good:
        # whole clusters/gpu-east/platform
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: researchers}
    Near miss:
        # whole clusters/gpu-east/flux
        apiVersion: kustomize.toolkit.fluxcd.io/v1
        kind: Kustomization
        metadata: {name: jobs, namespace: flux-system}
        spec:
          interval: 1h
          path: ./clusters/gpu-east/flux/jobs
          prune: true
          serviceAccountName: jobs
          sourceRef: {kind: GitRepository, name: trainyard}

    Source: https://fluxcd.io/flux/installation/configuration/multitenancy/
    """
    place = entry_of(unit.name)
    if place is None:
        return
    cluster, entry = place
    allowed = EXPECTED[entry]
    for obj in unit.objects:
        fitting = next((each for each in allowed if _fits(each, obj)), None)
        if fitting is None:
            yield Problem(
                f"{unit.name} applies {obj.kind} {obj.name}, which does not belong there",
                obj.at("kind", label="base/gitops has no object of this kind, name and namespace there"),
                help=f"what else a cluster needs goes into clusters/{cluster}/platform",
            )
            continue
        words = {"<cluster>": cluster, "<namespace>": obj.namespace, "<name>": obj.name}
        fields = {"apiVersion": ANY, "kind": ANY, "metadata": _METADATA, **fitting.fields}
        for said, spot in _differences(fields, obj.data, obj.at(), words):
            yield Problem(f"{obj.kind} {obj.name} in {unit.name} {said}", spot, help="keep what base/gitops gives it")
    held = {(obj.group, obj.kind, obj.name) for obj in unit.objects}
    for each in allowed:
        if each.required and unit.objects and (each.group, each.kind, each.name) not in held:
            yield Problem(
                f"{unit.name} lacks {each.kind} {each.name}",
                unit.objects[0].at(),
                help="keep base/gitops/flux/teams among its resources",
            )


def _fits(expected: ExpectedObject, obj: Object) -> bool:
    return (
        (expected.group, expected.kind) == (obj.group, obj.kind)
        and expected.name in ("*", obj.name)
        and (obj.namespace == expected.namespace or (expected.namespace == "*" and obj.namespace not in _NO_TEAMS))
    )


def _differences(expected: Any, found: Any, spot: Spot, words: Mapping[str, str]) -> Iterator[tuple[str, Spot]]:
    """How a value differs from what is expected, in words that follow the name of the object, and where."""
    if expected is ANY:
        return
    field = format_path(spot.object.data, spot.path)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in found.items():
            inner = _of_key(expected, key)
            if inner is None:
                where = Spot(spot.object, (*spot.path, key), at_key=True)
                yield f"may not set {format_path(spot.object.data, where.path)}", where
            else:
                yield from _differences(inner, value, spot.below(key), words)
        missing = [key for key, value in expected.items() if key not in found and not _is_optional(value)]
        if missing:
            yield f"lacks {', '.join(f'{field}.{key}' if field else key for key in missing)}", spot
    elif isinstance(expected, Among) and isinstance(found, list):
        for index, item in enumerate(found):
            if item not in expected.items():
                yield f"may not have {field}[{index}]", spot.below(index)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (inner, value) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(inner, value, spot.below(index), words)
    else:
        wanted = _filled(expected, words)
        if type(wanted) is not type(found) or wanted != found:
            yield f"must have {field} {_shown(wanted)}", spot


def _of_key(expected: Mapping[str, Any], key: str) -> Any:
    """What a key of a map may hold; None where the map allows no such key."""
    if key in expected:
        return expected[key]
    return next((value for name, value in expected.items() if name.endswith("*") and key.startswith(name[:-1])), None)


def _is_optional(expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return all(_is_optional(value) for value in expected.values())
    return expected is ANY or isinstance(expected, Among)


def _filled(expected: Any, words: Mapping[str, str]) -> Any:
    if isinstance(expected, str):
        for word, value in words.items():
            expected = expected.replace(word, value)
    return expected


def _shown(wanted: Any) -> str:
    if isinstance(wanted, bool):
        return str(wanted).lower()
    return wanted if isinstance(wanted, str) else "as base/gitops has it"
