"""A job with fewer nodes and ranks: the two numbers of its job.yaml changed, and rendered again."""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.cache import FOLDER, LINK, is_content
from trainyard.errors import InputError
from trainyard.kustomize.render import Rendering, render_one
from trainyard.objects.objects import Object
from trainyard.rehearse import open_beneath


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the rehearsal is. None leaves a number as it is written."""

    nodes: int | None = None
    gpus_per_node: int | None = None


def rendered_smaller(
    root: Path, folder: str, reads: Mapping[str, str], training_job: Object, scale: Scale, work: Path
) -> Rendering:
    """What the job folder renders to with the numbers of `scale` in its job.yaml.

    `reads` is all that its rendering depends on; a copy of those files is made in `work`. InputError where kustomize
    refuses the copy, which it took at full size.
    """
    file = f"{folder}/job.yaml"
    document = yaml.safe_load((root / file).read_text())
    document["spec"] = smaller(_map(document.get("spec")), _map(training_job.data.get("spec")), scale)
    work.mkdir(exist_ok=True)
    for name in reads:
        if name == file:
            _write(work, name, yaml.safe_dump(document, sort_keys=False).encode())
        elif is_content(reads[name]):
            _write(work, name, (root / name).read_bytes())
        elif reads[name].startswith(LINK):
            with open_beneath.folder(work, posixpath.dirname(name), make=True) as there:
                os.symlink(os.readlink(root / name), posixpath.basename(name), dir_fd=there)
        elif reads[name] == FOLDER:
            with open_beneath.folder(work, name, make=True):
                pass
    rendering = render_one(work, folder)
    if rendering.error:
        raise InputError(f"does not render with fewer nodes: {rendering.error}", f"{folder}/job.yaml")
    return rendering


def _write(work: Path, name: str, content: bytes) -> None:
    """A new file of the copy, through no link of it."""
    with open_beneath.folder(work, posixpath.dirname(name), make=True) as there:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(posixpath.basename(name), flags, 0o644, dir_fd=there), "wb") as file:
            file.write(content)


def smaller_spec(training_job: Object, scale: Scale) -> dict[str, Any]:
    """The whole `spec` of a TrainingJob at another size."""
    whole = _map(training_job.data.get("spec"))
    return smaller(whole, whole, scale)


def smaller(written: Mapping[str, Any], whole: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """The `spec` of a job.yaml at another size.

    `written` is what the file says, `whole` the TrainingJob with all defaults. The batch of a rank stays as it is, so
    the global batch shrinks with the ranks: where `micro x accumulation x ranks` was the global batch it is so again,
    and where it was not it is not.
    """
    nodes, per_node = _count(whole.get("nodes")), _count(whole.get("gpusPerNode"))
    fewer_nodes = nodes if scale.nodes is None else scale.nodes
    fewer_ranks = per_node if scale.gpus_per_node is None else scale.gpus_per_node
    batch = _map(whole.get("batch"))
    a_rank = _count(batch.get("micro")) * _count(batch.get("accumulation"))
    before, after = nodes * per_node, fewer_nodes * fewer_ranks
    asked = _count(batch.get("global"))
    if asked == a_rank * before:
        global_batch = a_rank * after
    else:
        global_batch = max(1, round(asked * after / before))
        global_batch += global_batch == a_rank * after
    changed = dict(written) | {"nodes": fewer_nodes, "gpusPerNode": fewer_ranks}
    changed["batch"] = dict(_map(written.get("batch"))) | {"global": global_batch}
    least = _map(whole.get("elastic")).get("minNodes")
    if isinstance(least, int) and least > fewer_nodes:
        changed["elastic"] = dict(_map(written.get("elastic"))) | {"minNodes": fewer_nodes}
    return changed


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
