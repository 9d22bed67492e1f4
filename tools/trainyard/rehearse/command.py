"""rehearse-job: runs the rendered pods of a job as processes on this machine, before a cluster does."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard import commandline
from trainyard.errors import InputError

_EXAMPLES = """\
examples:
  tools/rehearse-job jobs/research/llama-8b-sft                 two nodes of two ranks: meet, train, save, resume
  tools/rehearse-job jobs/research/llama-8b-sft --nodes 3 --gpus-per-node 1
  tools/rehearse-job jobs/research/llama-8b-sft --logs logs     a file for each container, and the verdict here
  tools/rehearse-job jobs/research/llama-8b-sft --chaos kill-rank@5
  tools/rehearse-job jobs/research/llama-8b-sft --chaos preempt@5 --format json
  tools/rehearse-job jobs/research/llama-8b-sft --chaos slow-disk=10Mi@5 --chaos preempt@6
  tools/rehearse-job job.yaml --program train.py=src/train.py   plain manifests, and what the image would bring
  tools/rehearse-job job.yaml --arg=--max_steps=6 --env HF_HUB_OFFLINE=1    a program that is changed for the rehearsal

--chaos, each after a step of training:
  kill-rank@STEP      the last rank dies                 kill-node@STEP   its node is lost
  lose-node@STEP      its node is lost, and nothing takes its place until an elastic job has gone on without it
  preempt@STEP        every pod is told to end           fill-disk@STEP   the checkpoints' disk is full
  cut=POD,POD@STEP    no packet goes from one to the other, until a pod gives up
  slow-disk=[CLAIM:]RATE@STEP
                      a claim, that of the checkpoints if none is named, takes RATE bytes a second, as in 10Mi

exit codes:
  0    nothing was wrong with what was seen; the report names what was not
  1    something was: findings, at the fields that are to blame
  2    bad usage, or a job that cannot be rehearsed as asked, or not be judged without what this machine lacks
  3    a fault of the tools or of their set-up
  130  interrupted

