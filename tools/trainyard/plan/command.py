"""plan-job: says before a job runs what it needs, how fast it is, and what it costs."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from trainyard import commandline
from trainyard.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError, UsageError

_EXAMPLES = """\
examples:
  tools/plan-job jobs/research/llama-8b-sft                    memory, step, scaling, cost, checkpoints
  tools/plan-job jobs/research/llama-8b-sft --compare          other fabrics, nodes, strategies, micro-batches
  tools/plan-job jobs/research/llama-8b-sft --cluster gpu-north --price 2.5
  tools/plan-job jobs/research/llama-8b-sft --tokens 15e12 --svg curve.svg
  tools/plan-job jobs/research/llama-8b-sft --format json
  tools/plan-job --score schemas/hardware/published-runs.yaml  how far off it is on runs that were published
  tools/plan-job --fit schemas/hardware/published-runs.yaml    find the model's constants anew

exit codes:
  0    the job fits and starts
  1    it does not: memory, quota, or room for checkpoints
  2    bad usage, or a job or file that cannot be planned
  3    a fault of the tools or of their set-up
  130  interrupted

What the model is, and how far off: docs/forecast.md
"""
_POSITIVE = commandline.number("positive number")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run plan-job. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run("plan-job", lambda: _plan(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="plan-job",
        description="Says before a job runs what memory it needs, how fast it is, and what it and its failures cost.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="job folder, jobs/<team>/<job>")
    parser.add_argument("--cluster", metavar="NAME", help="plan for this cluster instead of the job's own")
    parser.add_argument("--compare", action="store_true", help="show other ways to run it, and which change helps most")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    parser.add_argument("--svg", metavar="FILE", help="write the curve of speed over nodes")
    parser.add_argument("--tokens", type=_POSITIVE, metavar="N", help="tokens to train on (default: the job's steps)")
    parser.add_argument("--epochs", type=_POSITIVE, metavar="N", help="times through the dataset, of --dataset-tokens")
    parser.add_argument("--dataset-tokens", type=_POSITIVE, metavar="N", help="tokens of the dataset")
    parser.add_argument("--price", type=_POSITIVE, metavar="P", help="price of a GPU for an hour")
    parser.add_argument(
        "--failure-rate", type=_POSITIVE, metavar="R", help="failures per 1000 nodes and day (default: the cluster's)"
    )
    parser.add_argument("--network-gbps", type=_POSITIVE, metavar="G", help="Gbit/s out of a node, one direction")
    parser.add_argument("--score", metavar="FILE", help="forecast published runs, print how far off as JSON")
    parser.add_argument("--fit", metavar="FILE", help="fit the model's constants to published runs, and keep them")
    return parser


def _plan(options: argparse.Namespace) -> int:
    wanted = [name for name in ("job", "score", "fit") if getattr(options, name)]
    if len(wanted) != 1:
        raise UsageError("name one job folder, or --score FILE, or --fit FILE (see plan-job --help)")
    if options.score:
        return _score(Path(options.score))
    return _fit(Path(options.fit)) if options.fit else _forecast(options)


def _score(file: Path) -> int:
    from trainyard.plan.constants import constants
    from trainyard.plan.score import document_of, load, score

    commandline.say(json.dumps(document_of(score(load(file), constants())), indent=2, ensure_ascii=False))
    return EXIT_CLEAN


def _fit(file: Path) -> int:
    from trainyard.plan.calibrate import calibrate, write
    from trainyard.plan.score import load, readable

    items = readable(load(file))
    if len({item.source for item in items}) < 2:
        raise InputError("has runs of fewer than two sources, so none can be left out", str(file))
    found, held = calibrate(items, lambda said: print(said, file=sys.stderr, flush=True))
    write(found, held)
    commandline.say(f"schemas/hardware/forecast.yaml: {held['all']['median']:.1%} median error on sources left out")
    return EXIT_CLEAN


def _forecast(options: argparse.Namespace) -> int:
    from trainyard.plan.chart import svg
    from trainyard.plan.compare import best, variants
    from trainyard.plan.document import compared, document
    from trainyard.plan.forecast import Overrides, forecast
    from trainyard.plan.repository import load
    from trainyard.plan.text import comparison, text
    from trainyard.report.output import write_text
    from trainyard.repository.discover import repository_root

    cwd = Path.cwd()
    job, run, quota = load(repository_root(cwd, [options.job]), options.job, cwd, options.cluster)
    wishes = Overrides(
        tokens=_tokens(options),
        price=options.price,
        failures_per_1000_node_days=options.failure_rate,
        network=None if options.network_gbps is None else options.network_gbps * 1e9 / 8,
    )
    found = forecast(job, run, wishes, quota)
    if options.svg:
        write_text(Path(options.svg), svg(found))
    options_there = variants(found) if options.compare else []
    first = best(found, options_there)
    if options.format == "json":
        said = document(found) | (compared(options_there, first, found) if options.compare else {})
        commandline.say(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        commandline.say(text(found) + (comparison(options_there, first, found) if options.compare else ""))
    return EXIT_CLEAN if found.starts else EXIT_FINDINGS


def _tokens(options: argparse.Namespace) -> float | None:
    if options.epochs is None and options.dataset_tokens is None:
        return None if options.tokens is None else float(options.tokens)
    if options.tokens is not None or options.epochs is None or options.dataset_tokens is None:
        raise UsageError("give --tokens alone, or --epochs and --dataset-tokens together")
    return float(options.epochs) * float(options.dataset_tokens)
