"""What a checkpoint holds, and what saving and resuming cost: pieces where they lie, and nothing put together."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.trainer.conftest import WAYS, Run, Trained, Trainer, ended, plain_tensors, started
from tests.trainer.test_parallel import TOLERANCE
from trainer import checkpoint_pieces
from trainer.checkpoint import Stage
from trainer.checkpoint_pieces import Piece, Reads, Writes
from trainer.presets import preset, weights
from trainer.storage import Manifest, Storage, digest_of

pytestmark = pytest.mark.torch


@given(
    size=st.one_of(st.tuples(st.integers(1, 40)), st.tuples(st.integers(1, 12), st.integers(1, 7))),
    cuts=st.lists(st.integers(0, 84), max_size=4),
    box=st.integers(1, 20),
)
def test_boxes_of_all_pieces_are_the_tensor(size: tuple[int, ...], cuts: list[int], box: int) -> None:
    """However a tensor's elements are dealt out, its boxes hold each of them once, in its place."""
    whole = torch.arange(float(torch.Size(size).numel())).view(size)
    ends = sorted(min(cut, whole.numel()) for cut in (*cuts, 0, whole.numel()))
    found, times = torch.full(size, -1.0), torch.zeros(size)
    before, checkpoint_pieces.BOX = checkpoint_pieces.BOX, box
    try:
        for start, end in pairwise(ends):
            for offsets, values in checkpoint_pieces.boxes(Piece(whole.shape, start, whole.flatten()[start:end])):
                assert values.numel() <= max(box, size[-1])
                place = tuple(slice(at, at + length) for at, length in zip(offsets, values.shape, strict=True))
                found[place] = values
                times[place] += 1
    finally:
        checkpoint_pieces.BOX = before

    assert torch.equal(found, whole)
    assert torch.equal(times, torch.ones(size))


