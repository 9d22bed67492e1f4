"""A run: join the others, resume, take the steps, save, end."""

import math
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from trainer import checkpoint, data, group, launch, model, parallel, schedule
from trainer.cadence import Cadence
from trainer.checkpoint import IDLE, Saver
from trainer.config import Config
from trainer.data import MicroBatch, Share
from trainer.errors import CheckpointError, NonFiniteError, PeerLostError, Preempted
from trainer.exposed import Exposed
from trainer.metrics import Board, Metrics, peak_flops
from trainer.presets import Decoder, Shape, preset
from trainer.report import Report
from trainer.stop import Stop
from trainer.storage import Storage
from trainer.straggler import Probe, spread

Result = dict[str, Any]


def run(config: Config) -> Result:
    """Trains what a config says, from the newest checkpoint on, and returns what the last line says.

    A run that is marked as done ends at once. Raises TrainerError with what a user can mend; Preempted once a run that
    was told to stop is saved.
    """
    ranks = launch.find()
    report = Report(ranks.rank == 0)
    storage = Storage(Path(config.checkpoint.dir) / config.run)
    done = storage.done()
    if done is not None:
        report.say(f"{config.run} is done: {storage.root}")
        report.result(done)
        return done
    shape = preset(config.model)
    share = schedule.share(config, ranks)
    schedule.schedule(config, share.global_batch)
    device = group.device_of(ranks, config.device)
    dataset = data.load(config, shape)
    with ExitStack() as ends:
        stop = Stop()
        ends.callback(stop.close)
        since = time.monotonic()
        ends.callback(group.join(ranks, device, config.timeout_seconds))
        if ranks.world > 1:
            report.say(f"rendezvous: {ranks.world} ranks met after {time.monotonic() - since:.1f} s")
        try:
            return Training(config, shape, ranks, device, share, dataset, storage, stop, report, ends).run()
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo/transport" in str(error):
                raise PeerLostError(f"another rank is gone: {str(error).splitlines()[0]}") from error
            raise


@dataclass(frozen=True, slots=True)
class Control:
    """What ranks tell each other once a step, so that all of them decide alike."""

    loss: float
    stop: bool
    saving: float
    due: bool
    failures: float
    probe: float


