"""Repositories that an editor opens."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import LLAMA, Repository
from tests.copies import copy_parts

DEPLOYED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {who: "zoë 😀"}, labls: {a: b}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: example.com/trainer:1
"""
"""A misspelt key behind characters of two and four bytes."""


@pytest.fixture
def checkout(tmp_path: Path) -> Repository:
    """A repository with one job and its cluster."""
    repository = Repository(tmp_path / "repository")
    copy_parts(repository.root, "base", "overlays", "clusters/gpu-east", LLAMA)
    (repository.root / ".git").mkdir()
    return repository


@pytest.fixture
def plain(tmp_path: Path) -> Repository:
    """A repository of another layout: a kustomization, a manifest that none names, and a chart."""
    repository = Repository(tmp_path / "plain")
    for file, text in {
        "deploy/train/kustomization.yaml": "resources: [job.yaml]\n",
        "deploy/train/job.yaml": DEPLOYED,
        "extra/other.yaml": DEPLOYED,
        "notes/list.yaml": "- milk\n",
        "chart/Chart.yaml": "name: chart\n",
        "chart/templates/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {{ .Values.meta }}\n",
    }.items():
        (repository.root / file).parent.mkdir(parents=True, exist_ok=True)
        (repository.root / file).write_text(text)
    subprocess.run(["git", "init", "--quiet", repository.root], check=True)
    subprocess.run(["git", "-C", repository.root, "add", "."], check=True)
    return repository
