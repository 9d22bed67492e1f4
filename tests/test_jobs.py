"""The repository's own jobs, rendered: whole, and the same from every kustomize that must agree."""

import subprocess
from pathlib import Path

import pytest

from tests.recorded import hold
from trainyard.kustomize.render import render

HOME = Path(__file__).resolve().parents[1]
JOBS = (
    "jobs/research/all-reduce-gpu-east",
    "jobs/research/gpt2-124m",
    "jobs/research/gpt2-124m-tf",
    "jobs/research/gpt2-355m",
    "jobs/research/gpt2-774m",
    "jobs/research/llama-70b-cpt",
    "jobs/research/llama-8b-chat",
    "jobs/research/llama-8b-code",
    "jobs/research/llama-8b-math",
    "jobs/research/llama-8b-sft",
)
SNAPSHOTS = HOME / "tests" / "snapshots" / "jobs"


def built(program: Path, job: str) -> str:
    """What `kustomize build` prints."""
    return subprocess.run([program, "build", job], cwd=HOME, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("job", JOBS)
def test_job_renders_as_recorded(job: str) -> None:
    [rendering] = render(HOME, [job], with_yaml=True)
    assert rendering.error == ""
    hold(SNAPSHOTS / f"{Path(job).name}.yaml", rendering.yaml)


@pytest.mark.claim("stock-kustomize")
@pytest.mark.parametrize("job", JOBS)
def test_stock_kustomize_gives_the_same_bytes(job: str) -> None:
    [rendering] = render(HOME, [job], with_yaml=True)
    assert built(HOME / ".tools" / "bin" / "kustomize", job) == rendering.yaml


@pytest.mark.slow_build
@pytest.mark.parametrize("version", ["5.0.3", "5.4.3"])
@pytest.mark.parametrize("job", JOBS)
def test_old_kustomize_gives_the_same_bytes(job: str, version: str) -> None:
    program = HOME / ".tools" / "old" / f"kustomize-{version}"
    assert built(program, job) == (SNAPSHOTS / f"{Path(job).name}.yaml").read_text()


def test_every_job_of_the_repository_is_tested_here() -> None:
    assert sorted(file.parent.relative_to(HOME).as_posix() for file in HOME.glob("jobs/*/*/job.yaml")) == sorted(JOBS)
