"""A run: join the others, resume, take the steps, save, end."""

import math
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from trainer import checkpoint, data, group, launch, parallel, process, schedule
from trainer.cadence import Cadence
from trainer.checkpoint import IDLE, Saver
from trainer.config import Config
from trainer.control import Exchange, Step, Told
from trainer.data import MicroBatch, Share
from trainer.errors import CheckpointError, NonFiniteError, NoUsableCheckpointError, PeerLostError, Preempted
from trainer.exposed_communication import Exposed
from trainer.metrics import Board, Metrics, peak_flops
from trainer.presets import Decoder, Shape, check_length, flops_per_sample, preset, weights
from trainer.report import Report
from trainer.sigterm import Stop
from trainer.storage import Storage
from trainer.straggler import Probe, spread

Result = dict[str, Any]


def run(config: Config) -> Result:
    """Trains what a config says, from the newest checkpoint on, and returns what the last line says.

    A run that is marked as done ends at once, unless it is asked for more steps than it took. Raises TrainerError with
    what a user can mend; Preempted once a run that was told to stop is saved.
    """
    ranks = launch.find()
    report = Report(ranks.rank == 0)
    storage = Storage(Path(config.checkpoint.dir) / config.run)
    done = storage.done()
    if done is not None and done.get("steps", config.steps) >= config.steps:
        report.say(f"{config.run} is done: {storage.root}")
        report.result(done)
        return done
    shape = preset(config.model)
    check_length(config.model, shape, config.sequence_length)
    share = schedule.share(config, ranks)
    schedule.schedule(config, share.global_batch)
    device = group.device_of(ranks, config.device)
    dataset = data.load(config, shape)
    with ExitStack() as ends:
        stop = Stop()
        ends.callback(stop.close)
        since = time.monotonic()
        try:
            ends.enter_context(group.joined(ranks, device, config.start_timeout_seconds))
            if ranks.world > 1:
                report.say(f"rendezvous: {ranks.world} ranks met after {time.monotonic() - since:.1f} s")
            return Training(config, shape, ranks, device, share, dataset, storage, stop, report, ends).run(done)
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo/transport" in str(error):
                raise PeerLostError(f"another rank is gone: {str(error).splitlines()[0]}") from error
            raise


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
        storage.attempt = checkpoint.from_rank_0(ranks, lambda: uuid.uuid4().hex[:8])
        checkpoint.from_rank_0(ranks, storage.prepare)
        group.set_precision(config.tf32, device)
        self.engine = parallel.engine(config, shape, device, share)
        group.set_threads(process.threads(config, ranks, self.engine.offloads))
        self.schedule = schedule.schedule(config, share.global_batch)
        self.saver = Saver(storage, ranks, config, report.say)
        ends.callback(self.saver.close)
        self.cadence = Cadence(config.checkpoint.every_steps, config.checkpoint.mtbf_hours)
        self.tokens = config.sequence_length if isinstance(shape, Decoder) else 0
        self.flops = flops_per_sample(shape, weights(shape), config.sequence_length)
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        self.peak = peak_flops(gpu, config.precision, config.metrics.peak_tflops)
        self.probe, self.exposed = Probe(device), Exposed(device, config.metrics.exposed_every_steps)
        self.metrics = Metrics(self._labels(), config.steps)
        if config.metrics.port and ranks.local == 0:
            ends.callback(self.metrics.serve(config.metrics.port))
        self.board = Board(storage.root / "tensorboard") if config.metrics.tensorboard and ranks.rank == 0 else None
        if self.board:
            ends.callback(self.board.close)
        self.exchange = Exchange(ranks.world, device)
        self.under_way: Step | None = None
        """The step that was taken last, until its numbers are read."""
        self.save_asked = False
        """Whether rank 0's clock asked for a save."""
        self.settled = self.samples = self.updates = 0
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

    def run(self, done: Result | None) -> Result:
        """All steps that are left; `done` is what an end before this one said."""
        resumed = checkpoint.resume(self.engine, self.storage, self.ranks, self.config, self.report.say)
        if resumed is not None:
            self.samples, self.updates, self.resumed_from = resumed.samples, resumed.updates, resumed.step
            self.saver.newest = resumed.step
            self.report.say(f"checkpoint: resumed from step {resumed.step}, saved by {resumed.world_size} ranks")
        elif done and not self.config.checkpoint.start_over:
            raise NoUsableCheckpointError(
                f"{self.storage.root} is of a run that was done after {done['steps']} steps, but has no checkpoint "
                "to go on from: give the run another name, or set checkpoint.start_over=true"
            )
        end = self.schedule.total
        ahead = data.steps(self.dataset, self.config.seed, self.share, self.samples, end, self.config.data.workers)
        self.ends.callback(ahead.close)  # type: ignore[attr-defined]
        with self._trace() as trace, process.collecting(self.config.collect_every_steps) as collect:
            for batches in self._timed(ahead):
                self._step(batches)
                collect(self.step)
                if trace:
                    trace.step()
        self._settle(last=True)
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

    def _step(self, batches: list[MicroBatch]) -> None:
        """One optimizer step. The device works on its passes while the host reads what the step before came to; where
        that is not finite, or somebody asked for an end, this step is not taken."""
        number = self.step + 1
        self.exposed.start(number)
        loss, valid = self._passes(batches)
        self._settle()
        table = self.exchange.gathered(loss, self._told(number))
        self.saver.stage.before_change()
        rate = self.schedule.rate(self.samples, self.share.global_batch)
        norm = self.engine.update(rate, table[:, 0].sum())
        self.samples += self.share.global_batch
        measured = self.exposed.stop()
        self.exposed_seconds = measured if measured is not None else self.exposed_seconds
        numbers = self.exchange.sent(valid, norm, table)
        self.under_way = Step(number, rate, time.perf_counter() - self.began, self.waited, *numbers)
        if self._is_due(number):
            self._settle()
            self._save()

    def _passes(self, batches: list[MicroBatch]) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward and backward of all passes; returns this rank's summed loss and the valid targets of all ranks."""
        counted = float(sum(batch.valid for batch in batches))
        valid = torch.full((), counted, dtype=torch.float64, device=self.device)
        dist.all_reduce(valid)
        weight = (1.0 / valid.clamp(min=1.0)).float()
        total = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, start=1):
            inputs, targets = (
                self.exchange.on_device(torch.from_numpy(array)) for array in (batch.inputs, batch.targets)
            )
            total += self.engine.pass_through(inputs, targets, weight, number == len(batches))
        return total, valid

    def _told(self, number: int) -> list[float]:
        """What this rank tells the others, but for its loss."""
        probe = self.probe.seconds() if self._shown(number) else 0.0
        due = self.ranks.rank == 0 and self.cadence.due(number)
        return [self.stop.asked, self.saver.status(), due, self.saver.failures, probe]

    def _settle(self, last: bool = False) -> None:
        """Reads what the step taken last came to, and does what follows from it on all ranks alike.

        Raises NonFiniteError, CheckpointError after too many failed saves, and Preempted once the step is saved.
        """
        if self.under_way is None:
            return
        step, self.under_way = self.under_way, None
        valid, norm, rows = step.read()
        self.loss = sum(row.loss for row in rows) / valid
        overflow = self.config.precision == "fp16" and math.isfinite(self.loss)
        for what, value in (("loss", self.loss), ("norm of the gradient", norm)):
            if not math.isfinite(value) and not overflow:
                kept = f"the weights are those of step {step.number - 1}"
                raise NonFiniteError(f"step {step.number}: the {what} is {value}; {kept}")
        self.updates += math.isfinite(norm)
        if not self.settled:
            group.set_timeout(self.config.timeout_seconds)
        self.settled += 1
        self._seen(step, norm, rows, last)
        self._noted(self.saver.conclude([int(row.saving) for row in rows]))
        if rows[0].failures >= self.config.checkpoint.failures:
            raise CheckpointError(f"{rows[0].failures:.0f} checkpoints in a row were not saved")
        self.save_asked = rows[0].due
        if any(row.stop for row in rows) and not last:
            self._preempted(step.number)

    def _shown(self, number: int) -> bool:
        return number % self.config.metrics.every_steps == 0

    def _seen(self, step: Step, norm: float, rows: list[Told], last: bool) -> None:
        """Metrics and progress of a step."""
        number, rate, seconds = step.number, step.rate, step.seconds
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
        seen.data.inc(step.waited)
        seen.exposed.inc(self.exposed_seconds)
        if math.isfinite(norm):
            seen.norm.set(norm)
        else:
            seen.skipped.inc()
        if self.device.type == "cuda":
            seen.memory.set(torch.cuda.max_memory_allocated(self.device))
            torch.cuda.reset_peak_memory_stats(self.device)
        if not (self._shown(number) or last):
            return
        line = {"step": number, "samples": self.samples, "loss": self.loss, "gradient_norm": norm}
        line |= {"learning_rate": rate, "step_seconds": seconds, "data_seconds": step.waited}
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

    def _is_due(self, number: int) -> bool:
        """Whether a step is to be saved. All ranks count steps; rank 0 alone has a clock, and tells the others."""
        if self.step * self.share.global_batch >= self.schedule.total:
            return False  # the last one is saved in any case
        return self.cadence.due(number) if self.cadence.every_steps else self.save_asked

    def _save(self) -> None:
        """Begins to save the step that was taken last, unless the save before it is still under way."""
        self.save_asked = False
        if self.saver.status() != IDLE:
            self.report.say(f"checkpoint: step {self.step} is left out: the one before is still being written")
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
        if checkpoint.from_rank_0(self.ranks, lambda: self.saver.newest) == self.step:
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

    def _trace(self) -> AbstractContextManager[profile | None]:
        """A profiler over the steps that were asked for, if any were."""
        asked = self.config.profile
        if not asked.dir or self.ranks.rank != 0:
            return nullcontext()
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
