"""The command line of lint-jobs."""

import argparse
import io
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard import __version__
from trainyard.commandline import TRACEBACK, Parser, output, progress, say
from trainyard.errors import EXIT_BAD_INPUT, EXIT_CLEAN, EXIT_FAULT, EXIT_FINDINGS, EXIT_INTERRUPTED, Fault, UsageError
from trainyard.findings.finding import Severity
from trainyard.home import IS_INSTALLED, as_called

if TYPE_CHECKING:
    from trainyard.commandline import Progress
    from trainyard.findings.finding import Finding
    from trainyard.fixes.rounds import FixResult
    from trainyard.lint.outcome import Outcome
    from trainyard.report import Report
    from trainyard.repository.changed import Range
    from trainyard.repository.discover import Discovery

_EXAMPLES = """\
examples:
  tools/lint-jobs                                     every job under jobs/
  tools/lint-jobs jobs/research/llama-8b-sft          one job folder
  tools/lint-jobs some/overlay manifests.yaml         a folder with a kustomization, and a manifest file
  kubectl get job train -o yaml | tools/lint-jobs -   standard input
  tools/lint-jobs --changed main                      the jobs that this branch touches
  tools/lint-jobs --write-baseline                    in another layout: tell from now on what is new
  tools/lint-jobs --shard 2/4                         a quarter of the jobs, for one of four machines
  tools/lint-jobs --format text --format sarif=lint-jobs.sarif
  tools/lint-jobs --fix jobs/research/llama-8b-sft    writes the safe fixes, then says what is left
  tools/lint-jobs --fix=unsafe --diff                 shows all fixes, and writes nothing
  tools/lint-jobs explain RDV003                      the page of a rule
  tools/lint-jobs rules                               all rules
  tools/lint-jobs export-policy                       rules as ValidatingAdmissionPolicies, for clusters to hold

exit codes:
  0    nothing at or above --fail-on
  1    findings at or above --fail-on, after --fix those that are left; with --diff also any fix to be made
  2    bad usage, or input that cannot be judged
  3    a fault of the linter or of its set-up
  130  interrupted

A finding is silenced by a comment on its source line, or on the line above, and must say why:
  # lint-jobs: ignore[RDV003] the policy is opened by the platform team at run time
In a job folder that does not hold for rules on security: clusters/<name>/suppressions.yaml does (explain SUP005).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run lint-jobs. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        return _command(arguments)
    except UsageError as error:
        _complain(_one_line(error))
        return EXIT_BAD_INPUT
    except KeyboardInterrupt as stopped:
        _complain("interrupted")
        return stopped.args[0] if stopped.args else EXIT_INTERRUPTED
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        what = _one_line(error)
        if not isinstance(error, Fault):
            what = f"{type(error).__name__}: {what}"
        _complain(f"fault: {what} ({TRACEBACK}=1 shows where)")
        return EXIT_FAULT


def _command(arguments: Sequence[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=False, write_through=False)
    if arguments[:1] == ["explain"]:
        return _print(as_called(_explain(arguments[1:])))
    if arguments[:1] == ["rules"]:
        return _print(as_called(_rules(arguments[1:])))
    if arguments[:1] == ["export-policy"]:
        return _print(_export_policy(arguments[1:]))
    options = parser().parse_args(arguments)
    if options.lsp:
        return _serve(arguments)
    return _lint(options)


def _serve(arguments: Sequence[str]) -> int:
    if len(arguments) > 1:
        raise UsageError("--lsp stands alone: the editor says what is judged")
    from trainyard.editor.command import serve

    return serve()


def _print(text: str) -> int:
    say(text.rstrip("\n"))
    return EXIT_CLEAN


class _Parser(Parser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; `--fix` alone is `--fix=safe`, and takes no word from what follows it."""
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args(["--fix=safe" if each == "--fix" else each for each in words], namespace)


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = _Parser(
        prog="lint-jobs",
        description="Proves training jobs before they are synced: says what would not train, and where.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"lint-jobs {__version__}", help="show the version")
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="job folder, kustomization, manifest or `-`; default jobs/, or what trainyard.yaml or Git names",
    )
    parser.add_argument(
        "--changed", metavar="BASE", help="only what differs from this git revision, or in a range A..B"
    )
    parser.add_argument(
        "--pre-commit",
        action="store_true",
        help="as a hook of pre-commit: judge what reads the PATHs that it hands over, or what else is staged or "
        "lies between its --from-ref and --to-ref",
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMAT[=FILE]",
        help="text, json, sarif, junit, github or codequality (GitLab); to a file, or standard output; may be given"
        " several times",
    )
    parser.add_argument(
        "--fix",
        choices=["safe", "unsafe"],
        metavar="[=unsafe]",
        help="write fixes to the files that the findings name, comments kept; --fix=unsafe also makes those that "
        "change what a job means",
    )
    parser.add_argument("--diff", action="store_true", help="show what --fix would write, and write nothing")
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
    parser.add_argument(
        "--color", choices=["auto", "always", "never"], default="auto", help="colour in text (default: auto)"
    )
    parser.add_argument(
        "--shard", metavar="I/N", help="the I-th of N parts of the targets: N runs with I from 1 judge all of them"
    )
    parser.add_argument(
        "--write-baseline",
        action="store_true",
        help="write what is found to the baseline that trainyard.yaml names; from then on it is not told",
    )
    parser.add_argument("--no-cache", action="store_true", help="judge everything anew, and keep nothing")
    parser.add_argument("--workers", type=int, metavar="N", help="renderer processes (default: one a core)")
    parser.add_argument(
        "--lsp", action="store_true", help="serve an editor: a language server on standard input and output"
    )
    if IS_INSTALLED:
        parser.set_defaults(server=False)
    else:
        parser.add_argument(
            "--server", action="store_true", help="ask a real API server too, as tools/verify-jobs does"
        )
    return parser


