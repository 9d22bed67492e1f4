"""docs/forecast.md: the model, its constants and where they come from, and how far off it is."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.docs.generated import update
from trainyard.home import HOME
from trainyard.plan.constants import constants
from trainyard.plan.hardware import FOLDER, read
from trainyard.plan.score import Row, load, score, summary

PAGE = HOME / "docs" / "forecast.md"
RUNS = FOLDER / "published-runs.yaml"

FAR = 0.10
"""Rows that are farther off are listed one by one."""

HEAD = """\
# What tools/plan-job knows, and how far off it is

Written by `tools/update-docs` from `schemas/hardware/` and from what `tools/plan-job --score` says.

    tools/plan-job jobs/research/llama-8b-sft             memory, step, scaling, cost, checkpoints
    tools/plan-job jobs/research/llama-8b-sft --compare   other fabrics, sizes, strategies, and what helps most
    tools/plan-job --score FILE                           forecasts published runs and prints the errors
    tools/plan-job --fit FILE                             fits the constants again, leaving out one source at a time

## Memory of a GPU

Every term is printed with its arithmetic.
<!-- claim: every-term-with-its-arithmetic -->
P: number of weights of a rank. N: number of ranks that the states are sharded over.

| what | bytes |
|---|---|
| weights, gradients, moments | 4 P, 4 P, 8 P for ddp and FSDP; 2 P, 2 P, 12 P (fp32 weights too) for DeepSpeed |
| divided by N | moments from ZeRO-1 on, gradients from ZeRO-2 on, weights with ZeRO-3 and FSDP |
| gathered weights | 2 bytes per weight of two layers and the head; of the whole model if not freed |
| activations | per token and layer, from the shape, less what is recomputed; a pipeline: one set per pass in flight |
| attention's scores | 5 x heads x tokens, without a flash kernel (Korthikanti et al. 2022, arXiv 2205.05198) |
| logits | per word and token: 10 bytes eager (16-bit, fp32, gradient), 6 with a fused loss |
| the rest | 1 GiB CUDA context, 1.5 GiB communicators, 4 % fragmentation |

The linter's MEM003 leaves the last row out and assumes fused kernels, so its number is a lower bound.
MEM004, an error, counts weights, gradients and optimizer states: a smaller batch does not make those smaller.

## Time of a step

    step = (passes x (compute + recompute + tensor-parallel) + bubble + data-parallel + optimizer + host) x slowest GPU

| part | formula |
|---|---|
| matrix product m x k x n | (2 m k n + idle half wave) / sustained rate + operand_traffic x bytes / HBM |
| attention | causal half of 4 x tokens x keys x width, backward 2.5 times; otherwise whole, 12 bytes per score |
| elementwise | passes x bytes that a layer writes / HBM; backward twice |
| pipeline bubble | (stages - 1) / chunks x one pass (Narayanan et al. 2021, arXiv 2104.04473) |
| ring | (n-1)/n x bytes / the slower of NVLink and network, and a latency per hop; an all-reduce does it twice |
| tree | an all-reduce with log2(nodes) hops, where that is faster |
| data-parallel volume | ddp, ZeRO-1: 2 S per step; ZeRO-2: S per pass and S per step; ZeRO-3, FSDP: 3 S per pass |
| overlap | the time by which communication is longer than the computation beside it, and `contention` x the rest |
| optimizer | 40 bytes per weight / HBM; offloaded: over PCIe, and 1.5e9 weights/s on a node's CPUs |
| slowest of n | 1 + spread x sqrt(2 ln n) |

NVLink is counted at 80 % of the line rate of one direction, PCIe at 60 %, RDMA at 73 %, TCP at 60 %. The measured
collectives behind these figures are named in `tools/trainyard/plan/collectives.py`. S is the size of the weights. How
a training program does this arithmetic (flash attention, fused kernels, what it overlaps) is a table of facts in
`tools/trainyard/plan/stacks.py`.

## Checkpoints and failures

