"""What is said to be not judged: hidden in an image, behind a branch, unknown. What is judged says nothing."""

import json
from pathlib import Path

import pytest

from tests.workload.manifests import unit
from trainyard.lint.pipeline import lint
from trainyard.lint.unjudged import gaps
from trainyard.repository.discover import discover

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: job, namespace: team}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {{name: trainer, image: trainer, {runs} resources: {{limits: {{nvidia.com/gpu: 8}}}}}}
"""
START = "rendezvous, ranks and exit code"
UNREAD = "no command of the script is known: it is no shell's, too long, or becomes too long"


def said(runs: str) -> list[tuple[str, str]]:
    return [(gap.what, gap.why) for gap in gaps(unit(JOB.format(runs=runs)), ())]


def shell(script: str) -> str:
    return f"command: [bash, -c, {json.dumps(script)}],"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ("", [(START, "the image decides what runs")]),
        ("command: [/workspace/run.sh],", [(START, "nothing is known of `/workspace/run.sh`")]),
        ("command: [bash, run.sh, --fast],", [(START, "nothing is known of `bash run.sh`")]),
        ("command: [axolotl, train, config.yaml],", [(START, "nothing is known of `axolotl train`")]),
        (
            shell("set -e; cd /src; pip install -e .; tune run full_finetune; cp -r out /ckpt"),
            [(START, "nothing is known of `tune run`")],
        ),
        (shell("echo " + "x" * 40_000 + "\ntorchrun t.py"), [(START, UNREAD)]),
        (shell("echo {1..1000000000}\ntorchrun t.py"), [(START, UNREAD)]),
        (
            shell("if [ $RANK = 0 ]; then torchrun pretrain_gpt.py --micro-batch-size 1; fi"),
            [("rendezvous", "a branch of the script decides whether torchrun runs")],
        ),
        (
            shell("torchrun --nnodes=$(wc -l < /etc/hosts) pretrain_gpt.py"),
            [("nnodes", "its value is known only in the pod")],
        ),
        ("command: [torchrun, train.py],", [("batch", "nothing is known of the program train.py")]),
        ("command: [python, -c, 'import torch'],", [("batch", "nothing is known of the program python -c")]),
        ("command: [torchrun, train.py, --micro-batch-size, '4'],", []),
        ("command: [torchrun, --nproc_per_node=8, pretrain_gpt.py],", []),
        ("command: [mpirun, -np, '8', ./all_reduce_perf],", []),
        (shell("cp -r /data /scratch; sleep infinity"), []),
    ],
)
def test_what_nobody_can_see_is_said(runs: str, expected: list[tuple[str, str]]) -> None:
    assert said(runs) == expected


@pytest.mark.parametrize(
    ("launches", "why"),
    [
        ("deepspeed, train.py", "deepspeed does not know any other host"),
        ("torchrun, --nproc-per-node=8, train.py", "torchrun counts on 1 node"),
        ("accelerate, launch, --num_processes=8, train.py", "accelerate launch counts on 1 machine"),
    ],
)
def test_two_pods_of_which_nothing_says_that_they_belong_together(launches: str, why: str) -> None:
    two = JOB.replace("spec:\n  template", "spec:\n  completions: 2\n  parallelism: 2\n  template", 1)

    (first, *_) = gaps(unit(two.format(runs=f"command: [{launches}],")), ())

    assert (first.what, first.why) == ("whether the 2 pods are to train as one", f"{why}, so each trains alone")


def test_pods_that_wait_for_a_launcher_are_not_missed() -> None:
    text = """
    apiVersion: kubeflow.org/v2beta1
    kind: MPIJob
    metadata: {name: job, namespace: team}
    spec:
      mpiReplicaSpecs:
        Launcher: {template: {spec: {containers: [{name: l, image: a, command: [mpirun, ./all_reduce_perf]}]}}}
        Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: a, command: [/usr/sbin/sshd, -De]}]}}}
    """

    assert gaps(unit(text), ()) == ()


def test_a_cached_result_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "repo"
    root.mkdir()
    (root / "job.yaml").write_text(JOB.format(runs="command: [/workspace/run.sh],"))
    found = discover(["job.yaml"], root, root)

    first, second = lint(root, found), lint(root, found)

    assert (first.cached, second.cached) == (0, 1)
    assert [(each.job, each.what) for each in first.not_judged] == [("job.yaml", START)]
    assert first.not_judged == second.not_judged
    assert not [finding for finding in first.findings if finding.input_error]


def test_a_kind_of_an_unserved_version_is_judged_in_part(tmp_path: Path) -> None:
    text = "apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {name: a, namespace: b}\nspec: {}\n"
    (tmp_path / "job.yaml").write_text(text)

    outcome = lint(tmp_path, discover(["job.yaml"], tmp_path, tmp_path), use_cache=False)

    assert [(each.what, each.why) for each in outcome.not_judged] == [
        ("pods of MPIJob", "no rule knows this version"),
        ("fields of MPIJob", "no schema"),
    ]
