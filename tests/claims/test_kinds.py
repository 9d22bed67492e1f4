"""What docs/kinds says of the ways to run a job, as far as rendering and linting can tell."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bases.matrix import REPOSITORY, without_jobs
from tests.product.combinations import Combination, write
from tests.said import said
from trainyard.kustomize.render import render
from trainyard.lint.cli import main


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository without jobs."""
    without_jobs(tmp_path)
    return tmp_path


def rendered(root: Path, folder: str) -> list[dict[str, Any]]:
    [found] = render(root, [folder])
    assert found.error == ""
    return found.objects


def rules(root: Path, folder: str) -> set[str]:
    """The rules that find something in a job."""
    document = said(main, "--no-cache", "--format=json", folder, cwd=root).json
    return {each["rule"] for each in document["findings"] if each["severity"] != "info"}


@pytest.mark.claim("deepspeed-is-torchrun-with-zero")
@pytest.mark.parametrize("cluster", ["gpu-east", "lab-west"])
def test_deepspeed_is_torchrun_with_zero(tmp_path: Path, cluster: str) -> None:
    found = []
    for name, combination in {
        "one": Combination("deepspeed", cluster),
        "two": Combination("torchrun", cluster, zero="zero"),
    }.items():
        without_jobs(tmp_path / name)
        found.append(rendered(tmp_path / name, write(tmp_path / name, combination, "whale")))

    assert found[0] == found[1]


@pytest.mark.claim("policies-hold-zero-alone")
def test_policies_hold_zero_alone() -> None:
    policies = yaml.safe_load((REPOSITORY / "base/zero/config-map-deepspeed.yaml").read_text())["data"]

    assert len(policies) == 5
    assert {key for text in policies.values() for key in json.loads(text)} == {"zero_optimization"}


@pytest.mark.claim("torchrun-needs-kubernetes-alone")
def test_torchrun_needs_kubernetes_alone(root: Path) -> None:
    objects = rendered(root, write(root, Combination("torchrun", "gpu-east"), "whale"))

    groups = {item["apiVersion"].rpartition("/")[0] for item in objects}
    assert groups == {"", "batch", "networking.k8s.io"}


@pytest.mark.claim("what-a-kind-cannot-change")
@pytest.mark.parametrize(
    ("base", "setting"),
    [
        ("rayjob", "rendezvousPort: 29555"),
        ("trainjob", "rendezvousPort: 29555"),
        ("trainjob", "backoffLimit: 7"),
        ("mpijob", "backoffLimit: 7"),
    ],
)
def test_a_setting_that_the_kind_does_not_take_is_told(root: Path, base: str, setting: str) -> None:
    folder = write(root, Combination(base, "gpu-east"), "whale")
    with (root / folder / "job.yaml").open("a") as job:
        job.write(f"  {setting}\n")

    assert ("CTR018" in rules(root, folder)) == (base != "mpijob")


LONGEST = {"torchrun": 54, "jobset": 47, "trainjob": 47, "pytorchjob": 53, "tfjob": 53, "mpijob": 53, "rayjob": 47}
"""Characters that the name of a job of 12 nodes may have; 54 is what the schema of job.yaml allows any."""


@pytest.mark.claim("long-names")
@pytest.mark.parametrize(("base", "longest"), LONGEST.items())
def test_the_longest_name_of_each_kind(root: Path, base: str, longest: int) -> None:
    found = []
    for length in (longest, longest + 1):
        folder = write(root, Combination(base, "gpu-east"), "w" * length)
        job = root / folder / "job.yaml"
        job.write_text(job.read_text().replace("nodes: 4", "nodes: 12").replace("global: 480", "global: 1440"))
        found.append(not rules(root, folder).isdisjoint(("NAM001", "SCH003")))

    assert found == [False, True]
