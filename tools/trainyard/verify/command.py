"""verify-jobs: asks a real API server about jobs, and reports like lint-jobs."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import commandline
from trainyard.errors import Fault, UsageError
from trainyard.findings.finding import Severity
from trainyard.home import HOME

if TYPE_CHECKING:
    from trainyard.controlplane.client import User
    from trainyard.lint.outcome import Outcome
    from trainyard.report import Report
    from trainyard.repository.discover import Discovery

_EXAMPLES = """\
examples:
  tools/verify-jobs                                           every job under jobs/
  tools/verify-jobs jobs/research/llama-8b-sft                one job folder
  tools/verify-jobs some/overlay manifests.yaml               a folder with a kustomization, and a manifest file
  tools/verify-jobs --changed main                            the jobs that this branch touches
  tools/verify-jobs --webhooks jobs/research/llama-8b-math    with the admission webhooks of the job's operators
  tools/verify-jobs --context gpu-east jobs/research          a cluster of yours, by its name in the kubeconfig

Without --context an API server of its own is started for each cluster that a job lands on, and ended afterwards.
With it, that cluster is asked in dry run, as --as, and nothing on it changes.

exit codes:
  0    nothing at or above --fail-on
  1    findings at or above --fail-on
  2    bad usage, or input that cannot be judged
  3    a fault of the tools, of their set-up or of the server
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run verify-jobs. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run("verify-jobs", lambda: _verify(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="verify-jobs",
        description="Asks a real API server whether it would take every rendered job, and its pods.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="job folder, kustomization, manifest or `-`; default jobs/"
    )
    parser.add_argument("--context", metavar="NAME", help="ask this cluster of the kubeconfig ($KUBECONFIG)")
    parser.add_argument(
        "--as",
        dest="as_user",
        metavar="USER",
        help="with --context, whom to ask as (default: the ServiceAccount gitops of each team); empty for yourself",
    )
    parser.add_argument(
        "--webhooks",
        action="store_true",
        help="run JobSet, Kubeflow's operators and Kueue beside the own server, so that their webhooks judge the jobs"
        " too; built the first time, for about 5 minutes",
    )
    forms = "text, json, sarif, junit, github or codequality"
    parser.add_argument("--format", default="text", metavar="FORMAT", help=forms)
    parser.add_argument(
        "--changed", metavar="BASE", help="only what differs from this git revision, or in a range A..B"
    )
    parser.add_argument("--fail-on", choices=["error", "warning"], default="error", help="least severity that fails")
    parser.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="colour in text")
    return parser


def _verify(options: argparse.Namespace) -> int:
    from trainyard.limits import FILE_BYTES
    from trainyard.report import FORMATS, Report
    from trainyard.repository.discover import NO_JOB, STDIN, discover, repository_root
    from trainyard.verify.dry_run import verify
    from trainyard.yaml.sources import Sources, decoded

    if options.webhooks and options.context is not None:
        raise UsageError("--webhooks is for the own server: the cluster of --context has its webhooks")
    if options.format not in FORMATS:
        raise UsageError(f"--format {options.format}: there are {', '.join(FORMATS)}")
    started = time.monotonic()
    cwd = Path.cwd()
    root = repository_root(cwd, options.paths)
    found = discover(options.paths, root, cwd)
    if not found.targets and not found.errors:
        return _told(Report(findings=(), units=(), seconds=time.monotonic() - started, note=NO_JOB), options)
    if options.changed is not None:
        found, since = _touched(root, found, options.changed)
        if not found.targets and not found.errors:
            note = f"no job reads what changed since {since}"
            return _told(Report(findings=(), units=(), seconds=time.monotonic() - started, note=note), options)
    sources = Sources(root)
    if STDIN in options.paths:
        sources.add(STDIN, decoded(sys.stdin.buffer.read(FILE_BYTES + 1), STDIN))
    client, user = None, None
    if options.context is not None:
        from trainyard.controlplane.kubeconfig import client_of

        client, user = client_of(options.context), _user(options.as_user or "")
    else:
        build()
        if options.webhooks:
            build("controllers")
    outcome = verify(
        root,
        found,
        sources,
        client=client,
        as_user=user,
        as_team=options.as_user is None,
        webhooks=options.webhooks,
        progress=commandline.progress(),
    )
    report = Report(
        findings=outcome.findings,
        units=outcome.units,
        suppressed=outcome.suppressed,
        seconds=time.monotonic() - started,
        fail_on=Severity[options.fail_on.upper()],
        line_of=outcome.line_of,
        noun="job" if all(unit.startswith("jobs/") for unit in outcome.units) else "target",
    )
    return _told(report, options)


def _touched(root: Path, found: "Discovery", changed: str) -> tuple["Discovery", str]:
    """What reads a file that differs, and since when. UsageError where git does not know `changed`."""
    from trainyard.cache import Digests
    from trainyard.lint.judge import Judge
    from trainyard.repository.changed import changed_files, resolve
    from trainyard.yaml.sources import Sources

    range = resolve(root, changed)
    differing = changed_files(root, range)
    judge = Judge(root, Sources(root), Digests(root), None, None, None)
    if judge.is_linter(differing):
        return found, range.text
    return replace(found, targets=tuple(each for each in found.targets if judge.touched(each, differing))), range.text


def _told(report: "Report", options: argparse.Namespace) -> int:
    """Print a report in the form that is asked for, and return its exit code."""
    from trainyard.report import write
    from trainyard.report.terminal import columns, wants_color
    from trainyard.rules.index import all_rules

    color, width = wants_color(options.color, sys.stdout), columns(sys.stdout)
    rules = all_rules() if options.format == "sarif" else None
    with commandline.output():
        write(report, options.format, sys.stdout, color=color, width=width, rules=rules)
    return report.exit_code


def with_server(root: Path, outcome: "Outcome") -> "Outcome":
    """What lint-jobs found, and what a real API server says of the same targets. Standard input is not asked about."""
    from trainyard.findings.merged import order
    from trainyard.repository.discover import STDIN, discover
    from trainyard.rules.server import REJECTS, WARNS
    from trainyard.verify.dry_run import verify
    from trainyard.yaml.sources import Sources

    names = [unit for unit in outcome.units if unit != STDIN]
    if not names:
        return outcome
    build()
    asked = verify(root, discover(names, root, root), Sources(root), progress=commandline.progress())
    said = [finding for finding in asked.findings if finding.rule in (REJECTS.id, WARNS.id)]
    findings = tuple(sorted([*outcome.findings, *said], key=order))
    return replace(outcome, findings=findings, suppressed=outcome.suppressed + asked.suppressed)


def build(part: str = "controlplane") -> None:
    """Build the control plane, or its controllers, where that was not done yet; it says how long that takes."""
    bootstrap = HOME / "tools" / "bootstrap.py"
    done = subprocess.run([sys.executable, "-I", bootstrap, part], stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Fault(f"{part} was not built")


def _user(name: str) -> "User | None":
    from trainyard.controlplane.client import User

    parts = name.split(":")
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        return User.service_account(parts[2], parts[3])
    return User(name, ("system:authenticated",)) if name else None
