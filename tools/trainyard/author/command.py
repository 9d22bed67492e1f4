"""The command line of new-job."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from trainyard import commandline

_EXAMPLES = """\
examples:
  tools/new-job                                  asks, on a terminal
  tools/new-job --name my-run --cluster gpu-east --team research --launcher torchrun \\
      --model llama-3.1-8b --nodes 4 --data /data/web --dry-run
  tools/new-job --name my-run --batch 512 --learning-rate 2e-4 --steps 10000      asks the rest

It proposes the batch and the learning rate of the published recipe whose model is nearest in weights
(schemas/hardware/recipes.yaml), and the sharding, micro-batch and checkpoints that tools/plan-job forecasts as
fastest among those that fit. What you give is taken as it is. Nothing is overwritten.

exit codes:
  0    written (with --dry-run: would be), and lints clean
  1    written, but it has errors, which are shown
  2    bad usage, an answer that cannot be taken, or no proposal that fits; nothing is written
  3    a fault of the tools or of their set-up
  130  interrupted; nothing is written
"""
COUNT = commandline.count(10**9)
RATE = commandline.number("rate", most=10)
_TOKENS = commandline.number("number of tokens", least=1, most=1e18)


def main(arguments: Sequence[str] | None = None, read: Callable[[str], str] = input) -> int:
    """Run new-job. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run(
        "new-job", lambda: _new(parser().parse_args(arguments), read), "interrupted; nothing is written"
    )


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="new-job",
        description="Writes the folder of a job: asks what only its author knows, and proposes the rest.",
        epilog=_EXAMPLES,
    )
    asked = parser.add_argument_group("asked for on a terminal where they are missing")
    asked.add_argument("--name", help="name of the run; it names its folder, pods and metrics")
    asked.add_argument("--cluster", help="where it runs: a folder of clusters/")
    asked.add_argument("--team", help="a team with a namespace on that cluster")
    asked.add_argument("--launcher", help="how it is launched: a folder of base/ (default: torchrun)")
    asked.add_argument("--model", help="preset of the trainer")
    asked.add_argument("--nodes", help="nodes, each with all of its GPUs")
    asked.add_argument("--data", metavar="PATH", help="folder of the dataset: /data/<folder>")
    asked.add_argument("--claim", help="claim of the dataset (default: the cluster's first)")
    wanted = parser.add_argument_group("proposed where they are missing")
    wanted.add_argument("--batch", type=COUNT, metavar="N", help="samples of an optimizer step, over all ranks")
    wanted.add_argument("--learning-rate", type=RATE, metavar="R", help="peak learning rate")
    wanted.add_argument("--steps", type=COUNT, metavar="N", help="optimizer steps")
    wanted.add_argument("--tokens", type=_TOKENS, metavar="N", help="tokens to train on, instead of --steps")
    wanted.add_argument("--sequence-length", type=COUNT, metavar="N", help="tokens of a sample")
    parser.add_argument("--queue", help="a folder of base/queue (default: none)")
    parser.add_argument("--dry-run", action="store_true", help="show the files, findings and forecast; write nothing")
    parser.add_argument("--request", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list-launchers", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    return parser


def _new(options: argparse.Namespace, read: Callable[[str], str]) -> int:
    from trainyard.author.new import new

    return new(options, read)