def _lint(options: argparse.Namespace) -> int:
    from trainyard.limits import FILE_BYTES
    from trainyard.lint.pipeline import lint
    from trainyard.report import Report
    from trainyard.repository.asked import asked, readable, without
    from trainyard.repository.discover import STDIN, repository_root

    if options.pre_commit and options.changed is not None:
        raise UsageError("--pre-commit says itself what changed: leave --changed out")
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers {options.workers}: at least one renderer is needed")
    if options.diff and options.format:
        raise UsageError("--diff prints a diff, and no report: leave --format out")
    if (options.diff or options.fix) and (STDIN in options.paths or options.server):
        raise UsageError("--fix and --diff are for files: they take neither `-` nor --server")
    outputs = _outputs(options.format or ["text"])
    started = time.monotonic()
    try:
        cwd = Path.cwd()
    except OSError as error:
        raise UsageError(f"the current folder cannot be read: {_os_words(error)}") from None
    root = repository_root(cwd, options.paths)
    if options.pre_commit:
        from trainyard.repository.changed import changed_files, for_pre_commit
        from trainyard.repository.survey import survey

        range = for_pre_commit(root, options.paths, os.environ)
        changed: str | Range | None = range
        found = without(survey(root, changed_files(root, range)), readable(root))
    else:
        changed, found = options.changed, asked(root, cwd, options.paths)
    live = progress()
    judge = partial(
        lint,
        root,
        found,
        changed=changed,
        shard=_shard(options.shard),
        use_cache=not options.no_cache,
        workers=options.workers,
        progress=live,
        stdin=sys.stdin.buffer.read(FILE_BYTES + 1) if sys.stdin and STDIN in options.paths else b"",
    )
    outcome = judge()
    made = None
    if options.fix or options.diff:
        made = _fixes(root, found, outcome, options, live)
        if made.after and not options.diff:
            outcome = judge()
    if options.write_baseline:
        return _write_baseline(root, outcome)
    if options.server:
        from trainyard.verify.command import with_server

        outcome = with_server(root, outcome)
    level, fail_on = Severity[options.level.upper()], Severity[options.fail_on.upper()]
    shown = min(level, fail_on)
    report = Report(
        findings=tuple(_as_called(finding) for finding in outcome.findings if finding.severity >= shown),
        units=outcome.units,
        suppressed=outcome.suppressed,
        cached=outcome.cached,
        seconds=time.monotonic() - started,
        fail_on=fail_on,
        line_of=outcome.line_of,
        noun="job" if all(unit.startswith("jobs/") for unit in outcome.units) else "target",
        note=outcome.note,
        not_judged=outcome.not_judged,
        fixed=tuple(made.fixed) if made else (),
        unfixed=tuple(made.refused) if made else (),
    )
    if made and options.diff:
        return _diff(made, report)
    _write(report, outputs, options.color)
    return report.exit_code


