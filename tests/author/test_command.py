"""new-job as its users see it."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.author.support import COMPLETE, HOME, files_of, hold, new_job

pytestmark = pytest.mark.commands


def test_a_job_is_written_with_its_findings_forecast_and_what_comes_next(repository: Path) -> None:
    said = new_job(repository, *COMPLETE)

    assert (said.code, said.errors) == (0, "")
    hold("written.txt", said.out)
    folder = repository / "jobs/research/my-run"
    assert sorted(files_of(folder)) == ["job.yaml", "kustomization.yaml"]
    assert (folder / "job.yaml").read_text() in said.out
    assert oct(folder.stat().st_mode & 0o777) == "0o755"


def test_what_it_writes_is_the_kustomization_that_every_job_has(repository: Path) -> None:
    new_job(repository, "--name=my-run", "--cluster=lab-west", "--model=gpt2-124m", "--nodes=4", "--data=/data/web")

    written = (repository / "jobs/research/my-run/kustomization.yaml").read_text()
    assert written == (HOME / "jobs/research/gpt2-124m/kustomization.yaml").read_text()


def test_a_dry_run_shows_the_same_and_writes_nothing(repository: Path) -> None:
    before = files_of(repository)
    dry = new_job(repository, *COMPLETE, "--dry-run")
    assert (dry.code, files_of(repository)) == (0, before)

    wet = new_job(repository, *COMPLETE)
    assert dry.out.replace("not written (--dry-run)\n", "") == wet.out.split("written\n\nnext:")[0]


def test_a_queue_is_a_component(repository: Path) -> None:
    assert new_job(repository, *COMPLETE, "--queue=kueue").code == 0
    assert (
        "components:\n- ../../../base/queue/kueue\n" in files_of(repository)["jobs/research/my-run/kustomization.yaml"]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (),
            "standard input is not a terminal, so give --name, --cluster, --model, --nodes, --data "
            "(see new-job --help)",
        ),
        ((*COMPLETE, "--name=My_run"), "--name: 'My_run' is not a valid name: a-z, 0-9 and -, beginning with a letter"),
        ((*COMPLETE, "--name=" + "a" * 55), "has 55 characters: at most 54, since its pods are named after it"),
        ((*COMPLETE, "--cluster=gpu-eats"), "--cluster: there is no cluster 'gpu-eats'; did you mean gpu-east?"),
        ((*COMPLETE, "--team=vision"), "--team: there is no team on gpu-east 'vision': there are research"),
        ((*COMPLETE, "--nodes=33"), "--nodes: 33 nodes are too many: gpu-east has 32"),
        ((*COMPLETE, "--nodes=0"), "--nodes: '0' is not a number of nodes: 1 or more"),
        ((*COMPLETE, "--data=web"), "--data: 'web' is not a folder of the dataset claim, which is mounted on /data"),
        ((*COMPLETE, "--data=/data/../etc"), "is not a folder of the dataset claim"),
        ((*COMPLETE, "--model=llama-3.1-9b"), "there is no model 'llama-3.1-9b'; did you mean llama-3.1-8b?"),
        ((*COMPLETE, "--batch=100"), "batch 100 is not a multiple of the 32 ranks: take 96 or 128"),
        ((*COMPLETE, "--batch=0"), "argument --batch: invalid count value: '0'"),
        ((*COMPLETE, "--steps=5", "--tokens=1e9"), "give --steps or --tokens, not both"),
        ((*COMPLETE, "--model=gpt3-175b"), "gpt3-175b does not fit 4 nodes of gpu-east: with one sample a pass"),
        ((*COMPLETE, "--model=gpt2-124m", "--sequence-length=2048"), "samples of at most 1024 tokens, not 2048"),
        ((*COMPLETE, "--model=llama-3-8b", "--sequence-length=16384"), "samples of at most 8192 tokens, not 16384"),
        ((*COMPLETE, "--name=gpt2-124m"), "jobs/research/gpt2-124m is there already"),
    ],
)
def test_what_cannot_be_taken_is_one_line_and_nothing_is_written(
    shared_repository: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = files_of(shared_repository)

    done = new_job(shared_repository, *arguments)

    assert (done.code, done.out, done.errors.count("\n")) == (2, "", 1)
    assert said in done.errors
    assert files_of(shared_repository) == before


def test_the_name_of_a_job_that_was_retired_is_not_taken(repository: Path) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for step in (["add", "."], [*author, "commit", "-qm", "a"], ["rm", "-rq", "jobs"], [*author, "commit", "-qm", "b"]):
        subprocess.run(["git", "-C", repository, *step], check=True)

    said = new_job(repository, *COMPLETE, "--name=gpt2-124m")

    assert said.code == 2
    assert "a job was called jobs/research/gpt2-124m before" in said.errors
    assert "would go on from its checkpoints" in said.errors


def test_a_folder_that_cannot_be_written_is_left_as_it_was(repository: Path) -> None:
    (repository / "jobs/vision").write_text("a file where a team's folder should be\n")
    team = repository / "clusters/gpu-east/platform/vision"
    team.mkdir()
    (team / "kustomization.yaml").write_text("resources:\n- ../../../../base/team\n")
    before = files_of(repository)

    said = new_job(repository, *COMPLETE, "--team=vision")

    assert said.code == 2
    assert "cannot write jobs/vision/my-run" in said.errors
    assert files_of(repository) == before


def test_a_terminal_is_asked_and_a_bad_answer_is_asked_again_with_the_reason(repository: Path) -> None:
    typed = ["gpu-eats", "gpu-east", "", "gpt2-124m", "my-run", "", "llama-3.1-8b", "64", "4", "web", "/data/web"]

    said = new_job(repository, "--tokens=1e9", answers=iter([*typed, "100", "96", "two", "2e-4"]))

    assert (said.code, said.errors) == (0, "")
    hold("asked.txt", said.out.split("---")[0])
    written = (repository / "jobs/research/my-run/job.yaml").read_text()
    assert "global: 96\n" in written
    assert "learningRate: 2e-4\n" in written


def test_what_is_proposed_after_another_batch_is_for_that_batch(repository: Path) -> None:
    said = new_job(repository, *COMPLETE, "--dry-run", answers=iter(["", "", "96", "", ""]))

    rates = re.findall(r"learning ?[rR]ate(?: \[|: )([0-9.e-]+)", said.out)
    steps = re.findall(r"steps(?: \[|: )(\d+)", said.out)
    assert (len(rates) > 1, len({float(rate) for rate in rates})) == (True, 1)
    assert (len(steps) > 1, len(set(steps))) == (True, 1)


def test_answers_that_end_early_write_nothing(repository: Path) -> None:
    said = new_job(repository, answers=iter(["gpu-east"]))

    assert (said.code, said.errors) == (2, "new-job: the input ended before the last answer; nothing is written\n")
    assert not (repository / "jobs/research/my-run").exists()


def test_a_real_terminal(repository: Path) -> None:
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-m", "trainyard", "new-job", *COMPLETE, "--batch=128", "--learning-rate=2e-4"],
        cwd=repository,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(HOME / "tools"), "TERM": "dumb"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(ours, b"\n\n500\n")
    out, errors = asked.communicate(timeout=60)
    os.close(ours)

    assert (asked.returncode, errors) == (0, "")
    assert "steps [" in out
    assert "  steps: 500\n" in (repository / "jobs/research/my-run/job.yaml").read_text()
