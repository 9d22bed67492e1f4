"""The wheel of this checkout, built and installed once."""

import subprocess

import pytest

from tests.copies import TWO_JOBS, copy_parts
from tests.wheel.building import HOME, Bare, built, installed

POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  parallelism: 2
  completions: 2
  backoffLimit: -1
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example.com/any:1
        command: [torchrun, --nnodes=2, --nproc-per-node=8, train.py]
        resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.fixture(scope="package")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    place = tmp_path_factory.mktemp("wheel")
    wheel = built(HOME, "wheel", place / "built")
    environment = installed(wheel, place / "environment")
    repository = place / "repository"
    copy_parts(repository, *TWO_JOBS)
    (repository / "train.yaml").write_text(POD)
    file = repository / "jobs/research/gpt2-124m/job.yaml"
    file.write_text(file.read_text().replace("  nodes: 4", "  nods: 4"))
    subprocess.run(["git", "init", "--quiet", "--template=", repository], check=True)
    return Bare(wheel, environment, repository)
