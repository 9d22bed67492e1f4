"""Kubeflow's own TrainerClient and types, with branches in the place of submissions."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubeflow.trainer import BuiltinTrainer, CustomTrainer, Initializer, TorchTuneConfig, TrainerClient
from kubeflow.trainer.options import Labels, Name

from tests.author.support import HOME, files_of, hold
from trainyard.notebook import PullRequestClient

pytestmark = pytest.mark.commands

STEPS = 5


def train(greeting: str, steps: int = 1) -> None:
    import os

    print(greeting, [os.environ["RANK"] for _ in range(steps)])


def idle() -> None:
    print("idle")


def train_with_outside() -> int:
    return STEPS


@pytest.fixture
def checkout(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose tools/new-job is this one's, without its set-up."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "researcher")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "researcher@example.com")
    script = repository / "tools/new-job"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nPYTHONPATH={HOME}/tools exec {sys.executable} -P -m trainyard new-job "$@"\n')
    script.chmod(0o755)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "state")
    return repository


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout


def client(root: Path, **options: Any) -> TrainerClient:
    return PullRequestClient(root, team="research", cluster="gpu-east", **options)


def test_a_function_becomes_a_job_on_a_branch(checkout: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "server")
    git(checkout, "remote", "add", "origin", str(tmp_path / "server"))
    before = files_of(checkout)
    trainer = CustomTrainer(
        func=train,
        func_args={"greeting": "it's", "steps": 2},
        num_nodes=2,
        resources_per_node={"gpu": 8},
        env={"NCCL_DEBUG": "INFO"},
    )

    name = client(checkout, push="origin").train(runtime="torchrun", trainer=trainer, options=[Name("greetings")])

    assert name == "greetings"
    assert (files_of(checkout), git(checkout, "status", "--short")) == (before, "")
    hold("notebook.diff", git(checkout, "diff", "--no-color", "main", "greetings"))
    assert (
        git(tmp_path / "server", "log", "--format=%an: %s", "greetings").splitlines()[0]
        == "researcher: Train greetings"
    )

    code = git(checkout, "show", "greetings:jobs/research/greetings/train.py")
    ran = subprocess.run(
        [sys.executable, "-"], input=code, env={**os.environ, "RANK": "3"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "it's ['3', '3']\n"

    found = client(checkout, base="greetings").get_job("greetings")
    assert (found.runtime.name, found.num_nodes, found.status) == ("torchrun", 2, "Unknown")
    listed = client(checkout, base="greetings").list_jobs()
    assert [job.name for job in listed] == ["gpt2-124m", "greetings"]
    with pytest.raises(ValueError, match="a job was called jobs/research/greetings before"):
        client(checkout).train(trainer=trainer, options=[Name("greetings")])


@pytest.mark.claim("notebook-runtime")
def test_the_runtime_of_the_sdk_is_the_base_that_makes_a_train_job(checkout: Path) -> None:
    there = client(checkout)
    name = there.train(runtime="torch-distributed", trainer=CustomTrainer(func=train, func_args={"greeting": "a"}))

    assert name.startswith("train-")
    assert "../../../base/trainjob " in git(checkout, "show", f"{name}:jobs/research/{name}/kustomization.yaml")
    assert there.get_runtime("torch-distributed").name == "trainjob"
    assert "rayjob" not in [runtime.name for runtime in there.list_runtimes()]


@pytest.mark.claim("notebook-lints-first")
def test_a_job_that_would_not_train_is_told_and_makes_no_branch(checkout: Path) -> None:
    trainer = CustomTrainer(func=train, func_args={"greeting": "a"}, env={"BUFFER SIZE": "1"})

    with pytest.raises(ValueError, match=r"(?s)the job would not train, so no branch was made\n.*BUFFER SIZE.*1 error"):
        client(checkout).train(trainer=trainer, options=[Name("spaced")])
    assert git(checkout, "branch", "--format=%(refname:short)") == "main\n"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "packages": (
        {"trainer": CustomTrainer(func=idle, packages_to_install=["einops"])},
        "pods install nothing at start",
    ),
    "cpu": ({"trainer": CustomTrainer(func=idle, resources_per_node={"cpu": 4})}, "a pod has its node for itself"),
    "builtin": ({"trainer": BuiltinTrainer(config=TorchTuneConfig())}, "give a CustomTrainer with a function"),
    "initializer": ({"initializer": Initializer(), "trainer": CustomTrainer(func=idle)}, "datasets lie on"),
    "outside": (
        {"trainer": CustomTrainer(func=train_with_outside)},
        "train_with_outside uses STEPS from outside itself",
    ),
    "lambda": ({"trainer": CustomTrainer(func=lambda: None)}, "the source of a lambda is not a file"),
    "arguments": ({"trainer": CustomTrainer(func=train, func_args={"greeting": Path()})}, "func_args can hold numbers"),
    "option": ({"trainer": CustomTrainer(func=idle), "options": [Labels({"a": "b"})]}, "not compatible"),
    "runtime": (
        {"trainer": CustomTrainer(func=idle), "runtime": "jax"},
        "there is no runtime 'jax': there are torchrun",
    ),
    "ray": ({"trainer": CustomTrainer(func=idle), "runtime": "rayjob"}, "rayjob starts no plain program"),
    "nodes": ({"trainer": CustomTrainer(func=idle, num_nodes=99)}, "99 nodes are too many: gpu-east has 32"),
    "gpus": (
        {"trainer": CustomTrainer(func=idle, resources_per_node={"gpu": 16})},
        "16 GPUs a node: a node of gpu-east",
    ),
    "part of a node": (
        {"trainer": CustomTrainer(func=idle, num_nodes=4, resources_per_node={"gpu": 2})},
        "2 GPUs a node: a pod on gpu-east takes its node whole, 8 GPUs, so 4 x 2 would reserve 32 GPUs and leave "
        "24 idle; ask for num_nodes=1 and 8 GPUs a node, 8 GPUs in all",
    ),
    "name": ({"trainer": CustomTrainer(func=idle), "options": [Name("../../etc")]}, "'../../etc' is not a valid name"),
    "taken": ({"trainer": CustomTrainer(func=idle), "options": [Name("gpt2-124m")]}, "is there already"),
    "branch": ({"trainer": CustomTrainer(func=idle), "options": [Name("main")]}, "there is a branch main already"),
}


@pytest.mark.claim("notebook-refuses", "part-of-a-node-is-refused")
def test_what_cannot_become_a_job_is_told(checkout: Path) -> None:
    for what, (arguments, reason) in REFUSED.items():
        with pytest.raises(ValueError, match=r".") as error:
            client(checkout).train(**arguments)
        assert reason in str(error.value), what
    assert git(checkout, "branch", "--format=%(refname:short)") == "main\n"


def test_what_only_the_cluster_knows_is_not_made_up(checkout: Path) -> None:
    there = client(checkout)
    for ask in (there.get_job_logs, there.get_job_events, there.wait_for_job_status):
        with pytest.raises(RuntimeError, match=r"docs/lifecycle\.md says how to watch it"):
            ask("gpt2-124m")
    with pytest.raises(RuntimeError, match=r"git rm -r jobs/research/gpt2-124m, then tools/list-jobs"):
        there.delete_job("gpt2-124m")
    with pytest.raises(ValueError, match="no job is called jobs/research/gpt3"):
        there.get_job("gpt3")


def test_a_folder_that_is_no_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a checkout of a repository of training jobs"):
        client(tmp_path)


def test_a_job_of_no_gpus_is_not_one_of_all(checkout: Path) -> None:
    for many in ({"num_nodes": 0}, {"resources_per_node": {"gpu": 0}}):
        with pytest.raises(ValueError, match=r"'0' is not a number of nodes|0 GPUs a node"):
            client(checkout).train(trainer=CustomTrainer(func=train, func_args={"greeting": "a"}, **many))
