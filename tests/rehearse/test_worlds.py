"""Pods that start a world each are an error, whatever starts them; pods that meet are none."""

from pathlib import Path

import pytest
import yaml

from tests.by_day import marks, sample
from tests.controlplane.checkout import add_job, make_checkout
from tests.rehearse.rehearsing import rehearse, said
from trainyard.rehearse.load import load
from trainyard.rehearse.scale import Scale
from trainyard.rehearse.worlds import JoinedRank, World, worlds

JOINS = """\
import json, os, sys
rank, world = (os.environ.get(name) for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
if world is not None:
    os.environ |= {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
if "WORLD_SIZE" in os.environ:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    dist.barrier()
print(json.dumps({"step": 1, "loss": 1.0}), flush=True)
"""
"""A script that joins the others where its launcher tells it of any, as frameworks do."""
METADATA = {"name": "any", "namespace": "research"}


def manifest(folder: Path, command: list[str], gpus: int = 1) -> None:
    """Two pods that know each other, and the script that they run."""
    (folder / "joins.py").write_text(JOINS)
    container = {"name": "trainer", "image": "registry.example.com/trainer:v1", "command": command}
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    pod = {"restartPolicy": "Never", "subdomain": "any", "containers": [container | limits]}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": {"spec": pod}}
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": "any"}}
    objects = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": METADATA, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": METADATA, "spec": service},
    ]
    (folder / "job.yaml").write_text(yaml.safe_dump_all(objects))


IN_TWO = "its pods met in 2 separate worlds, of 1, 1 ranks, and the job has 2 in one"
IN_NONE = "2 pods took steps, and no rank of them joined another: the job has 2 ranks"
ALONE = {
    "torchrun --standalone --nproc-per-node=1 joins.py": IN_TWO,
    "deepspeed --num_gpus=1 joins.py": IN_TWO,
    "mpirun --allow-run-as-root --oversubscribe -np 1 python joins.py": IN_TWO,
    "accelerate launch joins.py": IN_NONE,
    "python joins.py": IN_NONE,
}
"""What each of two pods runs, and what is told of it."""
BY_DAY = sample(sorted(ALONE), 1)


@pytest.mark.claim("worlds-of-their-own")
@pytest.mark.rehearsal
@pytest.mark.root
@pytest.mark.parametrize(
    ("command", "told"),
    [pytest.param(each.split(), ALONE[each], id=each.split()[0], marks=marks(each, BY_DAY)) for each in ALONE],
)
def test_pods_that_train_alone_do_not_pass(tmp_path: Path, command: list[str], told: str) -> None:
    manifest(tmp_path, command)

    found = rehearse("job.yaml", "--once", "--program", "joins.py=joins.py", cwd=tmp_path)

    assert found.code == 1, said(found)
    assert [each.partition(" (")[0] for each in found.findings] == [f"RHS012 {told}"], said(found)


MEETS = ["torchrun", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=any-0.any:29400"]


@pytest.mark.claim("loopback-is-said")
@pytest.mark.rehearsal
@pytest.mark.root
def test_ranks_that_meet_pass_on_loopback_too_and_what_that_leaves_out_is_said(tmp_path: Path) -> None:
    manifest(tmp_path, [*MEETS, "joins.py"])

    found = rehearse("job.yaml", "--once", "--loopback", "--program", "joins.py=joins.py", cwd=tmp_path)

    assert found.code == 0, said(found)
    assert found.document["rehearsal"]["seen"]["ranks"].startswith("2 of 2 ranks after ")
    assert found.document["rehearsal"]["network"] == "loopback"
    assert found.document["rehearsal"]["not_checked"]


@pytest.mark.rehearsal
@pytest.mark.root
def test_pods_that_need_not_meet_pass_and_no_meeting_is_claimed(tmp_path: Path) -> None:
    manifest(tmp_path, ["python", "joins.py"], gpus=0)

    found = rehearse("job.yaml", "--once", "--program", "joins.py=joins.py", cwd=tmp_path)

    assert found.code == 0, said(found)
    assert set(found.document["rehearsal"]["not_seen"]) == {"ranks", "save", "resume"}


def test_a_pod_that_was_made_anew_is_in_the_world_that_it_joined_last() -> None:
    joined = [
        JoinedRank("a", 0, 2, "first", 1.0),
        JoinedRank("b", 1, 2, "first", 1.0),
        JoinedRank("a", 0, 2, "second", 2.0),
        JoinedRank("b", 1, 2, "second", 2.1),
    ]

    assert worlds(joined) == (World(2, (0, 1), ("a", "b")),)
    assert worlds([*joined, JoinedRank("b", 0, 1, "", 3.0)]) == ()


def test_numbers_that_a_command_says_are_scaled_as_those_of_job_yaml(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    words = ["torchrun", "--nnodes=2", "--nproc_per_node=8", "--rdzv-endpoint=x:29400", "/workspace/train.py"]
    folder = add_job(root, "literal", spec={"nodes": 2, "command": words})

    loaded = load(root, folder, root, Scale(), tmp_path / "work")

    main = loaded.workload.pod_sets[0].main()
    assert main is not None
    assert main.launch is not None
    assert (loaded.ranks, loaded.workload.pods, main.gpus, loaded.size) == (4, 2, 2, "")
    assert [main.launch.options[name].value for name in ("nnodes", "nproc_per_node")] == ["2", "2"]


@pytest.mark.parametrize("per_node", ["2", "4", "16"])
def test_numbers_that_do_not_fit_the_nodes_are_held_to_all_their_gpus(tmp_path: Path, per_node: str) -> None:
    """Two ranks on eight GPUs would fit the two nodes of two that the job is made here."""
    root = make_checkout(tmp_path / "checkout")
    words = ["torchrun", "--nnodes=2", f"--nproc_per_node={per_node}", "--rdzv-endpoint=x:29400", "/workspace/train.py"]
    folder = add_job(root, "literal", spec={"nodes": 2, "command": words})

    loaded = load(root, folder, root, Scale(), tmp_path / "work")

    assert (loaded.ranks, loaded.full_ranks) == (16, 16)
