"""Tokens per second of the trainer beside the same model in a plain PyTorch loop and in Accelerate with Transformers.

    .tools/trainer/bin/python bench/training.py
    .tools/trainer/bin/python bench/training.py --model gpt2-124m --sequence-length 1024 --precision bf16

All of them are started at once, see the same tokens, and take turns of ten steps: whoever has no turn is stopped, so
what else the machine does meets all alike. Compare ratios, which are medians over turns, with their quartiles. On CPUs
the clock is the CPU time of the process and its threads, which neighbours do not lengthen: what a checkpoint writes in
the background counts in full. On a GPU it is the wall.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
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

TURN = 10
"""Steps of a turn; the first turn does not count."""


@dataclass
class Contestant:
    """A process that trains, prints a line every TURN steps, and runs while it has its turn."""

    command: list[str]
    turns: list[float] = field(default_factory=list)
    """Seconds of each turn."""

    def start(self, on_gpu: bool) -> None:
        """Starts it, and lets it take its first turn."""
        self.on_gpu = on_gpu
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        self.process = subprocess.Popen(self.command, cwd=HOME, env=environment, stdout=subprocess.PIPE, text=True)
        self._turn_over()

    def _turn_over(self) -> None:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) and '"step"' not in line:
            pass
        if not line:
            raise SystemExit(f"{' '.join(self.command)} ended with {self.process.wait()}")
        self.process.send_signal(signal.SIGSTOP)

    def _clock(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return time.perf_counter() if self.on_gpu else times.user + times.system

    def turn(self) -> None:
        """TURN steps."""
        began = self._clock()
        self.process.send_signal(signal.SIGCONT)
        self._turn_over()
        self.turns.append(self._clock() - began)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def trainer(given: argparse.Namespace, dataset: Path, folder: Path, every: int) -> Contestant:
    """`python -m trainer`, with a checkpoint every so many steps; 0: none."""
    keys = [f"model={given.model}", f"dataset={dataset}", f"checkpoint.dir={folder}", f"steps={_steps(given)}"]
    keys += [f"sequence_length={given.sequence_length}", f"micro_batch={given.micro_batch}", "warmup_steps=1"]
    keys += [f"precision={given.precision}", f"checkpoint.every_steps={every or _steps(given)}"]
    keys += [f"run=every-{every}", f"metrics.every_steps={TURN}", "metrics.tensorboard=false"]
    keys += ["compile=true"] if given.compile else []
    return Contestant([sys.executable, "-m", "trainer", *keys])


def loop(kind: str, given: argparse.Namespace, dataset: Path) -> Contestant:
    """Another loop."""
    return Contestant([sys.executable, __file__, "--child", kind, "--dataset", str(dataset), *given.passed])


def _steps(given: argparse.Namespace) -> int:
    return TURN * (int(given.turns) + 2)


def batches(given: argparse.Namespace) -> list[tuple[Tensor, Tensor]]:
    """The trainer's batches."""
    config = Config(dataset=str(given.dataset), sequence_length=given.sequence_length)
    share = Share(0, 1, given.micro_batch, 1)
    every = steps(load(config, preset(given.model)), config.seed, share, 0, _steps(given) * given.micro_batch, 0)
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
    """Runs one loop."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    step = {"plain": plain, "accelerate": accelerate}[given.child](given, device)
    for number, (inputs, targets) in enumerate(batches(given), start=1):
        step(inputs, targets)
        if number % TURN == 0:
            print(json.dumps({"step": number}), flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt-10m")
    parser.add_argument("--sequence-length", type=int, default=256)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--precision", choices=tuple(DTYPES), default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile for the trainer and the plain loop")
    parser.add_argument("--turns", type=int, default=20, help=f"turns of {TURN} steps (default %(default)s)")
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints (default %(default)s)")
    parser.add_argument("--folder", help="where checkpoints are written (default: the temporary folder)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--dataset", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.passed = list(arguments)
    if given.child:
        as_child(given)
        return
    if given.turns * TURN % given.every:
        parser.error(f"{given.turns} turns of {TURN} steps are no multiple of {given.every} steps")
    on_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        dataset = Path(folder) / "text"
        made_up.text(dataset, documents=64)
        all_of_them = {
            "trainer": trainer(given, dataset, Path(folder), 0),
            "plain loop": loop("plain", given, dataset),
            "accelerate": loop("accelerate", given, dataset),
            "trainer, saving": trainer(given, dataset, Path(folder), given.every),
        }
        try:
            for contestant in all_of_them.values():
                contestant.start(on_gpu)
            for number in range(given.turns):
                for name in sorted(all_of_them, reverse=bool(number % 2)):  # no one always follows the same other
                    all_of_them[name].turn()
        finally:
            for contestant in all_of_them.values():
                contestant.end()
    seconds = {name: contestant.turns for name, contestant in all_of_them.items()}
    _print(given, seconds, "wall" if on_gpu else "CPU")


def _print(given: argparse.Namespace, seconds: dict[str, list[float]], clock: str) -> None:
    tokens = given.micro_batch * given.sequence_length
    size = f"{given.micro_batch} x {given.sequence_length} tokens a step"
    print(f"{given.model}, {given.precision}, {size}, {given.turns} turns of {TURN} steps, {clock} time")
    for name in ("trainer", "plain loop", "accelerate"):
        print(f"{name:22} {tokens * TURN / statistics.median(seconds[name]):10,.0f} tokens/s")
    for name in ("plain loop", "accelerate"):
        ratios = [a / b for a, b in zip(seconds[name], seconds["trainer"], strict=True)]
        print(f"trainer / {name:12} {_spread(ratios)} of its tokens a second")
    turns = given.every // math.gcd(given.every, TURN)  # as many hold as many checkpoints, wherever they begin
    blocks = range(0, given.turns, turns)
    saving, none = ([sum(seconds[n][i : i + turns]) for i in blocks] for n in ("trainer, saving", "trainer"))
    costs = [100 * (a / b - 1) for a, b in zip(saving, none, strict=True)]
    print(f"a checkpoint every {given.every} steps costs {_spread(costs)} % of the time")


def _spread(values: list[float]) -> str:
    """The median, and the quartiles where there are enough for them."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main(sys.argv[1:])