def _as_called(finding: "Finding") -> "Finding":
    """The finding with the commands that it names as its reader can run them."""
    if not IS_INSTALLED:
        return finding
    return replace(finding, message=as_called(finding.message), help=as_called(finding.help))


def _write_baseline(root: Path, outcome: "Outcome") -> int:
    """Write what was found to the file that trainyard.yaml calls the baseline. UsageError where it names none."""
    from trainyard.lint.masked import SECRET
    from trainyard.lint.settings import baseline_text
    from trainyard.report.output import write_text
    from trainyard.report.summary import count
    from trainyard.repository.asked import readable
    from trainyard.repository.discover import SETTINGS

    own = readable(root)
    if own is None or not own.baseline:
        raise UsageError(f"--write-baseline: say `baseline: trainyard-baseline.json` in {root / SETTINGS}")
    if not (root / own.baseline).resolve().is_relative_to(root.resolve()):
        raise UsageError(f"--write-baseline: {own.baseline} lies outside the repository {root}")
    text = baseline_text(outcome.findings, outcome.suppressed, own.baseline)
    file = root / own.baseline
    with suppress(OSError):  # write_text says why not
        file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    if secrets := [each for each in outcome.findings if each.rule == SECRET]:
        verb = "stays" if len(secrets) == 1 else "stay"
        left = f"{count(len(secrets), 'finding')} of {SECRET} {verb} out of it"
        _complain(f"{left}: revoke the secret, or name the rule under ignore in {SETTINGS} and say why")
    return _print(f"{own.baseline}: {count(text.count(chr(10)) - 2, 'finding')}")


def _fixes(
    root: Path, found: "Discovery", outcome: "Outcome", options: argparse.Namespace, progress: "Progress | None"
) -> "FixResult":
    """Fix what can be fixed, in the files unless they are only to be shown. UsageError where one cannot be written."""
    from trainyard.fixes import command

    unsafe = options.fix == "unsafe"
    made = command.fixes(root, found, outcome, unsafe=unsafe, workers=options.workers, progress=progress)
    if not options.diff:
        failed = command.write(root, made)
        if failed:
            raise UsageError("; ".join(f"{file} is not fixed: {why}" for file, why in failed.items()))
    return made


def _diff(made: "FixResult", report: "Report") -> int:
    """Print what would be written. 1 where that is anything, else the code of the report."""
    from trainyard.fixes.command import diff
    from trainyard.report.summary import count, fixes_made

    if made.after:
        _print("\n".join(diff(made)))
    for line in fixes_made(report, "would fix"):
        _complain(line)
    _complain(f"{count(len(made.fixed), 'finding')} would be fixed")
    return EXIT_FINDINGS if made.after else report.exit_code


def _shard(text: str | None) -> tuple[int, int]:
    """(number from 1, count)."""
    if text is None:
        return 1, 1
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UsageError(f"--shard {text}: expected the number of a part and how many there are, as in 1/4")
    return int(number), int(count)


