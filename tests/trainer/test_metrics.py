"""What Prometheus reads from a running trainer is what the rules and dashboards were written for."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from tests.trainer.conftest import HOME, Trainer, free_port, lines_of, until
from trainer import exposed_communication, report, straggler

pytestmark = pytest.mark.torch

CONTRACT = yaml.safe_load((HOME / "schemas/trainer-metrics.yaml").read_text())


@pytest.mark.claim("metrics-hold-together")
def test_endpoint_serves_the_contract(train: Trainer) -> None:
    port = free_port()
    keys = ["run=seen", "steps=100000", f"metrics.port={port}", "metrics.peak_tflops=0.1", "checkpoint.every_steps=3"]
    ranks = train.start(*keys, "metrics.exposed_every_steps=2", ranks=2)
    until(lambda: ranks.out.count("\n") >= 12)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{CONTRACT['path']}", timeout=60) as answer:
        text = answer.read().decode()
    ranks.send(signal.SIGKILL)
    ranks.wait()
    lines = lines_of(ranks.out)

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    values = dict(re.findall(r"^(trainyard_\w+?)(?:\{.*\})? (\S+)$", text, re.MULTILINE))
    assert {name: kind for name, kind in kinds.items() if not name.endswith("_created")} == {
        metric["name"]: metric["type"] for metric in CONTRACT["metrics"]
    }
    assert "trainyard_run_info{" in text
    for label in next(m for m in CONTRACT["metrics"] if m["name"] == "trainyard_run_info")["labels"]:
        assert f'{label}="' in text
    assert float(values["trainyard_planned_steps"]) == 100000
    assert float(values["trainyard_step"]) >= 12
    assert float(values["trainyard_tokens_total"]) == float(values["trainyard_samples_total"]) * 32
    assert 0 < float(values["trainyard_loss"]) < 6
    assert float(values["trainyard_model_flops_utilization_ratio"]) > 0
    assert float(values["trainyard_checkpoint_seconds_count"]) >= 3
    assert float(values["trainyard_checkpoint_failures_total"]) == 0
    assert float(values["trainyard_communication_seconds_total"]) > 0
    assert float(values["trainyard_rank_spread_ratio"]) >= 1
    assert {"tokens_per_second", "data_seconds", "exposed_seconds", "rank_spread_ratio"} <= lines[-1].keys()


def test_port_that_is_taken_is_told(train: Trainer) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        run = train("run=taken", f"metrics.port={taken.getsockname()[1]}")

    assert run.code == 2
    assert "Address already in use" in run.errors


def test_tensorboard_and_trace_are_written(train: Trainer, tmp_path: Path) -> None:
    """Where the platform's TensorBoard looks, a run is found: both read and write what a pod has at /checkpoints."""
    train("run=board", "metrics.tensorboard=true", f"profile.dir={tmp_path / 'trace'}")

    board = yaml.safe_load((HOME / "base/observability/tensorboard/deployment.yaml").read_text())
    settings = yaml.safe_load((HOME / "base/run/config-map-trainer.yaml").read_text())["data"]
    [container] = board["spec"]["template"]["spec"]["containers"]
    [looks_in] = [word.removeprefix("--logdir=") for word in container["command"] if word.startswith("--logdir=")]
    below = Path(looks_in).relative_to(settings["TRAINER_CHECKPOINT_DIR"])
    found = _scalars(train.checkpoints / below)
    wanted = {name.removeprefix(CONTRACT["tensorboard"]["prefix"]) for name in CONTRACT["tensorboard"]["scalars"]}
    wanted -= {"model_flops_utilization_ratio"}  # a CPU has no known peak
    assert {name: set(scalars) for name, scalars in found.items()} == {
        f"board/{CONTRACT['tensorboard']['folder']}": wanted
    }
    trace = json.loads(next((tmp_path / "trace").glob("board-step-*.json")).read_text())
    assert len({event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")}) == 2


def _scalars(folder: Path) -> dict[str, list[str]]:
    """Scalars by run, as TensorBoard finds them below its --logdir. It would import TensorFlow where it is, so it is
    read apart."""
    program = (
        "import json, sys, types; sys.modules['tensorboard.compat.notf'] = types.ModuleType('notf')\n"
        "from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer\n"
        "runs = EventMultiplexer().AddRunsFromDirectory(sys.argv[1]).Reload().Runs()\n"
        "print(json.dumps({name: tags['scalars'] for name, tags in runs.items()}))"
    )
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_terminal_has_one_line_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        voice = report.Report(speaks=True)
        values = {"step": 3, "loss": 1.25, "learning_rate": 3e-4, "tokens_per_second": 51234.5, "step_seconds": 0.02}
        voice.progress(values, 12)
        moving = os.read(reader, 4096).decode()
        voice.result({"steps": 12})
        last = ""
        while not last.endswith("}\r\n"):
            last += os.read(reader, 4096).decode()
    os.close(reader)

    assert moving == "\r\x1b[Kstep 3/12  loss 1.2500  lr 3.00e-04  51,234 tokens/s  20 ms"
    assert last.splitlines()[-1] == '{"steps": 12}'


@pytest.mark.claim("exposed-communication")
def test_exposed_is_what_nothing_covers() -> None:
    assert exposed_communication.uncovered([(0, 10)], [(2, 4), (3, 6), (20, 30)]) == 6
    assert exposed_communication.uncovered([(0, 10), (5, 12)], []) == 12
    assert exposed_communication.uncovered([(0, 10)], [(0, 10)]) == 0


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas"


def _event(name: str, start: float, end: float, **fields: Any) -> FunctionEvent:
    return FunctionEvent(id=0, name=name, thread=1, start_us=start, end_us=end, **fields)


@pytest.mark.claim("exposed-communication")
def test_on_a_gpu_only_kernels_count() -> None:
    """A step as kineto records it: 600 us of a collective, of which a product covers 200; beside it the host's calls,
    of which one waits for all of it, the range with the collective's name, and a checkpoint's copy to the host."""
    gpu = {"device_type": DeviceType.CUDA}
    events = [
        _event("aten::mm", 0, 40),
        _event("cudaLaunchKernel", 10, 30),
        _event("nccl:all_reduce", 40, 60, is_user_annotation=True),
        _event("cudaStreamSynchronize", 60, 1000),
        _event(GEMM, 100, 400, **gpu),
        _event(ALL_REDUCE, 200, 800, **gpu),
        _event("nccl:all_reduce", 190, 900, is_user_annotation=True, **gpu),
        _event("Memcpy DtoH (Device -> Pinned)", 300, 900, **gpu),
    ]

    assert exposed_communication.exposed_seconds(events, on_gpu=True) == pytest.approx(400e-6)


@pytest.mark.claim("exposed-communication")
def test_on_cpus_operators_are_what_computes() -> None:
    events = [_event("gloo:all_reduce", 0, 100, is_user_annotation=True), _event("aten::mm", 20, 50)]

    assert exposed_communication.exposed_seconds(events, on_gpu=False) == pytest.approx(70e-6)


def test_slowest_rank_is_named() -> None:
    assert straggler.spread([1.0, 1.0, 1.5, 1.0]) == (1.5, 2)
