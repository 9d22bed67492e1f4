"""Fields of kustomizations that kustomize will drop, and what stands for them now."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Finding, Place, Severity
from trainyard.fixes.mender import Mender
from trainyard.kustomize.kustomization import Kustomization
from trainyard.objects.remedy import Remedy, add, all_of, put, remove, rename
from trainyard.rules.registry import declare
from trainyard.yaml.sources import Sources

DEPRECATED = declare(
    "KUS001",
    "deprecated-field",
    Severity.INFO,
    """A kustomization uses a field that kustomize has deprecated.

    kustomize prints a warning for it on every build, and a later release reads it no more. What stands for it now gives
    the same objects. A field that runs at another time than its successor is rewritten only where nothing else runs
    between the two, and `patchesJson6902`, which runs after names and labels were changed, only if asked for.

    Bad:
        # kustomization.yaml
        bases: [../base]
        commonLabels: {team: research}
        patchesStrategicMerge: [patch.yaml]
    Good:
        # kustomization.yaml
        resources: [../base]
        labels:
        - includeSelectors: true
          pairs: {team: research}
        patches:
        - path: patch.yaml

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
    """,
    fix="safe",
)

_NOW = {
    "bases": "resources",
    "commonLabels": "labels with includeSelectors",
    "patchesStrategicMerge": "patches",
    "patchesJson6902": "patches",
    "imageTags": "images",
    "vars": "replacements",
}


def deprecated_fields(target: str, kustomizations: Mapping[str, Kustomization], sources: Sources) -> Iterator[Finding]:
    """What the kustomizations of a target hold of the kind, each with its fix where that is mechanical."""
    for kustomization in kustomizations.values():
        for name, now in _NOW.items():
            node = kustomization.root.child(name)
            if node is None or not node.value:
                continue
            mend = Mender(kustomization.root, sources)
            remedy = _remedy(mend, name)
            help = f"write {now}"
            place = Place("", name, node.key_mark or node.mark)
            fix = None if remedy is None else mend(remedy, help)
            rule = DEPRECATED
            message = f"{name} is deprecated"
            yield Finding(rule.id, rule.name, rule.severity, message, place, help=help, jobs=(target,), fix=fix)


def _remedy(mend: Mender, name: str) -> Remedy | None:
    """The same in the field that stands for it now; None where that is not mechanical."""
    data, spot = mend.document.data, mend.document.at(name)
    items = data[name] if isinstance(data[name], list) else []
    if name == "bases":
        listed = mend.document.at("resources")
        return _moved(spot, listed, items) if data.get("resources") else rename(spot, "resources")
    if name == "commonLabels" and not data.get("labels"):
        labels = [{"includeSelectors": True, "pairs": data[name]}]
        return remove(spot) & put(mend.document.at("labels"), labels)
    if data.get("patches"):
        return None
    if name == "patchesStrategicMerge" and all(isinstance(item, str) and "\n" not in item for item in items):
        paths = [put(spot.below(index), {"path": item}) for index, item in enumerate(items)]
        return all_of((rename(spot, "patches"), *paths))
    return rename(spot, "patches").unsafe() if name == "patchesJson6902" else None


def _moved(spot: Any, listed: Any, items: list[Any]) -> Remedy | None:
    return all_of((remove(spot), *(add(listed, item) for item in items)))
