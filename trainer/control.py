"""What ranks tell each other once a step, and read a step later: the host starts the next passes before it waits."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Told:
    """What one rank tells of a step."""

    loss: float
    """Summed over this rank's targets."""
    stop: bool
    saving: float
    """What its part of a save is at."""
    due: bool
    failures: float
    probe: float
    """Seconds of its fixed product; 0: not measured in this step."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was taken and whose numbers are on their way to the host."""

    number: int
    rate: float
    seconds: float
    """Wall time, its share of what the step before left on the device included."""
    waited: float
    """Seconds for its batches."""
    numbers: Tensor
    """On the host once `arrived`: valid targets of all ranks, the gradient's norm, and a row of `Told` a rank."""
    arrived: torch.cuda.Event | None

    def read(self) -> tuple[float, float, list[Told]]:
        """Waits for the numbers: valid targets, norm, and what each rank told."""
        if self.arrived is not None:
            self.arrived.synchronize()
        valid, norm, *told = self.numbers.tolist()
        rows = [told[at : at + len(Told.__slots__)] for at in range(0, len(told), len(Told.__slots__))]
        return max(1.0, valid), norm, [Told(r[0], bool(r[1]), r[2], bool(r[3]), r[4], r[5]) for r in rows]


class Exchange:
    """The one collective of a step that is not a gradient's."""

    def __init__(self, world: int, device: torch.device) -> None:
        self.world, self.device = world, device

    def gathered(self, loss: Tensor, told: list[float]) -> Tensor:
        """What all ranks tell, on the device: [world, fields of Told]; `loss` is a scalar there, `told` the rest."""
        row = self.on_device(torch.tensor([0.0, *told], dtype=torch.float64))
        row[0] = loss
        table = torch.empty(self.world * len(row), dtype=torch.float64, device=self.device)
        dist.all_gather_into_tensor(table, row)
        return table.view(self.world, len(row))

    def on_device(self, tensor: Tensor) -> Tensor:
        """Moves a tensor there without waiting."""
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def sent(self, valid: Tensor, norm: Tensor, table: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
        """A step's numbers on their way to the host, and what tells that they are there."""
        numbers = torch.cat([valid.view(1), norm.view(1).to(table), table.flatten()])
        if self.device.type == "cpu":
            return numbers, None
        host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        host.copy_(numbers, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return host, arrived
