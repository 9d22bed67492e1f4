"""Each launcher's command line as the launcher itself would read it."""

import json
from typing import Any

import pytest

from tests.workload.manifests import where, workload
from trainyard.workload.launch import argument
from trainyard.workload.model import Launch, Setting, Word
from trainyard.workload.rendezvous import rendezvous

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: job, namespace: team}}
spec:
  template:
    spec:
      containers:
      - {{name: trainer, image: trainer, command: {command}, env: {env}}}
"""


def launched(command: str | list[str], **env: str) -> Launch:
    words = command.split() if isinstance(command, str) else command
    items = [{"name": name, "value": value} for name, value in env.items()]
    found = workload(JOB.format(command=json.dumps(words), env=json.dumps(items))).pod_sets[0].containers[0].launch
    assert found is not None
    return found


def plain(setting: Setting) -> Any:
    value = setting.value
    return {name: each.value for name, each in value.items()} if isinstance(value, dict) else value


def written(launch: Launch) -> dict[str, Any]:
    return {name: plain(setting) for name, setting in launch.options.items() if not setting.implied}


def program(launch: Launch) -> str:
    return " ".join(word.text for word in launch.program)


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "torchrun --nnodes=2 --nproc-per-node 8 train.py --lr 1",
        "torchrun",
        {"nnodes": "2", "nproc_per_node": "8"},
        "train.py --lr 1",
    ),
    (
        "torchrun --nproc_per_node=gpu -m trainer.main --nnodes=9",
        "torchrun",
        {"nproc_per_node": "gpu", "module": True},
        "-m trainer.main --nnodes=9",
    ),
    (
        "torchrun --standalone train.py",
        "torchrun",
        {"standalone": True},
        "train.py",
    ),
    (
        "torchrun -t 3 -r 0:1 --no-python ./run -x",
        "torchrun",
        {"tee": "3", "redirects": "0:1", "no_python": True},
        "./run -x",
    ),
    (
        "torchrun --unheard-of 3 train.py",
        "torchrun",
        {"unheard_of": "3"},
        "train.py",
    ),
    (
        "torchrun --unheard-of train.py",
        "torchrun",
        {"unheard_of": True},
        "train.py",
    ),
    (
        "torchrun -- train.py --nnodes=2",
        "torchrun",
        {},
        "train.py --nnodes=2",
    ),
    (
        "torchrun --nnodes",
        "torchrun",
        {"nnodes": None},
        "",
    ),
    (
        "/opt/conda/bin/torchrun train.py",
        "torchrun",
        {},
        "train.py",
    ),
    (
        "python3 -u -m torch.distributed.run --nnodes 2 t.py",
        "torchrun",
        {"nnodes": "2"},
        "t.py",
    ),
    (
        "python -m torch.distributed.launch --use_env --nproc_per_node=4 t.py",
        "torchrun",
        {"use_env": True, "nproc_per_node": "4"},
        "t.py",
    ),
    (
        "exec env A=1 torchrun --nnodes 2 t.py",
        "torchrun",
        {"nnodes": "2"},
        "t.py",
    ),
    (
        "numactl --cpunodebind=0 torchrun t.py",
        "torchrun",
        {},
        "t.py",
    ),
    *(
        (f"{wrapper} torchrun --nnodes 2 t.py", "torchrun", {"nnodes": "2"}, "t.py")
        for wrapper in (
            "uv run",
            "uv run --with torchrun --python 3.12 --no-sync",
            "poetry run",
            "conda run -n train --no-capture-output",
            "micromamba run -n train",
            "apptainer exec --nv image.sif",
            "env -u DEBUG A=1",
            "nice -n 5",
            "nsys profile -o trace --trace=cuda,nvtx",
            "timeout --signal=TERM 3h",
            "/opt/nvidia/nvidia_entrypoint.sh",
            "exec setsid numactl --cpunodebind=0",
        )
    ),
    ("uv run --with peft train.py --lr 1", "python", {}, "train.py --lr 1"),
    ("uv run -m pkg.train", "python", {}, "-m pkg.train"),
    ("poetry run python train.py", "python", {}, "train.py"),
    (
        "deepspeed --num_gpus 8 -H /etc/hosts.ds --no_ssh t.py --deepspeed ds.json",
        "deepspeed",
        {"num_gpus": "8", "hostfile": "/etc/hosts.ds", "no_ssh": True},
        "t.py --deepspeed ds.json",
    ),
    (
        "deepspeed --include worker-0:0,1 --master_port=29501 t.py",
        "deepspeed",
        {"include": "worker-0:0,1", "master_port": "29501"},
        "t.py",
    ),
    (
        "accelerate launch --num-processes 16 --use_fsdp --fsdp_version 2 -m pkg.train a",
        "accelerate",
        {"num_processes": "16", "use_fsdp": True, "fsdp_version": "2", "module": True},
        "-m pkg.train a",
    ),
    (
        "accelerate-launch --multi_gpu t.py",
        "accelerate",
        {"multi_gpu": True},
        "t.py",
    ),
    (
        "composer -n 8 --world_size 16 --node_rank 1 --master_addr a train.py --lr 1",
        "composer",
        {"nproc": "8", "world_size": "16", "node_rank": "1", "master_addr": "a"},
        "train.py --lr 1",
    ),
    ("composer -m train.main", "composer", {"module_mode": True}, "train.main"),
    (
        "fabric run --devices=8 --num-nodes 2 --main-address a train.py",
        "fabric",
        {"devices": "8", "num_nodes": "2", "main_address": "a"},
        "train.py",
    ),
    (
        "mpirun -np 16 -H a:8,b:8 -x A=1 -x B --mca btl self,tcp -mca pml ob1 --bind-to none python t.py",
        "mpirun",
        {
            "np": "16",
            "host": "a:8,b:8",
            "x": {"A": "1", "B": None},
            "mca": {"btl": "self,tcp", "pml": "ob1"},
            "bind_to": "none",
        },
        "python t.py",
    ),
    (
        "mpiexec --n 4 --hostfile /etc/mpi/hostfile --allow-run-as-root ./a.out -n 3",
        "mpirun",
        {"np": "4", "hostfile": "/etc/mpi/hostfile", "allow_run_as_root": True},
        "./a.out -n 3",
    ),
    (
        "mpirun -n 4 -ppn 2 -genv A 1 -f hosts ./a.out",
        "mpirun",
        {"np": "4", "ppn": "2", "genv": {"A": "1"}, "hostfile": "hosts"},
        "./a.out",
    ),
    (
        "horovodrun -np 8 -H a:4,b:4 -p 2222 --gloo python t.py",
        "horovodrun",
        {"np": "8", "hosts": "a:4,b:4", "ssh_port": "2222", "gloo": True},
        "python t.py",
    ),
    (
        "python -u train.py --lr 1",
        "python",
        {},
        "train.py --lr 1",
    ),
    (
        "python3.11 -X dev -m pkg.train",
        "python",
        {},
        "-m pkg.train",
    ),
]


@pytest.mark.parametrize(("command", "launcher", "options", "rest"), CASES, ids=[case[0] for case in CASES])
def test_reads_options_up_to_the_program(command: str, launcher: str, options: dict[str, Any], rest: str) -> None:
    found = launched(command)
    assert (found.launcher, written(found), program(found)) == (launcher, options, rest)


@pytest.mark.parametrize("command", ["uv pip install torchrun", "conda install -y mpirun", "echo torchrun t.py"])
def test_a_name_among_the_words_of_another_program_starts_nothing(command: str) -> None:
    found = workload(JOB.format(command=json.dumps(command.split()), env="[]")).pod_sets[0].containers[0].launch

    assert found is None


ON_GPUS = JOB.replace("env: {env}", "env: {env}, resources: {{limits: {{nvidia.com/gpu: 8}}}}")
OF_TORCHRUN = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "h"}


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        ("", {}, {"num_processes": "8"}),
        ("--num_machines 2 --machine_rank 1", {}, {"num_processes": "8", "num_machines": "2", "machine_rank": "1"}),
        ("--num_processes 4", {}, {"num_processes": "4"}),
        ("--cpu", {}, {}),
        ("--config_file=a.yaml", {}, {}),
        ("", OF_TORCHRUN, {"num_processes": "16", "num_machines": "2", "machine_rank": "1", "main_process_ip": "h"}),
        ("--num_processes 1", OF_TORCHRUN, {"num_processes": "1"}),
        ("--num_machines 4", OF_TORCHRUN, {"num_processes": "8", "num_machines": "4"}),
        ("", {"PET_NNODES": "2"}, {"num_processes": "16", "num_machines": "2", "machine_rank": "0"}),
    ],
)
def test_accelerate_works_out_its_processes_and_machines(options: str, env: dict[str, str], expected: Any) -> None:
    words = json.dumps(["accelerate", "launch", *options.split(), "t.py"])
    items = [{"name": name, "value": value} for name, value in env.items()]
    text = ON_GPUS.format(command=words, env=json.dumps(items))
    launch = workload(text).pod_sets[0].containers[0].launch
    assert launch is not None
    names = ("num_processes", "num_machines", "machine_rank", "main_process_ip")

    assert {name: found.value for name in names if (found := launch.option(name)) is not None} == expected


def test_an_option_and_its_value_in_one_word_are_not_what_their_author_meant() -> None:
    found = launched(["mpirun", "-np 32", "-x A=1", "--mca btl self", "python train.py"])
    assert written(found) == {"np 32": True, "x A": "1", "mca btl self": True}
    assert program(found) == "python train.py"


def test_torchrun_defaults_are_implied() -> None:
    found = launched("torchrun t.py")
    assert {name: setting.value for name, setting in found.options.items() if setting.implied} == {
        "nnodes": "1:1",
        "nproc_per_node": "1",
        "rdzv_backend": "static",
        "rdzv_id": "none",
        "rdzv_endpoint": "127.0.0.1:29500",
        "max_restarts": "0",
        "node_rank": "0",
        "master_addr": "127.0.0.1",
        "master_port": "29500",
    }


def test_flags_beat_pet_variables() -> None:
    found = launched("torchrun --nnodes=2 t.py", PET_NNODES="4", PET_NPROC_PER_NODE="8", NNODES="9", PET_STANDALONE="0")
    assert written(found) == {"nnodes": "2", "nproc_per_node": "8"}
    setting = found.option("nproc_per_node")
    assert setting is not None
    assert where(setting.spot) == "Job/job spec.template.spec.containers[0].env[PET_NPROC_PER_NODE].value"


def test_words_of_unknown_content_leave_no_default() -> None:
    found = launched(["sh", "-c", "torchrun --nnodes=2 $OPTIONS train.py"])
    assert {name: setting.value for name, setting in found.options.items()} == {"nnodes": "2"}
    assert program(found) == "train.py"


def test_the_launcher_counts_and_not_what_runs_before_it() -> None:
    found = launched(["bash", "-lc", "pip install x && python prepare.py && exec torchrun t.py & wait"])
    assert (found.launcher, program(found)) == ("torchrun", "t.py")


@pytest.mark.parametrize(
    "script",
    [
        "until mpirun -np 16 nvidia-smi -L; do sleep 5; done; mpirun -np 16 -x A ./all_reduce_perf -b 8",
        "mpirun -np 2 /usr/bin/hostname && mpirun -np 16 -x A ./all_reduce_perf",
        "mpirun -np 16 -x A ./all_reduce_perf; mpirun -np 2 true",
    ],
)
def test_a_launch_that_only_looks_around_is_not_the_jobs(script: str) -> None:
    found = launched(["bash", "-c", script])
    assert (program(found).split()[0], written(found)) == ("./all_reduce_perf", {"np": "16", "x": {"A": None}})


def test_a_launch_that_only_looks_around_counts_where_there_is_no_other() -> None:
    assert program(launched("mpirun -np 2 hostname")) == "hostname"


def test_a_script_in_a_script() -> None:
    found = launched(["sh", "-c", "exec bash -c 'torchrun --nnodes=2 t.py'"])
    assert (found.launcher, written(found)) == ("torchrun", {"nnodes": "2"})


def test_exports_of_a_script_are_read_by_the_launcher() -> None:
    found = launched(["sh", "-c", "export PET_NNODES=2; PET_NPROC_PER_NODE=4 torchrun t.py"])
    assert written(found) == {"nnodes": "2", "nproc_per_node": "4"}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--batch-size 4", "4"),
        ("--batch_size=4", "4"),
        ("--batch_size=4 --batch-size=8", "8"),
        ("--batch-size", True),
        ("--batch-size --lr 1", True),
        ("--batch-size -1", "-1"),
        ("-b 2", "2"),
        ("--batch 4", None),
        ("--lr 1", None),
        ("train.py batch-size 4", None),
    ],
)
def test_a_programs_own_flag(words: str, value: str | bool | None) -> None:
    spot = launched("python t.py").spot
    found = argument([Word(text, spot) for text in words.split()], ("batch_size", "-b"))
    assert (None if found is None else found.value) == value


@pytest.mark.parametrize(
    ("command", "meeting"),
    [
        ("torchrun --rdzv_backend=c10d --rdzv_endpoint=h-0.h:29502 t.py", ("c10d", "h-0.h", 29502, False)),
        ("torchrun --rdzv_backend=c10d --rdzv_endpoint=h-0.h t.py", ("c10d", "h-0.h", 29400, True)),
        ("torchrun --rdzv_endpoint=h-0.h t.py", ("static", "h-0.h", None, True)),
        ("torchrun --master_addr=h --nnodes=2 t.py", ("static", "h", 29500, True)),
        ("torchrun --master_addr=h --master_port=1 t.py", ("static", "h", 1, False)),
        ("torchrun --rdzv_backend=c10d t.py", None),
        ("torchrun --standalone t.py", ("c10d", "localhost", 0, True)),
        ("torchrun --rdzv_backend=c10d --rdzv_endpoint=[::1]:7 t.py", ("c10d", "::1", 7, False)),
        ("deepspeed --master_addr=h t.py", ("static", "h", 29500, True)),
        ("accelerate launch --main_process_ip h --main_process_port 7 t.py", ("static", "h", 7, False)),
        ("mpirun -np 2 t.py", None),
    ],
)
def test_where_ranks_meet(command: str, meeting: tuple[str, str, int | None, bool] | None) -> None:
    found = rendezvous(launched(command))
    told = None if found is None else (found.backend, found.host.value, found.port.value, found.port.implied)
    assert told == meeting


def test_a_script_without_launcher_meets_where_its_variables_say() -> None:
    found = rendezvous(launched("python t.py", MASTER_ADDR="h", MASTER_PORT="1234"))
    assert found is not None
    assert (found.host.value, found.port.value) == ("h", 1234)
    assert where(found.port.spot) == "Job/job spec.template.spec.containers[0].env[MASTER_PORT].value"


@pytest.mark.parametrize(
    "look",
    ["command -v torchrun", "command -V torchrun || exit 1", "torchrun --help", "torchrun --version || true"],
)
def test_a_look_at_a_launcher_is_no_launch(look: str) -> None:
    found = launched(["bash", "-c", f"{look}\ntorchrun --nproc_per=4 --modu trainer.main --lr 1"])

    assert written(found) == {"nproc_per_node": "4", "module": True}
    assert program(found) == "--module trainer.main --lr 1"


def test_an_option_that_is_short_for_several_is_none_of_them() -> None:
    assert written(launched("torchrun --n 4 --rdzv=c10d train.py")) == {"n": "4", "rdzv": "c10d"}
    assert written(launched("deepspeed --num=4 train.py")) == {"num": "4"}
