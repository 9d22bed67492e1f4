"""What Prometheus and TensorBoard see; names, units and scopes are those of schemas/trainer-metrics.yaml."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, start_http_server

from trainer.errors import ConfigError

PREFIX = "trainyard_"
SCALARS = ("loss", "gradient_norm", "learning_rate", "model_flops_utilization_ratio", "step_seconds")

PEAK_TFLOPS: dict[str, dict[str, float]] = {
    "A100": {"bf16": 312, "fp16": 312, "fp32": 19.5},
    "H100": {"bf16": 989, "fp16": 989, "fp32": 67},
    "H200": {"bf16": 989, "fp16": 989, "fp32": 67},
    "GH200": {"bf16": 989, "fp16": 989, "fp32": 67},
    "B200": {"bf16": 2250, "fp16": 2250, "fp32": 80},
    "L40S": {"bf16": 362, "fp16": 362, "fp32": 91.6},
    "L4": {"bf16": 121, "fp16": 121, "fp32": 30},
    "V100": {"fp16": 125, "fp32": 15.7},
    "T4": {"fp16": 65, "fp32": 8.1},
    "MI300X": {"bf16": 1307, "fp16": 1307, "fp32": 163.4},
}
"""Dense peaks of makers' data sheets, TFLOP/s; the name is a word of the one that the driver gives."""


def peak_flops(gpu: str, precision: str, given_tflops: float) -> float:
    """Dense peak of one device, FLOP/s, by the name that its driver gives; 0 where it is not known, as for CPUs, whose
    name is empty."""
    if given_tflops:
        return given_tflops * 1e12
    words = gpu.replace("-", " ").split()
    known = next((PEAK_TFLOPS[word] for word in words if word in PEAK_TFLOPS), {})
    return known.get(precision, 0.0) * 1e12


class Metrics:
    """One node's metrics. Local rank 0 serves them; other ranks have an object that nobody reads."""

    def __init__(self, labels: dict[str, str], planned_steps: int) -> None:
        self.registry = CollectorRegistry()
        self.step = self._made(Gauge, "step", "Optimizer steps done since the start of the run")
        self.planned = self._made(Gauge, "planned_steps", "Optimizer steps after which the run is done")
        self.last_step = self._made(Gauge, "last_step_timestamp_seconds", "Unix time at which the last step ended")
        self.step_seconds = self._made(Summary, "step_seconds", "Wall time of a step, checkpoints not included")
        self.tokens = self._made(Counter, "tokens_total", "Tokens that the ranks of this pod trained on")
        self.samples = self._made(Counter, "samples_total", "Samples that the ranks of this pod trained on")
        self.loss = self._made(Gauge, "loss", "Mean cross-entropy a target over the global batch of the last step")
        self.norm = self._made(Gauge, "gradient_norm", "Global L2 norm of the gradients, before clipping")
        self.rate = self._made(Gauge, "learning_rate", "Learning rate of the last step")
        self.skipped = self._made(Counter, "skipped_steps_total", "Steps whose update was left out: fp16 overflowed")
        self.mfu = self._made(Gauge, "model_flops_utilization_ratio", "Model FLOP/s over the dense peak, 0 to 1")
        self.data = self._made(Counter, "data_wait_seconds_total", "Time that local rank 0 waited for its next batch")
        self.exposed = self._made(Counter, "communication_seconds_total", "Time in collectives that nothing hid")
        self.spread = self._made(Gauge, "rank_spread_ratio", "Slowest rank over the median rank, at a fixed product")
        self.slowest = self._made(Gauge, "slowest_rank", "Rank that took longest for the fixed product")
        self.saving = self._made(Summary, "checkpoint_seconds", "Time that training stood still for a checkpoint")
        self.failures = self._made(Counter, "checkpoint_failures_total", "Checkpoints begun that are not on storage")
        self.saved = self._made(Gauge, "last_checkpoint_timestamp_seconds", "Unix time of the last whole checkpoint")
        self.memory = self._made(
            Gauge, "gpu_memory_peak_bytes", "Most memory of local rank 0 since the last step began"
        )
        info = Gauge(f"{PREFIX}run_info", "1, with what the run is in its labels", list(labels), registry=self.registry)
        info.labels(**labels).set(1)
        self.planned.set(planned_steps)
        self.last_step.set(time.time())
        self.saved.set(time.time())

    def _made(self, kind: Callable[..., Any], name: str, text: str) -> Any:
        return kind(PREFIX + name, text, registry=self.registry)

    def serve(self, port: int) -> Callable[[], None]:
        """Starts the endpoint; returns what ends it. Raises ConfigError where the port is taken."""
        try:
            server, thread = start_http_server(port, registry=self.registry)
        except OSError as error:
            raise ConfigError(f"metrics.port {port}: {error.strerror}") from error

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return close


class Board:
    """TensorBoard's event files."""

    def __init__(self, folder: Path) -> None:
        # takes a second to import, and rank 0 alone needs it
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary as Scalars
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event, self.scalars, self.writer = Event, Scalars, EventFileWriter(str(folder))

    def write(self, step: int, scalars: dict[str, float]) -> None:
        """Those of a step that are in SCALARS."""
        values = [self.scalars.Value(tag=name, simple_value=scalars[name]) for name in SCALARS if name in scalars]
        self.writer.add_event(self.event(wall_time=time.time(), step=step, summary=self.scalars(value=values)))

    def close(self) -> None:
        self.writer.close()
