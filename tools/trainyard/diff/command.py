"""diff-jobs: what a pull request really changes."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from trainyard import commandline
from trainyard.errors import EXIT_CLEAN, UsageError

_EXAMPLES = """\
examples:
  tools/diff-jobs main                                     since this branch left main, with what is not committed yet
  tools/diff-jobs origin/main --format markdown=comment.md --format html=diff.html
  tools/diff-jobs HEAD~3 --color always | less -R

A job whose own folder is unchanged is told under "shared": edits of base/, overlays/ and clusters/ concern new jobs
only, since the objects of a run are created once (docs/lifecycle.md). The base is unpacked into a temporary folder;
the working tree and the index are left as they are. A side that does not render is told with its reason.

exit codes:
  0    told, whether anything differs or not
  2    bad usage, or a base that git does not know
  3    a fault of the tools or of their set-up
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run diff-jobs. Returns its exit code; prints one line, never a traceback, for what users can mend."""
    return commandline.run("diff-jobs", lambda: _diff(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="diff-jobs",
        description="Says what the working tree changes in jobs and platforms since it left BASE.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("base", metavar="BASE", help="a git revision; its merge base with HEAD is compared with")
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMAT[=FILE]",
        help="text, markdown or html; to a file, or standard output; may be given several times",
    )
    parser.add_argument(
        "--color", choices=["auto", "always", "never"], default="auto", help="colour in text (default: auto)"
    )
    parser.add_argument("--no-cache", action="store_true", help="judge everything anew, and keep nothing")
    return parser


def _diff(options: argparse.Namespace) -> int:
    from trainyard.diff.compare import compare
    from trainyard.diff.html import html
    from trainyard.diff.markdown import markdown
    from trainyard.diff.text import text
    from trainyard.report.output import write_text
    from trainyard.report.terminal import wants_color
    from trainyard.repository.discover import repository_root

    if ".." in options.base:
        raise UsageError(f"{options.base}: name one revision; the other side is the working tree")
    forms: dict[str, Callable[..., str]] = {"text": text, "markdown": markdown, "html": html}
    outputs = [form.partition("=")[::2] for form in options.format or ["text"]]
    for form, _ in outputs:
        if form not in forms:
            raise UsageError(f"--format {form}: there are {', '.join(forms)}")
    if sum(not file for _, file in outputs) > 1:
        raise UsageError("--format: two formats cannot share standard output; write one to a file, as in html=FILE")
    found = compare(repository_root(Path.cwd(), []), options.base, use_cache=not options.no_cache)
    for form, file in sorted(outputs, key=lambda output: not output[1]):
        if file:
            write_text(Path(file), forms[form](found))
        else:
            color = {"color": wants_color(options.color, sys.stdout)} if form == "text" else {}
            commandline.say(forms[form](found, **color))
    return EXIT_CLEAN
