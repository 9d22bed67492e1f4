"""A job of the benchmark, made from the repository's bases under the name of this run."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.controlplane.client import Client
from trainyard.errors import Fault, InputError

Json = dict[str, Any]

MANAGER = "benchmark"
CONDITIONS = {
    "Job": ("status.succeeded == {completions}", "status.failed > 0"),
    "MPIJob": (
        "status.replicaStatuses.Launcher.succeeded > 0",
        "status.replicaStatuses.Launcher.failed > 0",
    ),
}
"""Of each kind that the chain starts, when it is done and when it has failed, as Argo's resource templates ask."""
_NAME = re.compile(r"(?m)^(metadata:\n  name: )(\S+)$")


@dataclass(frozen=True, slots=True)
class RunManifests:
    """What a job folder renders to, under the run's own name."""

    job: Json
    others: tuple[Json, ...]
    """ConfigMaps, claims, policies and the like, in the order in which they are applied."""
    images: tuple[str, ...]
    digest: str
    """SHA-256 of everything, the run's name apart: what the fingerprint says of the workload."""

    @property
    def success(self) -> str:
        spec = self.job["spec"]
        return CONDITIONS[self.job["kind"]][0].format(completions=spec.get("completions", 1))

    @property
    def failure(self) -> str:
        return CONDITIONS[self.job["kind"]][1]


def make(folder: Path, name: str, kustomize: str | Path = "kustomize") -> RunManifests:
    """Renders a copy of the job folder beside it, whose job is called `name`. InputError where it is not a job."""
    file = folder / "job.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or 'unknown').lower()}", str(file)) from None
    renamed, times = _NAME.subn(rf"\g<1>{name}", text)
    if times != 1:
        raise InputError("does not say `name` once below `metadata`", str(file))
    copy = folder.with_name(f".{name}")
    shutil.copytree(folder, copy)
    try:
        (copy / "job.yaml").write_text(renamed, encoding="utf-8")
        done = subprocess.run([kustomize, "build", copy], capture_output=True, text=True)
    finally:
        shutil.rmtree(copy)
    if done.returncode != 0:
        raise InputError(f"does not render: {done.stderr.strip().splitlines()[-1:]}", str(folder))
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    jobs = [item for item in objects if item["kind"] in CONDITIONS]
    if len(jobs) != 1:
        kinds = ", ".join(sorted({item["kind"] for item in objects}))
        raise InputError(
            f"renders no job that the chain can wait for ({' or '.join(CONDITIONS)}): {kinds}", str(folder)
        )
    others = tuple(item for item in objects if item is not jobs[0])
    plain = json.dumps(objects, sort_keys=True).replace(name, "run")
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return RunManifests(jobs[0], others, tuple(sorted(set(_images(jobs[0])))), digest)


def apply(client: Client, made: RunManifests, owner: Json) -> None:
    """Creates everything but the job, as the workflow's: what it made goes when it goes. Fault where refused."""
    for item in made.others:
        owned = {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}
        client.apply(owned, manager=MANAGER)


def owner_of(workflow: str, uid: str) -> Json:
    """The reference to the workflow that objects carry."""
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": workflow, "uid": uid}


def write(made: RunManifests, folder: Path) -> None:
    """The files that the next step's parameters are read from."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _files(made):
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Fault(f"{error.filename}: {error.strerror}") from None


def _files(made: RunManifests) -> Sequence[tuple[str, str]]:
    return (
        ("manifest.json", json.dumps(made.job)),
        ("success", made.success),
        ("failure", made.failure),
    )


def _images(data: Any) -> list[str]:
    """Images of all containers, wherever the kind keeps its pods."""
    if isinstance(data, dict):
        own = [data["image"]] if isinstance(data.get("image"), str) else []
        return own + [image for value in data.values() for image in _images(value)]
    return [image for value in data for image in _images(value)] if isinstance(data, list) else []
