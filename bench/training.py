"""Tokens per second of the trainer beside the same model in a plain PyTorch loop and in Accelerate with Transformers.

    .tools/trainer/bin/python bench/training.py
    .tools/trainer/bin/python bench/training.py --model gpt2-124m --sequence-length 1024 --precision bf16

All take turns in one run, several rounds each, and see the same tokens; the figure is the median over rounds of the
wall time a step, waits for data and checkpoints included. Compare ratios, not seconds of different machines. The second
table is the trainer with an asynchronous checkpoint every so many steps, over the trainer with none.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

from trainer import made_up, model  # noqa: E402  the repository's root comes first
from trainer.config import Config  # noqa: E402
from trainer.data import Share, load, steps  # noqa: E402
from trainer.optimizer import DTYPES, groups  # noqa: E402
from trainer.presets import Decoder, preset  # noqa: E402

WARM_UP = 5


def trainer(given: argparse.Namespace, dataset: Path, every: int) -> float:
    """Seconds a step of `python -m trainer`, as its lines arrive."""
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        keys = [f"model={given.model}", f"dataset={dataset}", f"checkpoint.dir={folder}", f"steps={given.steps}"]
        keys += [f"sequence_length={given.sequence_length}", f"micro_batch={given.micro_batch}", "warmup_steps=1"]
        keys += [f"precision={given.precision}", f"checkpoint.every_steps={every or given.steps}"]
        keys += [
            "metrics.every_steps=1",
            "metrics.tensorboard=false",
            f"compile={'true' if given.compile else 'false'}",
        ]
        command = [sys.executable, "-m", "trainer", *keys]
        process = subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        times = [time.perf_counter() for line in process.stdout if '"step"' in line]
        if process.wait():
            raise SystemExit(f"the trainer ended with {process.returncode}")
    return (times[-1] - times[WARM_UP]) / (len(times) - 1 - WARM_UP)


def child(kind: str, given: argparse.Namespace, dataset: Path) -> float:
    """Seconds a step of another loop, in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--dataset", str(dataset), *given.passed]
    return float(json.loads(subprocess.run(command, cwd=HOME, stdout=subprocess.PIPE, check=True).stdout)["seconds"])


def batches(given: argparse.Namespace) -> list[tuple[Tensor, Tensor]]:
    """The trainer's batches."""
    config = Config(dataset=str(given.dataset), sequence_length=given.sequence_length)
    share = Share(0, 1, given.micro_batch, 1)
    every = steps(load(config, preset(given.model)), config.seed, share, 0, given.steps * given.micro_batch, 0)
    return [(torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)) for (batch,) in every]


def plain(given: argparse.Namespace, device: torch.device) -> Callable[[Tensor, Tensor], None]:
    """The loop that a tutorial shows, on the trainer's model."""
    net = model.build(preset(given.model), "none", given.compile)
    model.fill(net, 1, device)
    optimizer = torch.optim.AdamW(groups(net, 0.1), lr=3e-4, betas=(0.9, 0.95), fused=True)

    def step(inputs: Tensor, targets: Tensor) -> None:
        with torch.autocast(device.type, DTYPES[given.precision], enabled=given.precision != "fp32"):
            loss = net(inputs.to(device), targets.to(device)) / targets.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def accelerate(given: argparse.Namespace, device: torch.device) -> Callable[[Tensor, Tensor], None]:
    """Accelerate around Transformers' model of the same shape."""
    from accelerate import Accelerator
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    shape = preset(given.model)
    assert isinstance(shape, Decoder)
    if shape.positions == "learned":
        net = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=shape.vocabulary, n_positions=shape.context, n_embd=shape.width, n_layer=shape.layers,
                n_head=shape.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
            )
        )  # fmt: skip
    else:
        net = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.hidden,
                num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
                max_position_embeddings=shape.context, tie_word_embeddings=shape.tied, attn_implementation="sdpa",
            )
        )  # fmt: skip
    mixed = "no" if given.precision == "fp32" else given.precision
    accelerator = Accelerator(mixed_precision=mixed, cpu=device.type == "cpu")
    optimizer = torch.optim.AdamW(groups(net, 0.1), lr=3e-4, betas=(0.9, 0.95), fused=True)
    net, optimizer = accelerator.prepare(net, optimizer)

    def step(inputs: Tensor, targets: Tensor) -> None:
        logits = net(input_ids=inputs.to(device), use_cache=False).logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten())
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def as_child(given: argparse.Namespace) -> None:
    """Times one loop and prints seconds a step."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    step = {"plain": plain, "accelerate": accelerate}[given.child](given, device)
    every = batches(given)
    times = []
    for inputs, targets in every:
        step(inputs, targets)
        times.append(time.perf_counter())
    json.dump({"seconds": (times[-1] - times[WARM_UP]) / (len(times) - 1 - WARM_UP)}, sys.stdout)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt-10m")
    parser.add_argument("--sequence-length", type=int, default=256)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--precision", choices=tuple(DTYPES), default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile for the trainer and the plain loop")
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where checkpoints are written (default: the temporary folder)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--dataset", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.passed = list(arguments)
    if given.child:
        as_child(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "text"
        made_up.text(dataset, documents=64)
        turns: dict[str, Callable[[], float]] = {
            "trainer": lambda: trainer(given, dataset, 0),
            "plain loop": lambda: child("plain", given, dataset),
            "accelerate": lambda: child("accelerate", given, dataset),
            "trainer, saving": lambda: trainer(given, dataset, given.every),
        }
        seconds: dict[str, list[float]] = {name: [] for name in turns}
        for number in range(given.rounds):
            for name in sorted(turns, reverse=bool(number % 2)):  # so that no one always runs after the same other
                seconds[name].append(turns[name]())
    tokens = given.micro_batch * given.sequence_length
    threads = os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())
    size = f"{given.micro_batch} x {given.sequence_length} tokens a step"
    print(f"{given.model}, {given.precision}, {size}, {threads} threads")
    for name in ("trainer", "plain loop", "accelerate"):
        speed = [tokens / value for value in seconds[name]]
        print(f"{name:12} {statistics.median(speed):10,.0f} tokens/s  ({min(speed):,.0f} to {max(speed):,.0f})")
    for name in ("plain loop", "accelerate"):
        print(f"trainer / {name:12} {_ratio(seconds[name], seconds['trainer']):.3f} of its tokens a second")
    cost = _ratio(seconds["trainer, saving"], seconds["trainer"]) - 1
    print(f"a checkpoint every {given.every} steps: {cost:+.1%} time")


def _ratio(over: list[float], under: list[float]) -> float:
    """The median over rounds of a ratio whose two times were taken one after the other."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


if __name__ == "__main__":
    main(sys.argv[1:])
