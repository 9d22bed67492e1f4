"""What is said of the examples that the projects themselves ship: findings.yaml lists all of it, each with its reason.

The examples lie in the Go modules that tools/go/schemas/go.mod pins, and are read where the module cache holds them.
The Python packages of this repository ship no manifests.
"""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.findings.finding import Severity
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

HOME = Path(__file__).resolve().parents[2]
PINS = HOME / "tools" / "go" / "schemas" / "go.mod"
MODULES = (
    "github.com/kubeflow/mpi-operator",
    "github.com/kubeflow/trainer/v2",
    "github.com/kubeflow/training-operator",
    "github.com/ray-project/kuberay/ray-operator",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/kueue",
    "volcano.sh/volcano",
)
FOLDERS = ("example", "examples", "samples", "runtimes")
KNOWN: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))


def cache() -> Path:
    """Go's module cache."""
    if told := os.environ.get("GOMODCACHE"):
        return Path(told)
    try:
        done = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return Path.home() / "go" / "pkg" / "mod"
    return Path(done.stdout.strip())


def folder_of(module: str) -> Path:
    """Where the cache holds the version of a module that is pinned."""
    version = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", PINS.read_text(), re.MULTILINE)
    assert version is not None, f"{PINS} does not pin {module}"
    return cache() / f"{module}@{version[1]}"


def manifests(folder: Path) -> Iterator[str]:
    """Example manifests that are not templates of Helm and no settings of kustomize."""
    for file in sorted(folder.rglob("*.yaml")):
        path = file.relative_to(folder)
        if set(path.parts[:-1]) & set(FOLDERS) and file.name != "kustomization.yaml" and "charts" not in path.parts:
            text = file.read_text(encoding="utf-8", errors="replace")
            if re.search(r"^kind:", text, re.MULTILINE) and "{{" not in text:
                yield str(path)


@pytest.mark.parametrize("module", MODULES)
def test_every_finding_about_an_example_is_known(module: str) -> None:
    folder = folder_of(module)
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not in the module cache: tools/update-schemas downloads it")
    files = list(manifests(folder))
    assert files

    outcome = lint(folder, discover(files, folder, folder), use_cache=False)
    found = Counter(
        (file, finding.rule, finding.place.path)
        for finding in outcome.findings
        if finding.severity >= Severity.WARNING
        for file in finding.jobs
    )

    known = Counter((each["path"], each["rule"], each["field"]) for each in KNOWN if each["module"] == module)
    assert found == known


def test_every_finding_has_its_reason() -> None:
    assert {each["module"] for each in KNOWN} <= set(MODULES)
    assert all(each["reason"].strip() for each in KNOWN)
