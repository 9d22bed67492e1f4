"""The command line of lint-jobs."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from trainyard.errors import EXIT_BAD_INPUT, EXIT_CLEAN, EXIT_FAULT, Fault, UsageError
from trainyard.finding import Severity

if TYPE_CHECKING:
    from trainyard.report import Report
    from trainyard.rules.registry import Rule

_EXAMPLES = """\
examples:
  tools/lint-jobs                                     every job under jobs/
  tools/lint-jobs jobs/research/llama-8b-sft          one job folder
  tools/lint-jobs some/overlay manifests.yaml         a folder with a kustomization, and a manifest file
  kubectl get job train -o yaml | tools/lint-jobs -   standard input
  tools/lint-jobs --changed main                      the jobs that this branch touches
  tools/lint-jobs --format text --format sarif=lint-jobs.sarif
  tools/lint-jobs explain RDV003                      the page of a rule
  tools/lint-jobs rules                               all rules

exit codes:
  0  nothing at or above --fail-on
  1  findings at or above --fail-on
  2  bad usage, or input that cannot be judged
  3  a fault of the linter or of its set-up

A finding is silenced by a comment on its source line, or on the line above, and must say why:
  # lint-jobs: ignore[RDV003] the policy is opened by the platform team at run time
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run lint-jobs. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["explain"]:
            return _explain(arguments[1:])
        if arguments[:1] == ["rules"]:
            return _rules(arguments[1:])
        return _lint(_parser().parse_args(arguments))
    except UsageError as error:
        print(f"lint-jobs: {_one_line(error)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except Fault as error:
        print(f"lint-jobs: fault: {_one_line(error)}", file=sys.stderr)
        return EXIT_FAULT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAULT
    except KeyboardInterrupt:
        print("lint-jobs: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("LINT_JOBS_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {_one_line(error)}"
        print(f"lint-jobs: fault: {what} (LINT_JOBS_TRACEBACK=1 shows where)", file=sys.stderr)
        return EXIT_FAULT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lint-jobs",
        description="Proves training jobs before they are synced: renders them, and says what would not train, and where.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="job folder, kustomization, manifest or `-`; default jobs/")
    parser.add_argument("--changed", metavar="BASE", help="only what differs from this git revision, or in a range A..B")
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMAT[=FILE]",
        help="text, json, sarif, junit or github; to a file, or standard output; may be given several times",
    )
    parser.add_argument(
        "--fail-on",
        choices=["error", "warning", "info"],
        default="error",
        help="least severity that makes the exit code 1 (default: error)",
    )
    parser.add_argument(
        "--level",
        choices=["error", "warning", "info"],
        default="warning" if os.environ.get("CI") else "info",
        help="least severity that is shown (default: info, and warning where CI is set)",
    )
    parser.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="colour in text (default: auto)")
    parser.add_argument("--no-cache", action="store_true", help="judge everything anew, and keep nothing")
    parser.add_argument("--workers", type=int, metavar="N", help="renderer processes (default: one a core)")
    return parser


def _lint(options: argparse.Namespace) -> int:
    from trainyard.discover import Discovery, discover, repository_root
    from trainyard.pipeline import lint
    from trainyard.report import Report
    from trainyard.rules import all_rules

    outputs = _outputs(options.format or ["text"])
    started = time.monotonic()
    cwd = Path.cwd()
    root = repository_root(cwd)
    found: Discovery = discover(options.paths, root, cwd)
    outcome = lint(
        root,
        found,
        changed=options.changed,
        use_cache=not options.no_cache,
        workers=options.workers,
        progress=_progress if sys.stderr.isatty() else None,
    )
    level, fail_on = Severity[options.level.upper()], Severity[options.fail_on.upper()]
    shown = min(level, fail_on)
    report = Report(
        findings=tuple(finding for finding in outcome.findings if finding.severity >= shown),
        units=outcome.units,
        suppressed=outcome.suppressed,
        cached=outcome.cached,
        seconds=time.monotonic() - started,
        fail_on=fail_on,
        line_of=outcome.line_of,
        noun="job" if all(unit.startswith("jobs/") for unit in outcome.units) else "target",
    )
    _write(report, outputs, options.color, all_rules)
    return report.exit_code


def _outputs(formats: Sequence[str]) -> list[tuple[str, str]]:
    """(format, file) pairs, file empty for standard output."""
    from trainyard.report import FORMATS

    outputs = []
    for text in formats:
        name, _, file = text.partition("=")
        if name not in FORMATS:
            raise UsageError(f"--format {name}: there are {', '.join(FORMATS)}")
        outputs.append((name, file))
    if sum(not file for _, file in outputs) > 1:
        raise UsageError("--format: two formats cannot share standard output; write one to a file, as in sarif=FILE")
    return outputs


def _write(report: "Report", outputs: Sequence[tuple[str, str]], color: str, rules: "Callable[[], Mapping[str, Rule]]") -> None:
    from trainyard.report import write
    from trainyard.report.terminal import columns, wants_color

    for name, file in outputs:
        known = rules() if name == "sarif" else None
        if not file:
            write(report, name, sys.stdout, color=wants_color(color, sys.stdout), width=columns(sys.stdout), rules=known)
            sys.stdout.flush()
            continue
        _write_file(Path(file), lambda out, name=name, known=known: write(report, name, out, rules=known))


def _write_file(file: Path, fill: Callable[[TextIO], None]) -> None:
    """Write a file whole or not at all."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as out:
            temporary = Path(out.name)
            try:
                fill(out)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        temporary.chmod(0o644)
        temporary.replace(file)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {(error.strerror or 'error').lower()}") from None


def _progress(text: str) -> None:
    """A live line on a terminal; empty text takes it away."""
    sys.stderr.write(f"\r\x1b[2K{text}")
    sys.stderr.flush()


def _explain(arguments: Sequence[str]) -> int:
    from trainyard.pages import page
    from trainyard.rules import all_rules

    parser = argparse.ArgumentParser(prog="lint-jobs explain", description="Print the page of a rule.")
    parser.add_argument("rule", help="id or name, such as RDV003 or unready-peers-hidden")
    wanted: str = parser.parse_args(arguments).rule
    rules = all_rules()
    for rule in rules.values():
        if wanted.upper() == rule.id or wanted.lower() == rule.name:
            print(page(rule))
            return EXIT_CLEAN
    import difflib

    near = difflib.get_close_matches(wanted.upper(), rules, 1) or difflib.get_close_matches(
        wanted.lower(), [rule.name for rule in rules.values()], 1
    )
    raise UsageError(f"no rule is called {wanted!r}" + (f"; did you mean {near[0]}?" if near else ""))


def _rules(arguments: Sequence[str]) -> int:
    from trainyard.pages import first_line
    from trainyard.rules import all_rules

    argparse.ArgumentParser(prog="lint-jobs rules", description="List every rule.").parse_args(arguments)
    for rule in all_rules().values():
        print(f"{rule.id}  {rule.severity.label:<7}  {rule.name:<28}  {first_line(rule)}")
    return EXIT_CLEAN


def _one_line(error: BaseException) -> str:
    from trainyard.report.escape import inert, visible

    return inert(visible(str(error)))