A checkpoint has 12 bytes per weight. Training pauses while it is copied out of the GPU, and goes on while it is
written. The best interval is Daly's, `sqrt(2 x pause x M) x (1 + sqrt(pause / 2M) / 3 + pause / 18M) - pause`, or twice
the time of a write where that is longer. M is 1 / (nodes x rate). State your own failure rate under `forecast` in the
cluster's facts: the default is that of Meta's RSC-1. Small jobs fail more often through software, which a rate per node
does not show.

## The constants

These numbers were fitted. They are global: they do not depend on the row, the model or the author.

| constant | value | what it is | where it starts from |
|---|---|---|---|
"""

ACCURACY = """
## How far off

Error: |forecast - measured| / measured, on tokens/s or an iteration's time. *Fitted*: with the constants above. *Left
out*: this source forecast with constants fitted to the others. The second is what to expect of a new source. It is
a little optimistic, since the formulas were chosen by people who knew these runs.

| source | rows | not forecast | fitted: median | 90 % | worst | left out: median | 90 % | worst |
|---|---|---|---|---|---|---|---|---|
"""

WHY = (
    (
        "mpt-a100_40gb-70b",
        "Memory is full: PyTorch's allocator frees and allocates again pass by pass, which is not modelled.",
    ),
    ("mpt-a100_40gb-13b", "One node of 40 GB GPUs with 13e9 weights: memory is full, as above."),
    ("mpt-h100_80gb-760m", "The same job is 9 % faster per GPU on two nodes; on one, memory is full."),
    (
        "mpt-h100_80gb-13b-s32768",
        "Attention is most of the work, and one constant says how fast it runs, short or long.",
    ),
    (
        "mpt-h100_80gb-13b",
        "4096 tokens per pass: eager FSDP hides less of its gathers behind such short layers.",
    ),
    (
        "mpt-a100_80gb-13b",
        "79 % of the peak with full recomputation is the best of the A100 rows; their mean is lower.",
    ),
    ("titan24-8b-cp", "Long context with 8-bit products: attention is most of the work, and runs at another rate."),
    ("titan24-70b", "Tensor parallelism is taken as visible, and some of it is not."),
    ("ibm24-h100-13b", "`selective` means another choice of layers there."),
    ("ds-azure", "Offload to the host beside computing, over links that are not stated."),
    ("mbridge-B200", "The Blackwell run on one node; products at 8 bits vary with the recipe."),
)
"""Why rows are far off, by the beginning of their id."""


def page() -> str:
    """The page as Markdown."""
    document = load(RUNS)
    rows = score(document, constants())
    facts = read("forecast.yaml")
    lines = [HEAD.rstrip("\n")]
    for name, constant in facts["constants"].items():
        lines.append(f"| `{name}` | {constant['value']:g} | {constant['means']} | {constant['source']} |")
    lines.append(ACCURACY.rstrip("\n"))
    lines += _accuracy(rows, facts["held_out"] or {})
    lines += [
        "",
        f"## Rows more than {FAR:.0%} off",
        "",
        "| row | forecast / measured | likely reason |",
        "|---|---|---|",
    ]
    lines += _far(rows)
    lines += ["", "## What is refused", "", "A row that does not say enough is not guessed.", "", "| row | reason |"]
    lines += ["|---|---|", *(f"| {row.id} | {row.refused} |" for row in rows if row.refused)]
    return "\n".join(lines) + "\n"


def _accuracy(rows: Sequence[Row], held: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found = summary(rows)
    everything = {"all": found, **found["by_source"]}
    return [
        f"| `{source}` | {facts['rows']} | {facts['refused']} | {_three(facts)} | {_three(held.get(source, {}))} |"
        for source, facts in everything.items()
    ]


def _three(facts: Mapping[str, Any]) -> str:
    return " | ".join(
        f"{facts[name]:.1%}" if facts.get(name) is not None else "" for name in ("median", "p90", "worst")
    )


def _far(rows: Sequence[Row]) -> list[str]:
    far = sorted((row for row in rows if row.error is not None and row.error > FAR), key=lambda row: -(row.error or 0))
    found = []
    for row in far:
        why = next((reason for start, reason in WHY if row.id.startswith(start)), "")
        found.append(f"| {row.id} | {(row.predicted or 0) / (row.measured or 1):.2f} | {why} |")
    return found


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "schemas/hardware/")


if __name__ == "__main__":
    sys.exit(main())
