"""What the README says of sidecars, volumes and secrets: a patch on PodTemplate holds for every launcher."""

import shutil
from pathlib import Path

import pytest

from tests.copies import copy_parts
from tests.said import Said, said
from trainyard.lint.cli import main

HOME = Path(__file__).resolve().parents[2]
PATCH = """\
apiVersion: v1
kind: PodTemplate
metadata:
  name: training-job
template:
  spec:
    containers:
    - name: trainer
      volumeMounts:
      - name: notes
        mountPath: /notes
    volumes:
    - name: notes
      emptyDir:
        sizeLimit: 1Gi
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    copy_parts(root, "base", "overlays", "clusters")
    return root


@pytest.mark.parametrize("job", ["gpt2-124m", "gpt2-355m", "gpt2-124m-tf"])
def test_a_volume_of_the_pods_of_a_job(repository: Path, job: str) -> None:
    """An Indexed Job, and two kinds whose controllers want the container to be called otherwise."""
    folder = repository / "jobs" / "research" / job
    shutil.copytree(HOME / "jobs" / "research" / job, folder)
    (folder / "notes.yaml").write_text(PATCH)
    kustomization = folder / "kustomization.yaml"
    kustomization.write_text(
        kustomization.read_text().replace("transformers:\n", "- path: notes.yaml\ntransformers:\n")
    )

    told = said(main, "--no-cache", "--level", "warning", folder, cwd=repository)

    assert told == Said(0, "1 job passes\n", "")
