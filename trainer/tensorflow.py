"""python -m trainer.tensorflow [CONFIG.yaml] [key=value ...]

The same keys, data, metrics and exit codes under TensorFlow's MultiWorkerMirroredStrategy, which reads TF_CONFIG as a
TFJob sets it: a worker drives all GPUs of its node. Decoders train, data parallel, in fp32 or bf16; checkpoints are
TensorFlow's own.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import data, process, sources
from trainer.cadence import Cadence
from trainer.config import Config
from trainer.data import IGNORED, MicroBatch, Share
from trainer.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    NoUsableCheckpointError,
    PeerLostError,
    Preempted,
    TrainerError,
)
from trainer.metrics import Board, Metrics, peak_flops
from trainer.presets import Decoder, check_length, flops_per_sample, preset, weights
from trainer.report import Report
from trainer.schedule import schedule
from trainer.sigterm import Stop
from trainer.storage import Storage
from trainer.tensorflow_decoder import TensorFlowDecoder

DTYPES = {"bf16": tf.bfloat16, "fp32": tf.float32}
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)
"""What a collective ends with where another worker is gone."""
ABSENT: Mapping[str, tuple[object, ...]] = {
    "parallelism": ("ddp",),
    "precision": tuple(DTYPES),
    "activation_checkpointing": ("none",),
    "compile": (False,),
    "min_nodes": (0,),
}
"""Keys with values that only PyTorch's way knows, and the values that this one takes."""
EPSILON = 1e-8
FOLDER = "tensorflow"

Result = dict[str, Any]


def run(config: Config) -> Result:
    """Trains what a config says on the workers of TF_CONFIG, and returns what the last line says.

    Raises TrainerError with what a user can mend; Preempted once a run that was told to stop is saved.
    """
    workers, rank = place()
    report, storage = Report(rank == 0), Storage(Path(config.checkpoint.dir) / config.run, FOLDER)
    done = storage.done()
    if done is not None and done.get("steps", config.steps) >= config.steps:
        report.result(done)
        return done
    shape = checked(config)
    if config.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif config.device == "cuda" and not tf.config.list_physical_devices("GPU"):
        raise ConfigError("device is cuda, but TensorFlow finds no GPU")
    tf.config.experimental.enable_tensor_float_32_execution(config.tf32)
    with ExitStack() as ends:
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
            stop = Stop()  # after the strategy, which takes SIGTERM for itself
            ends.callback(stop.close)
            return Training(config, shape, strategy, workers, rank, storage, stop, report, ends).run(done)
        except LOST as error:
            raise PeerLostError(f"another worker is gone: {error.message.splitlines()[0]}") from error