class Training:
    """One process's part of a run."""

    def __init__(
        self,
        config: Config,
        shape: Shape,
        ranks: launch.Ranks,
        device: torch.device,
        share: Share,
        dataset: data.Dataset,
        storage: Storage,
        stop: Stop,
        report: Report,
        ends: ExitStack,
    ) -> None:
        self.config, self.ranks, self.device, self.share = config, ranks, device, share
        self.dataset, self.storage, self.stop, self.report, self.ends = dataset, storage, stop, report, ends
        storage.attempt = checkpoint.from_rank_0(uuid.uuid4().hex[:8])
        if ranks.rank == 0:
            storage.prepare()
        self.engine = parallel.engine(config, shape, device, share)
        self.schedule = schedule.schedule(config, share.global_batch)
        self.saver = Saver(storage, ranks, config, report.say)
        ends.callback(self.saver.close)
        self.cadence = Cadence(config.checkpoint.every_steps, config.checkpoint.mtbf_hours)
        self.tokens = config.sequence_length if isinstance(shape, Decoder) else 0
        self.flops = model.flops_per_sample(shape, self.engine.parameters, config.sequence_length)
        self.peak = peak_flops(device, config.precision, config.metrics.peak_tflops)
        self.probe, self.exposed = Probe(device), Exposed(device, config.metrics.exposed_every_steps)
        self.metrics = Metrics(self._labels(), config.steps)
        if config.metrics.port and ranks.local == 0:
            ends.callback(self.metrics.serve(config.metrics.port))
        self.board = Board(storage.root / "tensorboard") if config.metrics.tensorboard and ranks.rank == 0 else None
        if self.board:
            ends.callback(self.board.close)
        self.samples = self.updates = 0
        self.resumed_from: int | None = None
        self.exposed_seconds = 0.0
        self.loss = math.nan
        self.speed: list[float] = []

    def _labels(self) -> dict[str, str]:
        config = self.config
        named = {"model": config.model, "parallelism": config.parallelism, "precision": config.precision}
        return named | {"world_size": str(self.ranks.world)}

    @property
    def step(self) -> int:
        return -(-self.samples // self.share.global_batch)

    def run(self) -> Result:
        """All steps that are left."""
        resumed = checkpoint.resume(self.engine, self.storage, self.ranks, self.config, self.report.say)
        if resumed is not None:
            self.samples, self.updates, self.resumed_from = resumed.samples, resumed.updates, resumed.step
            self.report.say(f"checkpoint: resumed from step {resumed.step}, saved by {resumed.world_size} ranks")
        end = self.schedule.total
        ahead = data.steps(self.dataset, self.config.seed, self.share, self.samples, end, self.config.data.workers)
        self.ends.callback(ahead.close)  # type: ignore[attr-defined]
        with self._trace() as trace:
            for batches in self._timed(ahead):
                last = self.samples + self.share.global_batch >= end
                self._step(batches, last)
                trace.step()
        self._save_now()
        result = self._result()
        if self.ranks.rank == 0:
            self.storage.mark_done(result)
        self.report.result(result)
        dist.barrier()
        return result

    def _timed(self, ahead: Iterator[list[MicroBatch]]) -> Iterator[list[MicroBatch]]:
        """The batches of each step, with the time that was waited for them."""
        while True:
            self.began = time.perf_counter()
            batches = next(ahead, None)
            if batches is None:
                return
            self.waited = time.perf_counter() - self.began
            yield batches

    def _step(self, batches: list[MicroBatch], last: bool) -> None:
        """One optimizer step, and what is due after it."""
        number = self.step + 1
        self.exposed.start(number)
        loss_sum, valid = self._passes(batches)
        rows = self._gather(loss_sum, number)
        self.loss = sum(row.loss for row in rows) / valid
        if not math.isfinite(self.loss):
            raise NonFiniteError(f"step {number}: the loss is {self.loss}; the weights are those of step {self.step}")
        rate = self.schedule.rate(self.samples, self.share.global_batch)
        norm = self.engine.update(rate)
        self.samples += self.share.global_batch
        self.updates += norm is not None
        measured = self.exposed.stop()
        self.exposed_seconds = measured if measured is not None else self.exposed_seconds
        self._seen(number, rate, norm, rows, last)
        self._saves(rows, number, last)

    def _passes(self, batches: list[MicroBatch]) -> tuple[torch.Tensor, float]:
        """Forward and backward of all passes; returns this rank's summed loss and the valid targets of all ranks."""
        valid = torch.tensor(float(sum(batch.valid for batch in batches)), dtype=torch.float64)
        valid = valid.to(self.device)
        dist.all_reduce(valid)
        weight = (1.0 / valid.clamp(min=1.0)).float()
        total = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, start=1):
            total += self.engine.pass_through(*self._on_device(batch), weight, number == len(batches))
        return total, max(1.0, float(valid))

    def _on_device(self, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
        tensors = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        if self.device.type == "cpu":
            return tensors
        inputs, targets = (tensor.pin_memory().to(self.device, non_blocking=True) for tensor in tensors)
        return inputs, targets

    def _gather(self, loss_sum: torch.Tensor, number: int) -> list[Control]:
        """What all ranks tell, before the step is taken: the loss is known, and the weights are not touched yet."""
        probe = self.probe.seconds() if self._shown(number) else 0.0
        due = self.ranks.rank == 0 and self.cadence.due(number)
        mine = [0.0, self.stop.asked, self.saver.status(), due, self.saver.failures, probe]
        vector = torch.tensor(mine, dtype=torch.float64, device=self.device)
        vector[0] = loss_sum
        table = torch.empty(self.ranks.world * len(mine), dtype=torch.float64, device=self.device)
        dist.all_gather_into_tensor(table, vector)
        rows = table.view(self.ranks.world, len(mine)).tolist()
        return [Control(row[0], bool(row[1]), row[2], bool(row[3]), row[4], row[5]) for row in rows]

    def _shown(self, number: int) -> bool:
        return number % self.config.metrics.every_steps == 0

    def _seen(self, number: int, rate: float, norm: float | None, rows: list[Control], last: bool) -> None:
        """Metrics and progress of a step."""
        seconds = time.perf_counter() - self.began
        self.speed.append(seconds)
        per_second = self.share.global_batch / seconds
        mfu = per_second * self.flops / (self.peak * self.ranks.world) if self.peak else 0.0
        seen, mine = self.metrics, self.share.micro * self.share.accumulation * self.ranks.local_world
        seen.step.set(number)
        seen.last_step.set(time.time())
        seen.step_seconds.observe(seconds)
        seen.samples.inc(mine)
        seen.tokens.inc(mine * self.tokens)
        seen.loss.set(self.loss)
        seen.rate.set(rate)
        seen.mfu.set(mfu)
        seen.data.inc(self.waited)
        seen.exposed.inc(self.exposed_seconds)
        if norm is None:
            seen.skipped.inc()
        else:
            seen.norm.set(norm)
        if self.device.type == "cuda":
            seen.memory.set(torch.cuda.max_memory_allocated(self.device))
            torch.cuda.reset_peak_memory_stats(self.device)
        if not (self._shown(number) or last):
            return
        line = {"step": number, "samples": self.samples, "loss": self.loss, "gradient_norm": norm or 0.0}
        line |= {"learning_rate": rate, "step_seconds": seconds, "data_seconds": self.waited}
        line |= {self._speed_name: per_second * (self.tokens or 1)}
        line |= {"model_flops_utilization_ratio": mfu} if self.peak else {}
        line |= {"exposed_seconds": self.exposed_seconds} if self.config.metrics.exposed_every_steps else {}
        if rows[0].probe:
            ratio, slowest = spread([row.probe for row in rows])
            seen.spread.set(ratio)
            seen.slowest.set(slowest)
            line |= {"rank_spread_ratio": ratio, "slowest_rank": slowest} if self.ranks.world > 1 else {}
        self.report.progress(line, self.config.steps)
        if self.board:
            self.board.write(number, {name: value for name, value in line.items() if isinstance(value, float)})

    @property
    def _speed_name(self) -> str:
        return "tokens_per_second" if self.tokens else "samples_per_second"

    def _saves(self, rows: list[Control], number: int, last: bool) -> None:
        """Ends the save under way if all ranks are through, begins one that is due, and stops where one was told to."""
        self._noted(self.saver.conclude([int(row.saving) for row in rows]))
        if rows[0].failures >= self.config.checkpoint.failures:
            raise CheckpointError(f"{rows[0].failures:.0f} checkpoints in a row were not saved")
        if any(row.stop for row in rows):
            self._preempted(number)
        if not rows[0].due or last:
            return
        if self.saver.status() != IDLE:
            self.report.say(f"checkpoint: step {number} is left out: the one before is still being written")
            return
        self._begin()
        if not self.config.checkpoint.background:
            self._noted(self.saver.finish())

    def _begin(self) -> None:
        start = time.perf_counter()
        numbers = self.engine.numbers()
        manifest = checkpoint.manifest(self.config, self.ranks, self.step, self.samples, self.updates, numbers)
        self.saver.begin(manifest, self.engine.state())
        cost = time.perf_counter() - start
        self.cadence.begun(cost)
        self.metrics.saving.observe(cost)

    def _noted(self, saved: bool | None) -> None:
        if saved:
            self.cadence.ended()
            self.metrics.saved.set(time.time())
        elif saved is not None:
            self.metrics.failures.inc()

    def _save_now(self) -> None:
        """Saves the step that was taken last, unless it is saved already, and waits for it."""
        self._noted(self.saver.finish())
        newest = [self.storage.steps()[:1] if self.ranks.rank == 0 else []]
        dist.broadcast_object_list(newest, src=0)
        if newest[0] == [self.step]:
            return
        self._begin()
        saved = self.saver.finish()
        self._noted(saved)
        if not saved:
            raise CheckpointError(f"step {self.step} could not be saved")

    def _preempted(self, number: int) -> None:
        self.report.say(f"told to stop: saving step {number}")
        self._save_now()
        dist.barrier()
        seconds, grace = self.stop.used(self.config.grace_seconds)
        if seconds > grace / 2:
            self.report.say(f"saving took more than half of the {grace:g} s between SIGTERM and SIGKILL: lengthen them")
        took = f" {seconds:.1f} s after SIGTERM" if seconds else ""
        raise Preempted(f"stopped at step {number}, saved{took}: start it again and it goes on")

    def _trace(self) -> Any:
        """A profiler over the steps that were asked for, or what takes its place."""
        asked = self.config.profile
        if not asked.dir or self.ranks.rank != 0:
            return NoTrace()
        folder = Path(asked.dir)
        folder.mkdir(parents=True, exist_ok=True)
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (self.device.type == "cuda")
        plan = torch.profiler.schedule(wait=max(0, asked.first_step - 2), warmup=1, active=asked.steps, repeat=1)

        def ready(done: profile) -> None:
            done.export_chrome_trace(str(folder / f"{self.config.run}-step-{self.step}.json"))

        return profile(activities=activities, schedule=plan, on_trace_ready=ready)

    def _result(self) -> Result:
        seconds = sorted(self.speed[1:] or self.speed)
        median = seconds[len(seconds) // 2] if seconds else math.inf
        speed = self.share.global_batch * (self.tokens or 1) / median
        return {
            "steps": self.step,
            "samples": self.samples,
            "final_loss": self.loss if math.isfinite(self.loss) else None,
            self._speed_name: round(speed, 1),
            "world_size": self.ranks.world,
            "resumed_from": self.resumed_from,
        }


class NoTrace:
    """A profiler that does nothing."""

    def __enter__(self) -> "NoTrace":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self) -> None:
        pass
