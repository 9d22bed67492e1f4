"""What base, wiring, schemas and clusters promise one another."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.yaml.nodes import load_documents

HOME = Path(__file__).resolve().parents[2]
CHECKED_ONLY = {
    "cluster",
    "learningRateScaling.rule",
    "learningRateScaling.baseLearningRate",
    "learningRateScaling.baseBatch",
    "deepspeedVersion",
    "ncclVersion",
}
"""Fields of a TrainingJob that the linter reads and no object gets."""
FORECAST = {
    f"forecast.{name}"
    for name in (
        "networkGbps",
        "failuresPer1000NodeDays",
        "restartMinutes",
        "checkpointWriteGBps",
        "pricePerGpuHour",
        "currency",
    )
}
"""Facts that tools/plan-job reckons with."""
CHECKED_FACTS = {
    "transport",
    "nodes",
    "node.gpu",
    "storage.datasetClaims",
    "deepspeedVersion",
    "ncclVersion",
} | FORECAST
"""Facts of fabrics and clusters that the linter and people read and no object gets."""


def document(path: str) -> Any:
    [node] = load_documents((HOME / path).read_text(), path)
    return node.plain()


def schema(kind: str) -> Any:
    return json.loads((HOME / "schemas" / "trainyard.dev" / f"{kind}_v1alpha1.json").read_text())


def fields(properties: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, below in properties.items():
        if below.get("type") == "object" and "properties" in below:
            yield from fields(below["properties"], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def wired() -> set[tuple[str, str]]:
    """(kind, field path) of every source of the wiring."""
    found = set()
    for file in HOME.glob("base/**/wiring/*.yaml"):
        for replacement in document(file.relative_to(HOME).as_posix()).get("replacements", ()):
            source = replacement["source"]
            found.add((source["kind"], source["fieldPath"].removeprefix("spec.")))
    return found


_SELECTED = re.compile(r"\[\w+=([^]]*)\]")


def _targets(tree: Any) -> Iterator[str]:
    """Every path that a replacement below `tree` writes to."""
    if isinstance(tree, list):
        for each in tree:
            yield from _targets(each)
    elif isinstance(tree, dict):
        yield from tree.get("fieldPaths", ())
        for below in tree.values():
            yield from _targets(below)


def test_the_wiring_writes_to_items_by_their_whole_name() -> None:
    """`[name=dataset]` of a target also means `dataset-cache`: kustomize takes it for an expression that may match
    anywhere. So a variable, container or volume of a job whose name holds one of the wiring's would be written over."""
    names = [
        (str(file.relative_to(HOME)), name)
        for file in sorted((HOME / "base").rglob("*.yaml"))
        for node in load_documents(file.read_text(), file.name)
        for path in _targets(node.plain())
        for name in _SELECTED.findall(path)
    ]
    assert len(names) > 50
    assert [each for each in names if not (each[1].startswith("^") and each[1].endswith("$"))] == []


@pytest.mark.claim("each-number-is-wired")
@pytest.mark.parametrize(
    ("kind", "checked"), [("TrainingJob", CHECKED_ONLY), ("Fabric", CHECKED_FACTS), ("Cluster", CHECKED_FACTS)]
)
def test_every_field_of_a_fact_reaches_an_object_or_is_checked(kind: str, checked: set[str]) -> None:
    spec = schema(kind.lower())["properties"]["spec"]["properties"]
    sources = {path for source, path in wired() if source == kind}
    reached = {field for field in fields(spec) if field in sources or field.split(".")[0] in sources}
    assert set(fields(spec)) - reached <= checked
    assert not reached & checked


def test_defaults_of_a_run_are_those_of_the_schema() -> None:
    spec = document("base/run/training-job.yaml")["spec"]
    properties = schema("trainingjob")["properties"]["spec"]["properties"]
    for path in fields(properties):
        at, declared = spec, properties
        for step in path.split("."):
            at = at.get(step) if isinstance(at, dict) else None
            declared = declared[step] if "properties" not in declared else declared["properties"][step]
        if "default" in declared:
            assert at == declared["default"], path
        elif at is not None:
            assert path == "image" or isinstance(at, dict) or "default" in declared, (
                f"{path} has a default that no schema tells"
            )


@pytest.mark.parametrize("cluster", sorted(folder.name for folder in (HOME / "clusters").iterdir()))
def test_dataset_claims_of_a_cluster_are_in_the_namespace_of_every_team(cluster: str) -> None:
    told = set(document(f"clusters/{cluster}/facts/cluster.yaml")["spec"]["storage"]["datasetClaims"])
    claim = document("base/team/persistent-volume-claim.yaml")["metadata"]["name"]
    teams = [team for team in (HOME / "jobs").iterdir() if team.is_dir()]
    assert teams
    for team in teams:
        platform = document(f"clusters/{cluster}/platform/{team.name}/kustomization.yaml")
        assert "../../../../base/team" in platform["resources"]
    assert told == {claim}


@pytest.mark.parametrize(
    "job", sorted(path.parent.relative_to(HOME).as_posix() for path in HOME.glob("jobs/*/*/job.yaml"))
)
def test_kustomizations_of_jobs_differ_in_their_first_lines_alone(job: str) -> None:
    kustomization, first = (document(f"{each}/kustomization.yaml") for each in (job, "jobs/research/gpt2-124m"))
    components = kustomization.pop("components", [])
    assert all(each.startswith("../../../base/") for each in components)
    for differing in ("namespace", "resources"):
        del kustomization[differing], first[differing]
    own = kustomization["patches"][1:]
    assert all("/" not in each["path"] for each in own)
    del kustomization["patches"][1:]
    assert kustomization == first


@pytest.mark.parametrize(
    ("pattern", "header"),
    [
        ("jobs/*/*/job.yaml", "trainingjob"),
        ("base/run/training-job.yaml", "trainingjob"),
        ("overlays/*/fabric.yaml", "fabric"),
        ("clusters/*/facts/cluster.yaml", "cluster"),
    ],
)
def test_editors_find_the_schema_of_each_fact(pattern: str, header: str) -> None:
    files = list(HOME.glob(pattern))
    assert files
    for file in files:
        first = file.read_text().splitlines()[0]
        named = first.removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / named).resolve() == HOME / "schemas" / "trainyard.dev" / f"{header}_v1alpha1.json"
