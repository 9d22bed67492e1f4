"""python -m trainer.tensorflow [CONFIG.yaml] [key=value ...]

The same keys and data under TensorFlow's MultiWorkerMirroredStrategy, which reads TF_CONFIG as a TFJob sets it. A
decoder of Keras layers in the preset's sizes, data parallel, fp32 or mixed bf16; checkpoints are TensorFlow's own.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import data, sources
from trainer.config import Config
from trainer.data import IGNORED, MicroBatch, Share
from trainer.errors import ConfigError, NonFiniteError, TrainerError
from trainer.presets import Decoder, preset
from trainer.report import Report
from trainer.schedule import schedule
from trainer.storage import Storage


def decoder(shape: Decoder, length: int) -> keras.Model:
    """A GPT-2-like decoder: [batch, length] tokens to [batch, length, vocabulary] logits."""
    layers = keras.layers
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(shape.vocabulary, shape.width)(tokens)
    x = x + layers.Embedding(shape.context, shape.width)(keras.ops.arange(length))
    for _ in range(shape.layers):
        y = layers.LayerNormalization(epsilon=shape.epsilon)(x)
        x = x + layers.MultiHeadAttention(shape.heads, shape.width // shape.heads)(y, y, use_causal_mask=True)
        y = layers.Dense(shape.hidden, activation="gelu")(layers.LayerNormalization(epsilon=shape.epsilon)(x))
        x = x + layers.Dense(shape.width)(y)
    logits = layers.Dense(shape.vocabulary, use_bias=False, dtype="float32")(layers.LayerNormalization()(x))
    return keras.Model(tokens, logits)


def run(config: Config) -> dict[str, Any]:
    """Trains what a config says on the workers of TF_CONFIG, and returns what the last line says."""
    task = json.loads(os.environ.get("TF_CONFIG", "{}"))
    workers = len(task.get("cluster", {}).get("worker", [""]))
    rank = int(task.get("task", {}).get("index", 0))
    report, storage = Report(rank == 0), Storage(Path(config.checkpoint.dir) / config.run, "tensorflow")
    done = storage.done()
    if done is not None:
        report.result(done)
        return done
    shape = preset(config.model)
    if not isinstance(shape, Decoder):
        raise ConfigError(f"under TensorFlow only decoders train, and {config.model} is none")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    each = replicas // workers  # a worker drives all GPUs of its node
    share = Share(rank, workers, config.micro_batch * each, config.accumulation)
    if config.global_batch not in (0, share.global_batch):
        raise ConfigError(
            f"{replicas} replicas take {share.global_batch} samples a step, but global_batch is {config.global_batch}"
        )
    plan, dataset = schedule(config, share.global_batch), data.load(config, shape)
    keras.utils.set_random_seed(config.seed)
    if config.precision == "bf16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    with strategy.scope():
        model = decoder(shape, config.sequence_length)
        optimizer = keras.optimizers.AdamW(
            config.learning_rate, weight_decay=config.weight_decay, beta_1=config.beta1, beta_2=config.beta2
        )
        samples = tf.Variable(0, dtype=tf.int64, trainable=False)
        kept = tf.train.Checkpoint(model=model, optimizer=optimizer, samples=samples)
    folder = storage.root / "tensorflow" if rank == 0 else storage.root / f".tensorflow-{rank}"
    saved = tf.train.CheckpointManager(kept, str(folder), max_to_keep=config.checkpoint.keep)
    newest = tf.train.latest_checkpoint(str(storage.root / "tensorflow"))
    if newest:
        kept.restore(newest)
    resumed_from = int(samples.numpy()) // share.global_batch if newest else None

    @tf.function
    def step(inputs: tf.Tensor, targets: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        def replica(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            counted = tf.cast(targets != IGNORED, tf.float32)
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), model(inputs))
                loss = tf.reduce_sum(losses * counted) / valid
            weights = model.trainable_variables
            gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            if config.gradient_clipping:
                gradients, _ = tf.clip_by_global_norm(gradients, config.gradient_clipping)
            # Keras sums the replicas' gradients once more
            optimizer.apply_gradients([(g / replicas, weight) for g, weight in zip(gradients, weights, strict=True)])
            return loss

        mine = strategy.run(replica, (inputs, targets))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, mine, axis=None)

    def parts_of(whole: Any) -> Any:
        """Each replica's rows of what a worker has."""
        parts = tf.split(tf.constant(whole, tf.int32), each)
        return strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group % each]
        )

    @tf.function
    def summed(valid: tf.Tensor) -> tf.Tensor:
        counts = strategy.run(lambda count: count / each, (valid,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, counts, axis=None)

    loss, seconds, every = float("nan"), [], config.checkpoint.every_steps
    start = int(samples.numpy())
    for number, batches in enumerate(
        data.steps(dataset, config.seed, share, start, plan.total, config.data.workers),
        start=start // share.global_batch + 1,
    ):
        began = time.perf_counter()
        whole = joined(batches)
        optimizer.learning_rate.assign(plan.rate(int(samples.numpy()), share.global_batch))
        valid = summed(tf.constant(float(whole.valid)))
        loss = float(step(parts_of(whole.inputs), parts_of(whole.targets), valid))
        if not np.isfinite(loss):
            raise NonFiniteError(f"step {number}: the loss is {loss}")
        samples.assign_add(share.global_batch)
        seconds.append(time.perf_counter() - began)
        if number % config.metrics.every_steps == 0:
            report.progress(
                {"step": number, "loss": loss, "step_seconds": seconds[-1], "learning_rate": plan.peak}, config.steps
            )
        if (every and number % every == 0) or number == config.steps:
            saved.save(number)
    speed = share.global_batch * config.sequence_length / float(np.median(seconds[1:] or seconds or [float("inf")]))
    result: dict[str, Any] = {"steps": config.steps, "samples": int(samples.numpy()), "final_loss": loss}
    result |= {"tokens_per_second": round(speed, 1), "world_size": replicas, "resumed_from": resumed_from}
    if rank == 0:
        storage.mark_done(result)
    report.result(result)
    return result


def joined(batches: list[MicroBatch]) -> MicroBatch:
    """All passes of a step as one."""
    inputs, targets = (np.concatenate(parts) for parts in zip(*((b.inputs, b.targets) for b in batches), strict=True))
    return MicroBatch(inputs, targets, sum(batch.valid for batch in batches))


def main(arguments: Sequence[str]) -> int:
    """The command line. Returns the exit code."""
    try:
        run(sources.read(arguments))
    except TrainerError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