def place(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Number of workers, and which of them this process is."""
    task = json.loads(environment.get("TF_CONFIG", "{}"))
    return len(task.get("cluster", {}).get("worker", [""])), int(task.get("task", {}).get("index", 0))


def checked(config: Config) -> Decoder:
    """The model's shape. Raises ConfigError where a key asks for what TensorFlow's way does not have."""
    for key, fits in ABSENT.items():
        if (value := getattr(config, key)) not in fits:
            raise ConfigError(f"{key} is {value}, but under TensorFlow it can be {' or '.join(map(str, fits))}")
    shape = preset(config.model)
    if not isinstance(shape, Decoder):
        raise ConfigError(f"under TensorFlow only decoders train, and {config.model} is not one")
    check_length(config.model, shape, config.sequence_length)
    return shape


class Training:
    """One worker's part of a run."""

    def __init__(
        self,
        config: Config,
        shape: Decoder,
        strategy: tf.distribute.Strategy,
        workers: int,
        rank: int,
        storage: Storage,
        stop: Stop,
        report: Report,
        ends: ExitStack,
    ) -> None:
        self.config, self.strategy, self.rank, self.storage = config, strategy, rank, storage
        self.stop, self.report, self.ends = stop, report, ends
        self.replicas = strategy.num_replicas_in_sync
        self.local = self.replicas // workers
        self.share = share(config, self.replicas, workers, rank)
        self.schedule = schedule(config, self.share.global_batch)
        self.dataset = data.load(config, shape)
        with strategy.scope():
            self.decoder = TensorFlowDecoder(shape, config.seed, DTYPES[config.precision])
            held = list(self.decoder.weights.values())
            self.moments = [[tf.Variable(tf.zeros_like(each), trainable=False) for each in held] for _ in range(2)]
            self.samples = tf.Variable(0, dtype=tf.int64, trainable=False)
            self.updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        kept = tf.train.Checkpoint(model=self.decoder, moments=self.moments, samples=self.samples, updates=self.updates)
        folder = storage.root / FOLDER
        if rank:  # every worker takes part in a save, and one keeps it
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="tensorflow-")))
        self.kept, self.manager = kept, tf.train.CheckpointManager(kept, str(folder), config.checkpoint.keep)
        self.cadence = Cadence(config.checkpoint.every_steps, config.checkpoint.mtbf_hours)
        self.failures = 0
        self.flops = flops_per_sample(shape, weights(shape), config.sequence_length)
        self.gpu = next(iter(tf.config.get_visible_devices("GPU")), None)
        name = tf.config.experimental.get_device_details(self.gpu).get("device_name", "") if self.gpu else ""
        self.peak = peak_flops(name, config.precision, config.metrics.peak_tflops)
        self.metrics = Metrics(self._labels(), config.steps)
        if config.metrics.port:
            ends.callback(self.metrics.serve(config.metrics.port))
        self.board = Board(storage.root / "tensorboard") if config.metrics.tensorboard and rank == 0 else None
        if self.board:
            ends.callback(self.board.close)
        self.taken = self._compiled()
        self.speed: list[float] = []
        self.loss = math.nan

    def _labels(self) -> dict[str, str]:
        config = self.config
        named = {"model": config.model, "parallelism": config.parallelism, "precision": config.precision}
        return named | {"world_size": str(self.replicas)}

    @property
    def step(self) -> int:
        return -(-int(self.samples.numpy()) // self.share.global_batch)

    def run(self, done: Result | None) -> Result:
        """All steps that are left; `done` is what an end before this one said."""
        resumed = self._resume(done)
        ahead = data.steps(
            self.dataset,
            self.config.seed,
            self.share,
            int(self.samples.numpy()),
            self.schedule.total,
            self.config.data.workers,
        )
        self.ends.callback(ahead.close)  # type: ignore[attr-defined]
        with process.collecting(self.config.collect_every_steps) as collect:
            for batches, began, waited in timed(ahead):
                self._step(batches, began, waited)
                collect(self.step)
        if not self.manager.latest_checkpoint or _step_of(self.manager.latest_checkpoint) != self.step:
            self._save(last=True)
        result = self._result(resumed)
        if self.rank == 0:
            self.storage.mark_done(result)
        self.report.result(result)
        self._agreed(0)
        return result

    def _resume(self, done: Result | None) -> int | None:
        """Goes on from the newest checkpoint that can be read; returns its step."""
        state = tf.train.get_checkpoint_state(str(self.storage.root / FOLDER))
        found = list(reversed(state.all_model_checkpoint_paths)) if state else []
        resumed = next((step for path in found if (step := self._restored(path)) is not None), None)
        self._agreed(int(self.samples.numpy()))
        if resumed is None and (found or done) and not self.config.checkpoint.start_over:
            raise NoUsableCheckpointError(
                f"{self.storage.root} has no checkpoint that can be read: give the run another name, or set "
                "checkpoint.start_over=true"
            )
        if resumed is not None:
            self.report.say(f"checkpoint: resumed from step {resumed}")
        return resumed

    def _restored(self, path: str) -> int | None:
        """The step of a checkpoint that was read; None where it cannot be."""
        try:
            self.kept.restore(path).assert_existing_objects_matched()
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            self.report.say(f"checkpoint: {path} is left out: {str(error).splitlines()[0]}")
            return None
        return _step_of(path)

    def _agreed(self, number: int) -> None:
        """Waits for all workers. Raises CheckpointError where they do not say the same number."""

        @tf.function
        def means(said: tf.Tensor) -> tf.Tensor:
            def replica(said: tf.Tensor) -> tf.Tensor:
                return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, tf.identity(said))

            return self.strategy.experimental_local_results(self.strategy.run(replica, (said,)))[0]

        mean, square = means(tf.constant([number, number * number], tf.float64)).numpy()
        if square != mean * mean:
            raise CheckpointError("the workers do not find the same checkpoint: is their storage the same?")

    def _step(self, batches: list[MicroBatch], began: float, waited: float) -> None:
        """One optimizer step, and the save that is due after it."""
        number = self.step + 1
        rate = self.schedule.rate(int(self.samples.numpy()), self.share.global_batch)
        due = self.rank == 0 and self.cadence.due(number)
        inputs, targets = (
            self._of_replicas(np.stack([getattr(batch, name) for batch in batches])) for name in ("inputs", "targets")
        )
        told = tf.constant([self.stop.asked, due], tf.float32)
        rows = self.taken(inputs, targets, told, tf.constant(rate, tf.float32))
        self.loss, norm, asked, save = (float(value) for value in rows)
        for what, value in (("loss", self.loss), ("norm of the gradient", norm)):
            if not math.isfinite(value):
                raise NonFiniteError(f"step {number}: the {what} is {value}; the last checkpoint is from before that")
        self.samples.assign_add(self.share.global_batch)
        self._seen(number, rate, norm, time.perf_counter() - began, waited)
        last = int(self.samples.numpy()) >= self.schedule.total
        if asked and not last:
            self._preempted(number)
        if save and not last:
            self._save()

    def _of_replicas(self, whole: Any) -> Any:
        """Each replica's part of what a worker has: [passes, samples of the worker, tokens]."""
        parts = tf.split(tf.constant(whole, tf.int32), self.local, axis=1)
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group % self.local]
        )

    def _compiled(self) -> Callable[..., list[tf.Tensor]]:
        """A step: passes one after another, one all-reduce of their summed gradients, one update.

        It takes inputs and targets of [passes, samples, tokens] a replica, what this worker tells the others, and the
        learning rate; it gives the loss, the norm of the gradient before clipping, and what was told, summed.
        """
        config, passes = self.config, self.share.accumulation
        held = list(self.decoder.weights.values())

        def replica(inputs: tf.Tensor, targets: tf.Tensor, told: tf.Tensor, rate: tf.Tensor) -> list[tf.Tensor]:
            def one(number: tf.Tensor, loss: tf.Tensor, *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
                with tf.GradientTape() as tape:
                    mine = self.decoder.loss(inputs[number], targets[number])
                gradients = [tf.convert_to_tensor(each) for each in tape.gradient(mine, held)]
                return number + 1, loss + mine, *(a + b for a, b in zip(sums, gradients, strict=True))

            # A loop of the graph: passes that were written out would run side by side, and take memory together
            zeros = [tf.zeros(each.shape) for each in held]
            start = (tf.constant(0), tf.constant(0.0), *zeros)
            _, loss, *sums = tf.while_loop(lambda number, *_: number < passes, one, start, parallel_iterations=1)
            valid = tf.reduce_sum(tf.cast(targets != IGNORED, tf.float32))
            context = tf.distribute.get_replica_context()
            numbers, *sums = context.all_reduce(
                tf.distribute.ReduceOp.SUM, [tf.concat((tf.stack((loss, valid)), told), axis=0), *sums]
            )
            valid = tf.maximum(numbers[1], 1.0)
            norm = tf.linalg.global_norm(sums) / valid
            clipped = tf.minimum(1.0, config.gradient_clipping / (norm + 1e-6)) if config.gradient_clipping else 1.0
            context.merge_call(self._updated, (sums, clipped / valid, rate))
            return [numbers[0] / valid, norm, *tf.unstack(numbers[2:])]

        @tf.function
        def step(inputs: tf.Tensor, targets: tf.Tensor, told: tf.Tensor, rate: tf.Tensor) -> list[tf.Tensor]:
            self.updates.assign_add(1)
            rows = self.strategy.run(replica, (inputs, targets, told, rate))
            return [self.strategy.experimental_local_results(row)[0] for row in rows]

        return step

    def _updated(self, strategy: tf.distribute.Strategy, gradients: Any, factor: Any, rate: Any) -> None:
        """AdamW on gradients times a factor, as PyTorch's: matrices decay, vectors do not."""
        config = self.config
        taken = tf.cast(self.updates, tf.float32)

        def one(weight: Any, mean: Any, square: Any, gradient: Any, factor: Any, rate: Any) -> None:
            if len(weight.shape) > 1:
                weight.assign_sub(weight * (rate * config.weight_decay))
            gradient *= factor
            mean.assign(config.beta1 * mean + (1 - config.beta1) * gradient)
            square.assign(config.beta2 * square + (1 - config.beta2) * gradient * gradient)
            deviation = tf.sqrt(square / (1 - config.beta2**taken)) + EPSILON
            weight.assign_sub(rate / (1 - config.beta1**taken) * mean / deviation)

        for weight, mean, square, gradient in zip(self.decoder.weights.values(), *self.moments, gradients, strict=True):
            strategy.extended.update(weight, one, (mean, square, gradient, factor, rate), group=False)

    def _seen(self, number: int, rate: float, norm: float, seconds: float, waited: float) -> None:
        """Metrics and progress of a step."""
        self.speed.append(seconds)
        config, seen = self.config, self.metrics
        per_second = self.share.global_batch / seconds
        mine = self.share.micro * self.share.accumulation
        mfu = per_second * self.flops / (self.peak * self.replicas) if self.peak else 0.0
        seen.step.set(number)
        seen.last_step.set(time.time())
        seen.step_seconds.observe(seconds)
        seen.samples.inc(mine)
        seen.tokens.inc(mine * config.sequence_length)
        seen.loss.set(self.loss)
        seen.norm.set(norm)
        seen.rate.set(rate)
        seen.mfu.set(mfu)
        seen.data.inc(waited)
        if self.gpu:
            seen.memory.set(tf.config.experimental.get_memory_info("GPU:0")["peak"])
            tf.config.experimental.reset_memory_stats("GPU:0")
        if number % config.metrics.every_steps and number != config.steps:
            return
        line = {"step": number, "samples": int(self.samples.numpy()), "loss": self.loss, "gradient_norm": norm}
        line |= {"learning_rate": rate, "step_seconds": seconds, "data_seconds": waited}
        line |= {"tokens_per_second": per_second * config.sequence_length}
        line |= {"model_flops_utilization_ratio": mfu} if self.peak else {}
        self.report.progress(line, config.steps)
        if self.board:
            self.board.write(number, {name: value for name, value in line.items() if isinstance(value, float)})

    def _save(self, last: bool = False) -> None:
        """Saves the step that was taken last. Raises CheckpointError where that is the last one or too many failed."""
        start = time.perf_counter()
        try:
            self.manager.save(self.step)
        except (tf.errors.OpError, OSError) as error:
            self.failures += 1
            self.metrics.failures.inc()
            self.report.say(f"checkpoint: step {self.step} was not saved: {str(error).splitlines()[0]}")
            if last or self.failures >= self.config.checkpoint.failures:
                raise CheckpointError(f"step {self.step} could not be saved") from error
            return
        finally:
            self.cadence.begun(time.perf_counter() - start)
            self.metrics.saving.observe(time.perf_counter() - start)
        self.failures = 0
        self.cadence.ended()
        self.metrics.saved.set(time.time())

    def _preempted(self, number: int) -> None:
        self.report.say(f"told to stop: saving step {number}")
        self._save(last=True)
        self._agreed(number)
        seconds, grace = self.stop.used(self.config.grace_seconds)
        if seconds > grace / 2:
            self.report.say(f"saving took more than half of the {grace:g} s between SIGTERM and SIGKILL: lengthen them")
        took = f" {seconds:.1f} s after SIGTERM" if seconds else ""
        raise Preempted(f"stopped at step {number}, saved{took}: start it again and it goes on")

    def _result(self, resumed: int | None) -> Result:
        seconds = float(np.median(self.speed[1:] or self.speed or [math.inf]))
        speed = self.share.global_batch * self.config.sequence_length / seconds
        return {
            "steps": self.step,
            "samples": int(self.samples.numpy()),
            "final_loss": self.loss if math.isfinite(self.loss) else None,
            "tokens_per_second": round(speed, 1),
            "world_size": self.replicas,
            "resumed_from": resumed,
        }


def share(config: Config, replicas: int, workers: int, rank: int) -> Share:
    """A worker's share of each step. Raises ConfigError where the batch does not come out as declared."""
    taken = config.micro_batch * config.accumulation * replicas
    if config.global_batch not in (0, taken):
        seen = "" if tf.config.list_physical_devices("GPU") else "; TensorFlow sees no GPU on this worker"
        raise ConfigError(
            f"micro_batch {config.micro_batch} x accumulation {config.accumulation} x replicas {replicas} = {taken}, "
            f"but global_batch is {config.global_batch}{seen}"
        )
    return Share(rank, workers, config.micro_batch * (replicas // workers), config.accumulation)


def timed(ahead: Iterator[list[MicroBatch]]) -> Iterator[tuple[list[MicroBatch], float, float]]:
    """The batches of each step, when it began, and the time that was waited for them."""
    while True:
        began = time.perf_counter()
        batches = next(ahead, None)
        if batches is None:
            return
        yield batches, began, time.perf_counter() - began


def _step_of(path: str) -> int:
    """The step that a checkpoint's name ends in."""
    return int(path.rpartition("-")[2])


def main(arguments: Sequence[str]) -> int:
    """The command line. Returns the exit code."""
    try:
        run(sources.read(arguments))
    except TrainerError as error:
        rank = place()[1]
        if error.code != Preempted.code or rank == 0:
            sys.stderr.write(f"{'stopped' if error.code == Preempted.code else 'error'}: rank {rank}: {error}\n")
        return error.code
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for a slow disk or a dead peer are not waited for
