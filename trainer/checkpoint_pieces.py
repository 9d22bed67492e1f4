"""A checkpoint's tensors, piece by piece: what a rank holds of each, written and read where it lies in memory.

Ranks hold runs of a tensor's elements: rows under ddp and fsdp, any run under ZeRO. PyTorch Distributed Checkpoint has
boxes, so a run is cut into boxes, none larger than BOX. A rank writes what it holds, and reads what it needs into the
memory where it needs it: no tensor is put together, and of other ranks' boxes one at a time is in memory.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.tensor import DTensor

BOX = 1 << 24
"""Elements of a box: 64 MiB in fp32."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a rank holds of one tensor: elements in row-major order, from `start` on."""

    size: torch.Size
    """Of the whole tensor."""
    start: int
    values: Tensor
    """[elements]: a view of the memory that the optimizer works on, or a copy of it."""


State = dict[str, Piece]
"""`model.NAME`, `mean.NAME` and `square.NAME` of every parameter: the rank's piece of it, which may be empty."""


def piece(size: torch.Size, start: int, values: Tensor) -> Piece:
    """A piece without what lies beyond the end of the tensor, where memory is filled up."""
    return Piece(size, start, values[: max(0, size.numel() - start)])


def of_rows(tensor: Tensor, size: torch.Size, rank: int, world: int) -> Piece:
    """A rank's rows of a tensor that is sharded by FSDP2, or that every rank has whole: both are dealt out alike, and
    those of the last ranks may be fewer or none. `size` is the tensor's own where it is filled up."""
    each = -(-len(tensor) // world)
    first = min(rank * each, len(tensor))
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor[first : first + each]
    return piece(size, first * tensor.shape[1:].numel(), local.view(-1))


def boxes(piece: Piece) -> Iterator[tuple[torch.Size, Tensor]]:
    """The boxes of a piece of a vector or a matrix: where each begins, and its values in its own shape."""
    at, end = piece.start, piece.start + len(piece.values)
    columns = math.prod(piece.size[1:])
    while at < end:
        row, column = divmod(at, columns)
        if column or end - at < columns:  # a part of one row
            height, width = 1, min(columns - column, end - at)
        else:
            height, width = min((end - at) // columns, max(1, BOX // columns)), columns
        values = piece.values[at - piece.start : at - piece.start + height * width]
        yield torch.Size((row, column)[: len(piece.size)]), values.view((height, width)[: len(piece.size)])
        at += height * width


class Writes(DefaultSavePlanner):
    """Plans the writing of a state, a box an item."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.boxes: dict[tuple[str, torch.Size | None], Tensor] = {}

    def create_local_plan(self) -> SavePlan:
        items = []
        for name, held in self.state_dict.items():
            for offsets, values in boxes(held):
                self.boxes[name, offsets] = values
                data = TensorWriteData(
                    ChunkStorageMetadata(offsets, values.size()), TensorProperties.create_from_tensor(values), held.size
                )
                items.append(WriteItem(MetadataIndex(name, offsets), WriteItemType.SHARD, tensor_data=data))
        self.plan = SavePlan(items)
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        return self.boxes[index.fqn, index.offset]


class Reads(DefaultLoadPlanner):
    """Plans the reading of a state from boxes of any ranks."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.boxes: dict[tuple[str, torch.Size | None], Tensor] = {}

    def set_up_planner(self, state_dict: State, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator  # memory is there

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items: list[ReadItem] = []
        for name, held in self.state_dict.items():
            mine = dict(boxes(held))
            self.boxes |= {(name, offsets): values for offsets, values in mine.items()}
            wanted = [ChunkStorageMetadata(offsets, values.size()) for offsets, values in mine.items()]
            stored = self.metadata.state_dict_metadata[name]
            assert isinstance(stored, TensorStorageMetadata)
            items += create_read_items_for_chunk_list(name, stored, wanted)
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return self.boxes[index.fqn, index.offset]


def misfits(state: Mapping[str, Piece], stored: Mapping[str, object]) -> list[str]:
    """Where a checkpoint's tensors are not those of a state, a line each: it must hold all of them and no others."""
    found = [f"it has {name}, which the model does not have" for name in sorted(stored.keys() - state.keys())]
    found += [f"it lacks {name}" for name in sorted(state.keys() - stored.keys())]
    for name in sorted(state.keys() & stored.keys()):
        size = tuple(getattr(stored[name], "size", ()))
        if size != tuple(state[name].size):
            found.append(f"its {name} is {_times(size)}, the model's {_times(state[name].size)}")
    return found


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size)) or "no tensor"
