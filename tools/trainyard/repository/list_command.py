"""The command line of list-jobs."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from trainyard import commandline
from trainyard.commandline import say
from trainyard.errors import EXIT_FINDINGS, UsageError
from trainyard.home import HOME, IS_INSTALLED, as_called

_EXAMPLES = """\
examples:
  tools/list-jobs                      shows every cluster's jobs, and writes its list
  tools/list-jobs gpu-east             shows those of one cluster
  tools/list-jobs --check              writes nothing, and ends with 1 where a list differs

exit codes: 0 the lists are right, 1 with --check they are not, 2 a job that names no cluster
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of list-jobs. Returns the exit code."""
    return commandline.run("list-jobs", lambda: _list(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="list-jobs",
        description="Says which jobs each cluster has, and writes the list of them that its Flux reads.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("clusters", nargs="*", metavar="CLUSTER", help="show these only; default all")
    parser.add_argument("--check", action="store_true", help="write nothing, and end with 1 where a list differs")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="how the jobs are shown")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    return parser


def _list(options: argparse.Namespace) -> int:
    from trainyard.report.output import write_text
    from trainyard.repository.discover import repository_root
    from trainyard.repository.listed import all_jobs, clusters, clusters_with_flux, is_stale, list_file, listing
    from trainyard.yaml.sources import Sources

    root = (options.root or (repository_root(Path.cwd(), []) if IS_INSTALLED else HOME)).resolve()
    jobs = all_jobs(root, Sources(root))
    asked = _asked(clusters(root), options.clusters)
    stale = [name for name in clusters_with_flux(root) if is_stale(root, name, jobs)]
    if not options.check:
        for name in stale:
            write_text(root / list_file(name), listing(job for job in jobs if job.cluster == name))
    for name in stale:
        said = as_called("differs from jobs/: run tools/list-jobs") if options.check else "written"
        print(f"{list_file(name)}: {said}", file=sys.stderr)
    say(_shown({name: [job.folder for job in jobs if job.cluster == name] for name in asked}, options.format))
    return EXIT_FINDINGS if stale and options.check else 0


def _asked(known: Sequence[str], names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise UsageError(f"there is no cluster {name!a}: clusters/ holds {', '.join(known) or 'none'}")
    return list(dict.fromkeys(names or known))


def _shown(jobs: dict[str, list[str]], form: str) -> str:
    if form == "json":
        return json.dumps(jobs, indent=2)
    return "\n".join("\n  ".join([cluster, *folders]) for cluster, folders in jobs.items())