@pytest.fixture
def fake_world() -> Iterator[None]:
    """A process group whose other ranks are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    yield
    dist.destroy_process_group()


def test_a_shard_is_saved_and_read_where_it_lies(fake_world: None, tmp_path: Path) -> None:
    """A shard on a mesh of a device that its values are not on, as those are that are staged from a mesh of GPUs.

    Whatever makes a distributed tensor of the staged values again moves them to the mesh's device: here that device
    does not exist, so a single such copy fails.
    """
    del fake_world
    mesh = init_device_mesh("cuda", (2,))
    local = torch.arange(12.0).view(3, 4)
    spec = DTensorSpec(mesh, (Shard(0),), TensorMeta(torch.Size((5, 4)), (4, 1), torch.float32))
    shard = DTensor(local, spec, requires_grad=False)
    held = checkpoint_pieces.of_rows(shard, torch.Size((5, 4)), 1, 2)

    staged = Stage().copy({"model.x": held})
    save(staged, storage_writer=FileSystemWriter(tmp_path), planner=Writes(), no_dist=True)

    assert (held.start, held.values.data_ptr()) == (12, local.data_ptr())
    assert staged["model.x"].values.data_ptr() != local.data_ptr()
    assert FileSystemReader(tmp_path).read_metadata().state_dict_metadata["model.x"].size == (5, 4)  # type: ignore[union-attr]
    local.zero_()
    load({"model.x": held}, storage_reader=FileSystemReader(tmp_path), planner=Reads(), no_dist=True)
    assert torch.equal(local.flatten()[:8], torch.arange(8.0))


def as_earlier_code_wrote_it(tensors: dict[str, Tensor], of: Path, root: Path) -> None:
    """One rank's checkpoint before there were pieces: PyTorch's own plan, whole tensors."""
    storage = Storage(root, "earlier")
    before = json.loads((of / "manifest.json").read_text())
    part = storage.part(before["step"])
    save(tensors, storage_writer=FileSystemWriter(part), no_dist=True)
    files = {path.name: digest_of(path) for path in part.iterdir()}
    fields = {name: before[name] for name in Manifest.__dataclass_fields__}
    storage.publish(Manifest(**fields | {"files": files}))


@pytest.mark.claim("rows-that-are-no-words")
def test_a_checkpoint_holds_the_model_and_no_padding(trained: Trained) -> None:
    tensors = plain_tensors(trained("zero3", 2)[1].folder("whole") / "step-000000012")

    assert tensors["model.tokens.weight"].shape == (257, 64)
    assert sum(tensor.numel() for tensor in tensors.values()) == 3 * weights(preset("llama-tiny-tied"))


@pytest.mark.parametrize("way", ["ddp", "fsdp", "zero1", "zero3"])
def test_a_checkpoint_of_earlier_code_is_resumed(trained: Trained, train: Trainer, one_rank: Run, way: str) -> None:
    written = trained("fsdp", 2)[1].folder("whole") / "step-000000004"
    as_earlier_code_wrote_it(plain_tensors(written), written, train.folder("whole"))

    run = train("run=whole", *WAYS[way], ranks=2)

    assert run.result["resumed_from"] == 4, run.errors
    assert run.curve == pytest.approx({step: loss for step, loss in one_rank.curve.items() if step > 4}, rel=TOLERANCE)


@pytest.mark.claim("checkpoint-of-another-model")
@pytest.mark.parametrize(
    ("way", "change", "message"),
    [
        ("fsdp", "untied", "it has mean.head.weight, which the model does not have; "
         "it has model.head.weight, which the model does not have"),
        ("ddp", "untied", "it has mean.head.weight, which the model does not have"),
        ("zero3", "untied", "it has mean.head.weight, which the model does not have"),
        ("fsdp", "lost", "it lacks model.norm.weight"),
        ("zero1", "smaller", "its model.tokens.weight is 256 x 64, the model's 257 x 64"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_model_is_refused_by_its_tensors(
    trained: Trained, train: Trainer, way: str, change: str, message: str
) -> None:
    """As the ones that ddp wrote when it had lost the tie, whose head fsdp then threw away."""
    written = trained("fsdp", 2)[1].folder("whole") / "step-000000004"
    tensors = plain_tensors(written)
    match change:
        case "untied":
            tensors |= {f"{kind}.head.weight": torch.zeros(257, 64) for kind in ("model", "mean", "square")}
        case "lost":
            del tensors["model.norm.weight"]
        case _:
            tensors["model.tokens.weight"] = tensors["model.tokens.weight"][:256].clone()
    as_earlier_code_wrote_it(tensors, written, train.folder("whole"))

    run = train("run=whole", *WAYS[way], ranks=2)

    assert (run.code, run.lines) == (2, [])
    assert message in run.errors
    assert "give the run another name" in run.errors


LARGE = ("model=gpt-10m", "sequence_length=8", "checkpoint.every_steps=0", "warmup_steps=0", "data.workers=0")


@pytest.mark.claim("save-gathers-nothing")
@pytest.mark.parametrize("way", ["zero3", "zero1"])
def test_a_save_gathers_nothing_and_a_resume_takes_the_memory_of_its_shard(train: Trainer, way: str) -> None:
    """Four ranks of a model whose weights and moments are 106 MB: a rank's shard is 27.

    Stage 1 gathers the weights of its passes at the end, as in each step, and gloo copies them in host memory.
    """
    keys = ["memory", *train.arguments([*LARGE, "run=large", *WAYS[way]], 4)]

    first = ended(started("tests.trainer.altered", [*keys, "steps=1"], 4))
    again = ended(started("tests.trainer.altered", [*keys, "steps=2"], 4))

    assert (first.code, again.code, again.result["resumed_from"]) == (0, 0, 1), first.errors + again.errors
    shard = 12 * weights(preset("gpt-10m")) / 4
    said = [json.loads(line) for line in again.errors.splitlines() if line.startswith("{")]
    added = [line["added"] for line in said if "added" in line]
    assert len(added) == 4
    copied = 4 * weights(preset("gpt-10m")) if way == "zero1" else 0
    assert max(added) <= 1.5 * shard + copied, [round(each / shard, 2) for each in added]
    assert [line["called"] for line in said if "called" in line] == [[]] * 4
