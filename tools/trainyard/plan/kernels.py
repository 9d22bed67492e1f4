"""Computing time of one layer and of the head, on one GPU.

A matrix product costs its operations at the rate that training sustains, half a wave of tiles that leaves
multiprocessors idle, and a part of the traffic of its operands: so small and narrow products are slow. Elementwise work
costs traffic alone. Attention's flash kernels are bound by exponentials, so their rate follows cycles, not tensor
units; kernels made for one generation follow its tensor units.
"""

from dataclasses import dataclass

from trainyard.plan.constants import Constants
from trainyard.plan.run import Run

SCORE_BYTES = 12
"""Unfused attention, forward: bytes of HBM traffic a score (write, mask, softmax, dropout, read at 16 bits)."""

LOGIT_BYTES = 30
"""Bytes of traffic a logit, forward and backward: 16-bit product, fp32 copy, log-softmax, its gradient."""

LAUNCH = 5e-6
"""Seconds to launch a kernel from the host."""

KERNELS = {False: 30, True: 15}
"""Kernels of a layer's forward pass, eager and fused; backward launches twice as many."""


TILE = 128 * 256
"""Results that one multiprocessor makes at a time, in the large tiles that products of training use."""

DEPTH = 4096
"""Deeper products are split among multiprocessors, so a wave is no longer than this."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds of one micro-batch."""

    forward: float
    backward: float
    recompute: float

    @property
    def total(self) -> float:
        """All three."""
        return self.forward + self.backward + self.recompute


def layer(run: Run, constants: Constants) -> Pass:
    """One layer of one micro-batch on one of its tensor- and context-parallel ranks."""
    shape, tensor = run.shape, run.tensor
    rows = run.micro * run.sequence / run.context
    matrices = (
        (shape.width, (shape.width + 2 * shape.kv_width) / tensor),
        (shape.width / tensor, shape.width),
        (shape.width, (2 if shape.gated else 1) * shape.hidden / tensor),
        (shape.hidden / tensor, shape.width),
    )
    products = backward_products = 0.0
    for inner, outer in matrices:
        products += product(run, rows, inner, outer, constants)
        backward_products += product(run, rows, outer, inner, constants) + product(run, inner, rows, outer, constants)
    attention = _attention(run, rows, constants)
    passes = constants.fused_passes if run.stack.fused else constants.eager_passes
    elementwise = passes * rows * elementwise_bytes(run) / run.gpu.hbm
    launch = KERNELS[run.stack.fused] * LAUNCH
    forward = products + attention + elementwise
    again = run.recompute
    repeated = again.matrices * products + again.attention * attention + again.elementwise * elementwise
    backward_attention = 2.0 if run.stack.attention == "scores" else 2.5
    backward = backward_products + backward_attention * attention + 2 * elementwise
    return Pass(max(forward, launch), max(backward, 2 * launch), repeated)


def head(run: Run, constants: Constants) -> Pass:
    """The output matrix and the loss of one micro-batch."""
    rows = run.micro * (1 if run.shape.patches else run.sequence / run.context)
    outer = run.shape.vocabulary / run.tensor
    products = product(run, rows, run.shape.width, outer, constants, eight_bit=False)
    fused = constants.fused_passes / constants.eager_passes if run.stack.fused else 1.0
    loss = fused * LOGIT_BYTES * rows * outer / run.gpu.hbm
    return Pass(products + loss / 2, 2 * products + loss / 2, 0.0)


def product(
    run: Run, rows: float, inner: float, outer: float, constants: Constants, *, eight_bit: bool = True
) -> float:
    """Seconds of [rows, inner] x [inner, outer]."""
    rate = run.gpu.matmul * constants.sustained(run.gpu.generation)
    size = 2
    if run.precision == "fp8" and eight_bit:
        rate *= constants.fp8_gain
    elif run.precision == "tf32":
        rate, size = rate / 2, 4  # half the rate of 16 bits
    elif run.precision == "fp32":
        rate, size = rate * run.gpu.fp32 / run.gpu.tensor, 4
    idle = run.gpu.processors * TILE * min(inner, DEPTH)  # half of two operations a result
    traffic = size * (rows * inner + inner * outer + rows * outer)
    return (2 * rows * inner * outer + idle) / rate + constants.operand_traffic * traffic / run.gpu.hbm


def elementwise_bytes(run: Run) -> float:
    """Bytes a token and layer that are neither weights nor scores: what a layer's operations write at 16 bits."""
    shape, tensor = run.shape, run.tensor
    shared = 2 * (4 * shape.width)  # norms, residuals: split over ranks where sequences are
    inner = 2 * (2 * shape.width + 2 * shape.kv_width + (3 if shape.gated else 2) * shape.hidden)
    return (shared + inner) / tensor


def _attention(run: Run, rows: float, constants: Constants) -> float:
    """Forward seconds of the core of attention: scores, softmax, weighted sum."""
    shape = run.shape
    keys = shape.patches or run.sequence
    causal = 1.0 if shape.patches else 0.5
    work = 4 * rows * keys * shape.width / run.tensor
    if run.stack.attention == "scores":
        rate = run.gpu.matmul * constants.sustained(run.gpu.generation)
        return work / rate + SCORE_BYTES * rows * keys * shape.heads / run.tensor / run.gpu.hbm
    if run.stack.attention == "native":
        return causal * work / (run.gpu.matmul * constants.attention_native)
    return causal * work / (run.gpu.cycles * constants.attention_per_cycle)