It needs Linux, bubblewrap, and the trainer's Python, which the first run sets up. As root, or where users may make
namespaces, each pod has a network of its own, with the cluster's names and NetworkPolicies; else all share the loopback
interface, and the report says what was not checked. What it shows, and what the linter shows: docs/rehearsal.md
"""
_COUNT = commandline.count(64)
_SECONDS = commandline.number("number of seconds", most=86400)
_MILLISECONDS = commandline.number("number of milliseconds", most=10000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rehearse-job. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run("rehearse-job", lambda: _rehearse(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="rehearse-job",
        description="Runs the rendered pods of a job as processes on this machine, scaled down, before a cluster does.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("job", metavar="JOB", help="job folder, jobs/<team>/<job>, or a manifest file")
    parser.add_argument("--nodes", type=_COUNT, metavar="N", help="nodes (default: 2; of plain manifests at most 2)")
    parser.add_argument(
        "--gpus-per-node", type=_COUNT, metavar="N", help="ranks of a node (default: 2; of plain manifests at most 2)"
    )
    parser.add_argument("--steps", type=_COUNT, default=6, metavar="N", help="steps to train (default: 6)")
    parser.add_argument("--once", action="store_true", help="do not start it again to see it resume")
    parser.add_argument("--chaos", action="append", default=[], metavar="EVENT", help="what happens to it; see below")
    parser.add_argument(
        "--program", action="append", default=[], metavar="NAME=PATH", help="what stands in for a program of the image"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="one more variable of every container"
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="WORD", help="one more argument of the training program"
    )
    parser.add_argument(
        "--step-pattern", metavar="REGEX", help="how a line tells of a step: a group for its number, as in 'at (\\d+)'"
    )
    parser.add_argument(
        "--latency",
        type=_MILLISECONDS,
        metavar="MS",
        help="milliseconds that each packet takes, where the kernel has netem",
    )
    parser.add_argument("--loopback", action="store_true", help="no network namespaces, even where they can be made")
    parser.add_argument(
        "--patience", type=_SECONDS, default=30.0, metavar="S", help="seconds of silence that are a hang (default: 30)"
    )
    parser.add_argument(
        "--timeout", type=_SECONDS, default=600.0, metavar="S", help="longest time of a run (default: 600)"
    )
    parser.add_argument("--logs", metavar="DIR", help="write a file for each container instead of the merged log")
    parser.add_argument("--quiet", action="store_true", help="no log")
    parser.add_argument("--format", choices=["text", "json", "github"], default="text", help="default: text")
    parser.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="default: auto")
    return parser


def _rehearse(options: argparse.Namespace) -> int:
    from trainyard.rehearse.chaos import COLLECTIVE_SECONDS, event
    from trainyard.rehearse.load import load
    from trainyard.rehearse.pod_logs import Voices
    from trainyard.rehearse.programs import given_programs, given_variables, missing_program
    from trainyard.rehearse.rehearsal import Options, elastic, rehearse
    from trainyard.rehearse.sandbox import sandbox
    from trainyard.rehearse.scale import Scale
    from trainyard.rehearse.state import own_mounts, state_folder
    from trainyard.rehearse.steps import pattern_of
    from trainyard.rehearse.substitutes import Substitutes
    from trainyard.rehearse.verdict import verdict
    from trainyard.report.terminal import wants_color
    from trainyard.repository.discover import repository_root

    began, cwd = time.monotonic(), Path.cwd()
    events = tuple(event(text) for text in options.chaos)
    programs = given_programs(options.program, cwd)
    box = sandbox()
    cut = any(each.kind == "cut" for each in events)
    root = repository_root(cwd, [options.job])
    voices = Voices(
        sys.stderr,
        wants_color(options.color, sys.stderr),
        quiet=options.quiet,
        folder=Path(options.logs) if options.logs else None,
    )
    wishes = Options(
        patience=options.patience,
        latency=(options.latency or 0.0) / 1000,
        timeout=options.timeout,
        again=not options.once,
        programs=programs,
        chaos=events,
        may_mount=own_mounts(),
        strict=False if options.loopback else None,
        form=None if options.step_pattern is None else pattern_of(options.step_pattern),
        ready=lambda plans: missing_program(plans, programs),
    )
    try:
        with state_folder() as state:
            loaded = load(root, options.job, cwd, Scale(options.nodes, options.gpus_per_node), state / "scaled")
            shrinks = elastic(loaded.workload)
            steps = max([options.steps, *(each.steps(elastic=shrinks) for each in events)])
            substitutes = Substitutes(
                steps,
                2,
                collective_seconds=COLLECTIVE_SECONDS if cut else None,
                environment=given_variables(options.env),
                arguments=options.arg,
            )
            seen = rehearse(loaded, wishes, substitutes, box, state, voices.line)
    finally:
        voices.close()
    return _report(options, seen, verdict(seen), time.monotonic() - began)


def _report(options: argparse.Namespace, seen: Any, findings: Any, seconds: float) -> int:
    from trainyard.rehearse import summary
    from trainyard.rehearse.machine_lacks import not_judged
    from trainyard.report import Report, write
    from trainyard.report.document import document
    from trainyard.report.terminal import columns, wants_color

    sources = seen.loaded.sources

    def line_of(file: str, line: int) -> str | None:
        lines = sources.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else None

    report = Report(
        tuple(findings),
        (seen.loaded.name,),
        seconds=seconds,
        line_of=line_of,
        note="" if findings else summary.note(seen),
    )
    why, helped = not_judged(seen)
    if options.format == "json":
        commandline.say(json.dumps({"rehearsal": summary.document(seen), **document(report)}, indent=2))
    color, width = wants_color(options.color, sys.stdout), columns(sys.stdout)
    with commandline.output():
        if options.format == "text":
            print(summary.text(seen) + "\n")
        if options.format != "json" and not why:
            write(report, options.format, sys.stdout, color=color, width=width)
    if why:
        raise InputError(f"cannot be judged here: {why}", seen.loaded.name, help=helped)
    return report.exit_code
