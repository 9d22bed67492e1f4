"""python -m trainer.ray [--workers N] [--retries N] [CONFIG.yaml] [key=value ...]

The same run as a Ray Train job: Ray places the workers and tells each its rank, and every worker runs the trainer. The
cluster is the one that RAY_ADDRESS names, as KubeRay and `ray job submit` set it, else one of this machine alone. One
GPU is asked for a worker where the cluster has any. A worker's settings are TRAINER_* of the driver's environment, and
those of its own that the driver does not have: where its pod alone has something mounted.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from trainer import process, sources
from trainer.errors import TrainerError
from trainer.group import BACKENDS
from trainer.report import Report
from trainer.storage import Storage


def worker(given: dict[str, Any]) -> None:
    """One worker: Ray has joined the process group already, so the run joins the one that there is."""
    config = sources.read(given["arguments"], settings(os.environ) | given["environment"])
    process.set_variables(config)
    from trainer.loop import run

    run(config)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The trainer's variables of an environment."""
    return {name: value for name, value in environment.items() if name.startswith(sources.PREFIX)}


def _join() -> None:
    """Joins the cluster that RAY_ADDRESS names, else starts one that ends with this process.

    Left to itself Ray would take the cluster that was started last on this machine, though it may be gone.
    """
    if os.environ.get("RAY_ADDRESS"):
        ray.init(ignore_reinit_error=True, log_to_driver=True)
    else:
        ray.init("local", ignore_reinit_error=True, log_to_driver=True, include_dashboard=False)


def main(arguments: Sequence[str]) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.ray", description=__doc__)
    parser.add_argument(
        "--workers", type=int, default=0, help="default: nodes x gpus_per_node, or a worker a GPU of the cluster"
    )
    parser.add_argument("--retries", type=int, default=3, help="times that lost workers are started again")
    given, rest = parser.parse_known_args(arguments)
    try:
        config = sources.read(rest)
    except TrainerError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    _join()
    asked = config.nodes * config.gpus_per_node
    gpus = int(ray.cluster_resources().get("GPU", 0))
    scaling = ScalingConfig(num_workers=given.workers or asked or gpus or 1, use_gpu=gpus > 0)
    running = RunConfig(
        name=config.run,
        storage_path=os.path.abspath(f"{config.checkpoint.dir}/ray"),
        failure_config=FailureConfig(max_failures=given.retries),
    )
    joining = TorchConfig(backend=BACKENDS["cuda" if gpus else "cpu"], timeout_s=int(config.start_timeout_seconds))
    TorchTrainer(
        worker,
        train_loop_config={"arguments": rest, "environment": settings(os.environ)},
        torch_config=joining,
        scaling_config=scaling,
        run_config=running,
    ).fit()
    Report(speaks=True).result(Storage(Path(config.checkpoint.dir) / config.run).done() or {})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