def _outputs(formats: Sequence[str]) -> list[tuple[str, str]]:
    """(format, file) pairs, file empty for standard output."""
    from trainyard.report import FORMATS

    outputs = []
    for text in formats:
        name, to_file, file = text.partition("=")
        if name not in FORMATS:
            raise UsageError(f"--format {name}: there are {', '.join(FORMATS)}")
        if to_file and not file:
            raise UsageError(f"--format {text}: the name of a file is missing")
        outputs.append((name, file))
    files = [file for _, file in outputs]
    if files.count("") > 1:
        raise UsageError("--format: two formats cannot share standard output; write one to a file, as in sarif=FILE")
    if doubled := next((file for file in files if files.count(file) > 1), ""):
        raise UsageError(f"--format: two formats cannot share the file {doubled}")
    return outputs


def _write(report: "Report", outputs: Sequence[tuple[str, str]], color: str) -> None:
    """Write every format, to files first: whatever reads standard output may stop early."""
    from trainyard.report import write
    from trainyard.report.output import write_file
    from trainyard.report.terminal import columns, wants_color

    for name, file in sorted(outputs, key=lambda output: not output[1]):
        rules = None
        if name == "sarif":
            from trainyard.rules.index import all_rules

            rules = all_rules()
        if file:
            write_file(Path(file), partial(write, report, name, rules=rules))
            continue
        with output():
            colored, width = wants_color(color, sys.stdout), columns(sys.stdout)
            write(report, name, sys.stdout, color=colored, width=width, rules=rules)


def _explain_parser() -> Parser:
    parser = Parser(prog="lint-jobs explain", description="Print the page of a rule.")
    parser.add_argument("rule", help="id or name, such as RDV003 or unready-peers-hidden")
    return parser


def _rules_parser() -> Parser:
    return Parser(prog="lint-jobs rules", description="List every rule.")


def _export_policy_parser() -> Parser:
    parser = Parser(
        prog="lint-jobs export-policy",
        description="Print the rules that one object alone can decide as ValidatingAdmissionPolicies (docs/policy.md).",
    )
    parser.add_argument("--output", metavar="FOLDER", help="write a file a rule there, and a kustomization of them")
    return parser


SUBCOMMANDS = {"explain": _explain_parser, "rules": _rules_parser, "export-policy": _export_policy_parser}
"""The command line of each word that stands first, as `parser` is that of all others."""


def _explain(arguments: Sequence[str]) -> str:
    from trainyard.docs.pages import page
    from trainyard.rules.aliases import present
    from trainyard.rules.index import all_rules

    wanted: str = SUBCOMMANDS["explain"]().parse_args(arguments).rule
    rules = all_rules()
    for rule in rules.values():
        if present(wanted.upper()) == rule.id or wanted.lower() == rule.name:
            return page(rule)
    import difflib

    near = difflib.get_close_matches(wanted.upper(), rules, 1) or difflib.get_close_matches(
        wanted.lower(), [rule.name for rule in rules.values()], 1
    )
    raise UsageError(f"no rule is called {wanted!r}" + (f"; did you mean {near[0]}?" if near else ""))


def _rules(arguments: Sequence[str]) -> str:
    from trainyard.docs.pages import first_line
    from trainyard.rules.index import all_rules

    SUBCOMMANDS["rules"]().parse_args(arguments)
    rules = all_rules().values()
    wide = max(len(rule.name) for rule in rules)
    return "\n".join(f"{rule.id}  {rule.severity.label:<7}  {rule.name:<{wide}}  {first_line(rule)}" for rule in rules)


def _export_policy(arguments: Sequence[str]) -> str:
    from trainyard.policy.files import files, stream
    from trainyard.report.output import write_file

    folder: str | None = SUBCOMMANDS["export-policy"]().parse_args(arguments).output
    if folder is None:
        return stream()
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {_os_words(error)}") from None
    written = files()
    for name, text in written.items():
        write_file(Path(folder) / name, lambda out, text=text: out.write(text))  # type: ignore[misc]
    return f"{folder}: {len(written)} files"


def _complain(text: str) -> None:
    print(f"lint-jobs: {text}", file=sys.stderr)


def _one_line(error: BaseException) -> str:
    from trainyard.report.escape import inert, visible

    return inert(visible(str(error)))


def _os_words(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
