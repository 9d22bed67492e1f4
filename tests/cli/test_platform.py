"""What a cluster holds is known to its jobs: clusters/<name>/platform, rendered once a run."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import GPT2, LLAMA, Repository
from tests.copies import copy_parts
from tests.said import said
from trainyard.gitops.cluster import platforms_named
from trainyard.report import FORMATS
from trainyard.verify.command import main as verify_jobs
from trainyard.yaml.sources import Sources

pytestmark = pytest.mark.commands

MATH = "jobs/research/llama-8b-math"
SECOND = "jobs/research/llama-8b-physics"
PLATFORM = "clusters/gpu-east/platform"
DIGEST = "sha256:" + "1" * 64


@pytest.fixture
def checkout(checkout: Repository) -> Repository:
    """With a job that takes a runtime of its cluster's platform."""
    copy_parts(checkout.root, MATH)
    checkout.commit()
    return checkout


def told(report: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


def timeless(out: str) -> str:
    """What a command printed, without names and times that differ from run to run and command to command."""
    return re.sub(r"\d+\.\d+|lint-jobs", "", out)


def place(finding: dict[str, Any]) -> str:
    return f"{finding['file']}:{finding['line']}"


def without_runtimes(checkout: Repository) -> None:
    """Take the runtimes off the cluster."""
    checkout.replace(f"{PLATFORM}/kustomization.yaml", "- runtimes\n", "")


def with_sidecar(checkout: Repository, image: str) -> None:
    """Give the pods of every runtime a second container."""
    kept = (checkout.root / PLATFORM / "kustomization.yaml").read_text()
    entry = "patches:\n- path: sidecar.yaml\n  target: {kind: ClusterTrainingRuntime}\n"
    checkout.write(f"{PLATFORM}/kustomization.yaml", kept + entry)
    place = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/-"
    patch = f"- op: add\n  path: {place}\n  value:\n    name: sidecar\n    image: {image}\n"
    checkout.write(f"{PLATFORM}/sidecar.yaml", patch)


def test_a_job_whose_runtime_is_on_its_cluster(checkout: Repository) -> None:
    assert checkout.report("--no-cache", MATH)["findings"] == []


def test_a_runtime_that_the_cluster_lacks(checkout: Repository) -> None:
    without_runtimes(checkout)

    (finding,) = checkout.report("--no-cache", MATH)["findings"]

    assert (finding["rule"], finding["message"]) == (
        "SCH005",
        "cluster gpu-east has no ClusterTrainingRuntime torch-rdma",
    )


def test_a_cluster_of_which_nothing_is_known_lacks_nothing(checkout: Repository) -> None:
    (checkout.root / PLATFORM / "kustomization.yaml").unlink()

    report = checkout.report("--no-cache", "--level", "info", MATH)

    assert not told(report, "SCH005")
    (finding,) = told(report, "SCH006")
    assert "nothing is known of the pods" in finding["message"]


def test_rules_see_the_pods_of_the_runtime_and_point_into_it_once_for_all_jobs(checkout: Repository) -> None:
    checkout.copy_job(MATH, SECOND)
    with_sidecar(checkout, "example.com/sidecar:1")

    report = checkout.report("--no-cache", MATH, SECOND)

    (no_digest,) = told(report, "SEC002")
    assert place(no_digest) == f"{PLATFORM}/sidecar.yaml:5"
    assert no_digest["jobs"] == [MATH, SECOND]


def test_an_edit_of_the_platform_is_judged_by_the_jobs_that_land_there(checkout: Repository) -> None:
    with_sidecar(checkout, "example.com/sidecar:1")
    assert told(checkout.report(MATH, GPT2), "SEC002")
    assert checkout.report(MATH, GPT2)["summary"]["unchanged"] == 2

    checkout.replace(f"{PLATFORM}/sidecar.yaml", "sidecar:1", f"sidecar@{DIGEST}")

    after = checkout.report(MATH, GPT2)
    assert after["summary"]["unchanged"] == 1
    assert not told(after, "SEC002")


def test_a_platform_that_comes_to_be_is_noticed(checkout: Repository) -> None:
    without_runtimes(checkout)
    kept = (checkout.root / PLATFORM / "kustomization.yaml").read_text()
    (checkout.root / PLATFORM / "kustomization.yaml").unlink()
    assert not told(checkout.report(MATH), "SCH005")
    assert checkout.report(MATH)["summary"]["unchanged"] == 1

    checkout.write(f"{PLATFORM}/kustomization.yaml", kept)

    assert told(checkout.report(MATH), "SCH005")


BROKEN = {
    "a resource that is not there": ("resources: [gone.yaml]\n", 1),
    "a field that does not exist": ("resorces: []\n", 1),
    "a remote base": ("resources: ['https://example.com/platform?ref=main']\n", 1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_platform_that_does_not_render_is_one_finding(name: str, checkout: Repository) -> None:
    text, line = BROKEN[name]
    checkout.copy_job(MATH, SECOND)
    checkout.write(f"{PLATFORM}/kustomization.yaml", text)

    for _ in ("cold", "warm"):
        report = checkout.report(MATH, SECOND)

        assert report["summary"]["exit_code"] == 2
        (finding,) = [each for each in report["findings"] if each["severity"] != "info"]
        assert finding["rule"] == "INP001"
        assert place(finding) == f"{PLATFORM}/kustomization.yaml:{line}"
        assert finding["jobs"] == [MATH, SECOND]


def test_the_rest_of_a_job_is_judged_where_its_platform_is_broken(checkout: Repository) -> None:
    checkout.write(f"{PLATFORM}/kustomization.yaml", "resources: [gone.yaml]\n")
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3")

    report = checkout.report(LLAMA)

    assert {finding["rule"] for finding in report["findings"]} >= {"INP001", "BAT001"}


def test_changed_counts_the_platform_among_what_a_job_reads(checkout: Repository) -> None:
    checkout.replace(f"{PLATFORM}/kustomization.yaml", "resources:", "# one more line\nresources:")

    judged = checkout.judged("--changed", "main")

    assert MATH in judged
    assert LLAMA in judged
    assert GPT2 not in judged


def test_a_comment_on_the_platform_silences_a_finding_there(checkout: Repository) -> None:
    with_sidecar(checkout, "example.com/sidecar:1 # lint-jobs: ignore[SEC002] this registry never overwrites")

    report = checkout.report("--no-cache", MATH)

    assert report["findings"] == []
    assert report["summary"]["suppressed"] == 1


@pytest.mark.parametrize("name", ["../../..", "a/../../b", "", "/etc", "a\nb"])
def test_a_cluster_is_no_path(name: str, tmp_path: Path) -> None:
    facts = f"apiVersion: trainyard.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name!r}}}\n"
    (tmp_path / "cluster.yaml").write_text(facts)

    assert platforms_named(Sources(tmp_path), ["cluster.yaml"]) == []


ALONE = "clusters/gpu-south"
"""A cluster on which no job lands."""


def add_a_cluster(checkout: Repository) -> None:
    copy_parts(checkout.root, ALONE)
    checkout.commit()


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"),
    [
        (f"{ALONE}/facts/cluster.yaml", "scratch: 500Gi", "scratch: 500GB", "SCH003"),
        (f"{ALONE}/facts/cluster.yaml", "nodes: ", "nodes: x", "SCH003"),
        (f"{ALONE}/facts/cluster.yaml", "cidr: ", "cidr: x", "SCH003"),
        (f"{ALONE}/facts/cluster.yaml", "sharedMemory: ", "sharedMem: ", "SCH003"),
        ("overlays/sriov/fabric.yaml", "transport: ", "transport: x", "SCH003"),
        (f"{ALONE}/platform/research/resource-quota.yaml", 'gpu: "', 'gpu: "many', "SCH001"),
    ],
)
def test_a_cluster_without_jobs_is_judged(file: str, old: str, new: str, rule: str, checkout: Repository) -> None:
    add_a_cluster(checkout)
    checkout.replace(file, old, new)

    for arguments in ((), ("--changed", "main"), ("--pre-commit", file)):
        report = checkout.report(*arguments)

        assert report["summary"]["exit_code"] == 1
        assert {(found["rule"], found["file"]) for found in report["findings"]} == {(rule, file)}


def test_clusters_before_their_first_job(checkout: Repository) -> None:
    shutil.rmtree(checkout.root / "jobs")
    add_a_cluster(checkout)

    done = checkout.lint()
    checkout.replace(f"{ALONE}/facts/cluster.yaml", "scratch: 500Gi", "scratch: 500GB")
    wrong = checkout.lint()

    assert (done.returncode, done.stdout) == (0, "there is no job yet\n"), done.stderr
    assert wrong.returncode == 1


def test_a_repository_before_its_first_cluster_and_job(checkout: Repository) -> None:
    shutil.rmtree(checkout.root / "clusters")
    shutil.rmtree(checkout.root / "jobs")
    without = checkout.lint()
    (checkout.root / "jobs/research").mkdir(parents=True)
    (checkout.root / "jobs/README.md").write_text("Here go the jobs.\n")
    named, changed = checkout.lint("jobs"), checkout.lint("--changed", "HEAD")
    verified = said(verify_jobs, cwd=checkout.root)
    forms = {name: said(verify_jobs, "--format", name, cwd=checkout.root) for name in FORMATS}
    linted = {name: checkout.lint("--format", name) for name in FORMATS}
    (checkout.root / "jobs/research/broken").mkdir()
    (checkout.root / "jobs/research/broken/job.yaml").write_text("kind: TrainingJob\n")
    broken = checkout.lint()

    for done in (without, named):
        assert (done.returncode, done.stdout) == (0, "there is no job yet\n"), done.stderr
    assert (changed.returncode, changed.stdout) == (0, "no job reads what changed since HEAD\n")
    assert (verified.code, verified.out) == (0, "there is no job yet\n")
    for name, form in forms.items():
        assert (form.code, timeless(form.out)) == (0, timeless(linted[name].stdout)), name
    assert json.loads(forms["json"].out)["findings"] == []
    assert json.loads(forms["sarif"].out)["runs"][0]["results"] == []
    assert broken.returncode == 2
