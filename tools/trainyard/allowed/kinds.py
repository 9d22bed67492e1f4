"""What follows from the kinds of a job folder: the rights of the account that syncs it, and Argo CD's project."""

from collections.abc import Iterable

from trainyard.allowed.statement import Statement

_KEEP = ("PersistentVolumeClaim",)
"""Kinds that hold what a run has made, and are never deleted."""


def plural(kind: str) -> str:
    """The name of a kind in the API's paths."""
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def groups(said: Statement) -> dict[str, list[str]]:
    """The kinds by API group, both sorted."""
    found: dict[str, set[str]] = {}
    for api_version, kind in said.kinds:
        found.setdefault(api_version.rpartition("/")[0], set()).add(kind)
    return {group: sorted(kinds) for group, kinds in sorted(found.items())}


def rights(said: Statement) -> str:
    """The rules of the Role by which a team's jobs are synced, as YAML."""
    lines = []
    for group, kinds in groups(said).items():
        lines += _rule(group, [kind for kind in kinds if kind not in _KEEP], "get, list, watch, create, patch, delete")
        lines += _rule(group, [kind for kind in kinds if kind in _KEEP], "get, list, watch, create, patch")
    return "".join(f"{line}\n" for line in lines)


def _rule(group: str, kinds: Iterable[str], verbs: str) -> list[str]:
    resources = ", ".join(map(plural, kinds))
    named = group or '""'
    return [f"- apiGroups: [{named}]", f"  resources: [{resources}]", f"  verbs: [{verbs}]"] if resources else []


def project(said: Statement) -> str:
    """The kinds that Argo CD lets the jobs of a team have, as a list in YAML."""
    named = ((group or '""', kind) for group, kinds in groups(said).items() for kind in kinds)
    return "".join(f"  - {{group: {group}, kind: {kind}}}\n" for group, kind in named)
