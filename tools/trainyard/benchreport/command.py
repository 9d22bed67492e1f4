"""bench-report: says whether benchmark runs are slower than a locked baseline, which node it is, and in which phase."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import commandline
from trainyard.errors import EXIT_CLEAN, UsageError

if TYPE_CHECKING:
    from trainyard.benchreport.runs import Run

_EXAMPLES = """\
examples:
  tools/bench-report lock gpu-east runs/*.json --out clusters/gpu-east/benchmark/baseline.json
  tools/bench-report compare --baseline baseline.json runs/*.json                 says what is slower
  tools/bench-report compare --baseline baseline.json runs/*.json --html report.html --markdown report.md
  tools/bench-report compare --baseline baseline.json runs/*.json --last 5        only the five newest
  tools/bench-report postmortem runs/bench-1.json                                 which rank, node and phase
  tools/bench-report power                                                        how sure it is, on measured noise

exit codes:
  0    nothing is slower, and there were runs enough to tell
  1    the cluster or a node is slower
  2    bad usage, or a file that is not a run or baseline
  3    a fault of the tools or of their set-up
  4    not comparable: a run's fingerprint is not the baseline's
  5    too few runs for the noise there is; it says how many are needed
  130  interrupted

What it measures and how it decides: docs/benchmarks.md
"""
_COUNT = commandline.count(10**6)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run bench-report. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run("bench-report", lambda: _run(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="bench-report",
        description="Says whether benchmark runs are slower than a locked baseline, which node it is, and why.",
        epilog=_EXAMPLES,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    compare = commands.add_parser("compare", help="compare runs with a baseline", allow_abbrev=False)
    compare.add_argument(
        "runs", nargs="+", metavar="RUN.json", help="runs; those of the baseline itself are passed over"
    )
    compare.add_argument("--baseline", required=True, metavar="FILE", help="what `bench-report lock` wrote")
    compare.add_argument("--last", type=_COUNT, metavar="N", help="judge only the N newest runs")
    compare.add_argument(
        "--measure", action="append", default=[], metavar="NAME", help="judge this measure; repeatable"
    )
    compare.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    compare.add_argument("--html", metavar="FILE", help="write the report as one page")
    compare.add_argument("--markdown", metavar="FILE", help="write the report for a pull request")
    lock = commands.add_parser("lock", help="lock runs as a baseline", allow_abbrev=False)
    lock.add_argument("name", metavar="NAME", help="name of the baseline, as of the cluster")
    lock.add_argument("runs", nargs="+", metavar="RUN.json", help="three runs or more, all of one fingerprint")
    lock.add_argument("--out", required=True, metavar="FILE", help="file to write")
    autopsy = commands.add_parser("postmortem", help="what held one run up", allow_abbrev=False)
    autopsy.add_argument("run", metavar="RUN.json", help="the run")
    autopsy.add_argument("--baseline", metavar="FILE", help="what is usual")
    autopsy.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    power = commands.add_parser("power", help="power and false alarms on measured noise", allow_abbrev=False)
    power.add_argument("--noise", metavar="FILE", help="what bench/noise.py wrote (default: what it wrote here)")
    power.add_argument(
        "--trials", type=_COUNT, default=1000, metavar="N", help="histories a row (default: %(default)s)"
    )
    power.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    return parser


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "lock":
            return _lock(options)
        case "power":
            return _power(options)
        case "postmortem":
            return _postmortem(options)
        case _:
            return _compare(options)


def _compare(options: argparse.Namespace) -> int:
    from trainyard.benchreport.document import document
    from trainyard.benchreport.markdown import markdown
    from trainyard.benchreport.page import page
    from trainyard.benchreport.report import report
    from trainyard.benchreport.runs import read_baseline, read_runs
    from trainyard.benchreport.text import text
    from trainyard.report.output import write_text

    baseline = read_baseline(Path(options.baseline))
    known = {run.name for run in baseline.runs}
    runs = [pair for pair in read_runs([Path(file) for file in options.runs]) if pair[0].name not in known]
    runs = runs[-options.last :] if options.last else runs
    if not runs:
        raise UsageError("every run given is one of the baseline's own")
    made = report(baseline, runs, _known(options.measure, [*baseline.runs, *(run for run, _ in runs)]))
    if options.html:
        write_text(Path(options.html), page(made))
    if options.markdown:
        write_text(Path(options.markdown), markdown(made))
    commandline.say(
        json.dumps(document(made), indent=2, ensure_ascii=False) if options.format == "json" else text(made)
    )
    return made.verdict.state.value


def _known(only: Sequence[str], runs: "Sequence[Run]") -> Sequence[str]:
    there = {name for run in runs for name in run.measures}
    there |= {name for run in runs for node in run.nodes.values() for name in node.measures}
    for name in only:
        if name not in there:
            raise UsageError(f"no run has a measure {name}; they have {', '.join(sorted(there))}")
    return only


def _lock(options: argparse.Namespace) -> int:
    from trainyard.benchreport.runs import differences, lock, read_runs
    from trainyard.benchreport.verdict import FEWEST_BASELINE
    from trainyard.report.output import write_text

    if not _NAME.fullmatch(options.name):
        raise UsageError(f"{options.name!r} is not a valid name: lower-case letters, digits, - and .")
    runs = read_runs([Path(file) for file in options.runs])
    if len(runs) < FEWEST_BASELINE:
        raise UsageError(f"{len(runs)} runs are too few for a baseline: {FEWEST_BASELINE} at least")
    for run, there in runs[1:]:
        for line in differences(runs[0][1], there):
            raise UsageError(f"{runs[0][0].name} and {run.name} cannot be one baseline: {line}")
    write_text(Path(options.out), lock(options.name, runs))
    commandline.say(f"{options.out}: {len(runs)} runs locked")
    return EXIT_CLEAN


def _postmortem(options: argparse.Namespace) -> int:
    from trainyard.benchreport.postmortem import postmortem
    from trainyard.benchreport.runs import read_baseline, read_runs
    from trainyard.benchreport.wording import cause
    from trainyard.report.escape import inert, visible

    ((run, _),) = read_runs([Path(options.run)])
    usual = read_baseline(Path(options.baseline)).runs[-1] if options.baseline else None
    causes = postmortem(run, usual)
    if options.format == "json":
        commandline.say(json.dumps([asdict(one) for one in causes], indent=2, ensure_ascii=False))
    else:
        commandline.say("\n".join(inert(visible(cause(one))) for one in causes) or "nothing stands out")
    return EXIT_CLEAN


def _power(options: argparse.Namespace) -> int:
    from trainyard.benchreport.power import NOISE, as_document, as_text, outcomes
    from trainyard.benchreport.simulate import load

    found = outcomes(
        load(Path(options.noise) if options.noise else NOISE),
        options.trials,
        lambda said: print(said, file=sys.stderr, flush=True),
    )
    commandline.say(json.dumps(as_document(found), indent=2) if options.format == "json" else as_text(found))
    return EXIT_CLEAN
