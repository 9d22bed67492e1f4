"""The command line of `trainyard upgrade`."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import __version__, commandline
from trainyard.errors import EXIT_CLEAN, EXIT_FINDINGS, UsageError
from trainyard.home import HOME

if TYPE_CHECKING:
    from trainyard.upgrade.changes import Changes
    from trainyard.upgrade.record import Record

PROGRAM = "trainyard upgrade"
_MOST = 20
"""Lines of what is refused."""
_EXAMPLES = """\
examples:
  trainyard upgrade                  in a Git repository: the first time lays the folders down, later upgrades them
  trainyard upgrade --examples       also brings the example clusters and jobs, to copy or to rename
  trainyard upgrade --diff           shows the files and, as `trainyard diff`, the jobs that would change
  trainyard upgrade --keep base/run --take base/kueue      settles what was changed here and in this version

trainyard.lock holds the version and the SHA-256 of each file as it was shipped. A file that was not changed here
follows the installed version. One that was stays as it is, unless this version changed it too: then nothing is
written until --take or --keep settles it. Files of your own are left. A run that was ended goes on when it is run
again. Examples are yours once they are there. A job that runs keeps its objects: bases are for new jobs.

exit codes:
  0    upgraded, or up to date; with --diff: shown
  1    files were changed here and in this version: they are named, and nothing is written
  2    bad usage, no Git repository, a fork of Trainyard, or a trainyard.lock that cannot be read
  3    a fault of the tools or of their set-up
  130  interrupted; run it again
"""


def main(arguments: Sequence[str] | None = None, home: Path = HOME, version: str = __version__) -> int:
    """Run it, with what `home` ships as `version`. Returns the exit code; prints one line for what users can mend."""
    work = lambda: _upgrade(parser().parse_args(arguments), home, version)  # noqa: E731
    return commandline.run(PROGRAM, work, "interrupted; run it again, and it goes on")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = commandline.Parser(
        prog=PROGRAM,
        description="Brings base/ and overlays/ of the repository, and the schemas for its editors, to this version.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--diff", "--dry-run", action="store_true", help="show files and jobs that would change; write nothing"
    )
    parser.add_argument(
        "--take", action="append", default=[], metavar="PATH", help="a file or folder: as shipped, though changed here"
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="PATH", help="a file or folder: as it is here, though upgraded"
    )
    parser.add_argument("--examples", action="store_true", help="bring the example clusters and jobs too")
    parser.add_argument("--downgrade", action="store_true", help="go back to this version, which is older")
    return parser


def _upgrade(options: argparse.Namespace, home: Path, version: str) -> int:
    from trainyard.repository.discover import checkout
    from trainyard.upgrade import record, shipped
    from trainyard.upgrade.changes import changes
    from trainyard.upgrade.write import apply

    here = Path(os.path.realpath(Path.cwd()))
    root = checkout(here)
    if root is None or not os.path.lexists(root / ".git"):
        raise UsageError("there is no Git repository here: stand in yours, or make one by git init")
    if os.path.isdir(root / "tools" / "trainyard"):
        raise UsageError(f"{root} is a fork of Trainyard: merge upstream, as its docs/upgrade.md says")
    before = record.read(root)
    older = before is not None and record.release(version) < record.release(before.version)
    if before and older and not (options.downgrade or options.diff):
        said = f"{record.NAME} has {before.version}, and this is trainyard {version}, which is older"
        raise UsageError(f"{said}: install {before.version}, or go back by --downgrade")
    vendored = shipped.shipped(home)
    examples = shipped.examples(home) if options.examples else {}
    if options.examples and not examples:
        raise UsageError("--examples: this package carries none")
    known = {*vendored, *examples, *(before.files if before else ())}
    take, keep = (_chosen(flag, getattr(options, flag), root, known) for flag in ("take", "keep"))
    if both := sorted(name for name in known if take(name) and keep(name)):
        raise UsageError(f"--take and --keep both name {both[0]}")
    found = changes(root, before, version, vendored, examples, take, keep)
    is_later = found.any and (before is not None or bool(found.changed))
    if options.diff:
        _say_files(found, before, version, older)
        if is_later and not found.refused:
            _say_jobs(root, found)
        return _refused(found) if found.refused else EXIT_CLEAN
    if found.refused:
        return _refused(found)
    if found.written or found.removed or before != found.record:
        apply(root, found)
    _say_files(found, before, version, older)
    _say_ignored(root, found)
    if is_later:
        _say_jobs(root, None)
        commandline.say("\nnext: trainyard lint; git add, commit, and a pull request, as with any change of a base")
    elif found.written:
        _say_first(root)
    return EXIT_CLEAN


def _chosen(flag: str, paths: Sequence[str], root: Path, known: set[str]) -> Callable[[str], bool]:
    """Whether a name is, or lies below, one of `paths`. UsageError where a path names nothing that is vendored."""
    tops = []
    for path in paths:
        if not path:
            raise UsageError(f"--{flag}: a PATH is empty: an unset variable, perhaps")
        top = os.path.relpath(os.path.normpath(Path(os.path.realpath(Path.cwd())) / path), root)
        if not any(_is_below(name, top) for name in known):
            raise UsageError(f"--{flag} {path}: no vendored file is called so")
        tops.append(top)
    return lambda name: any(_is_below(name, top) for top in tops)


def _is_below(name: str, top: str) -> bool:
    return top in (".", name) or name.startswith(f"{top}/")


def _refused(found: "Changes") -> int:
    from trainyard.report.escape import visible

    lines = [f"{visible(name)} {why}" for name, why in found.refused.items()]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    said = "\n".join(f"  {line}" for line in (*lines[:_MOST], *more))
    print(f"{PROGRAM}: nothing is written; somebody has to settle\n{said}", file=sys.stderr)
    print("  help: --take PATH has a file or folder as it is shipped, --keep PATH as it is here", file=sys.stderr)
    return EXIT_FINDINGS


def _say_files(found: "Changes", before: "Record | None", version: str, older: bool) -> None:
    from trainyard.report.escape import visible

    was = ""
    if before and before.version != version:
        was = f" (was {before.version}{', which is newer' if older else ''})"
    groups = (("new", found.new), ("changed", found.changed), ("removed", found.removed))
    counted = [f"{len(names)} {what}" for what, names in groups if names]
    lines = [f"{version}{was}: {', '.join(counted) or 'up to date'}"]
    whole = [name for name in found.new if before is None or name not in found.record.files]
    lines += [f"  new      {part}/: {count} file{'s' * (count != 1)}" for part, count in _by_part(whole).items()]
    listed = {name: what for what, names in groups for name in names}
    lines += [f"  {what:<8} {visible(name)}" for name, what in sorted(listed.items()) if name not in whole]
    lines += [f"  kept     {visible(name)}: {why}" for name, why in found.kept.items()]
    commandline.say("\n".join(lines))


def _say_ignored(root: Path, found: "Changes") -> None:
    """Names what a .gitignore would have a commit leave out: many have `*.env`, and bases do not render without."""
    from trainyard.report.escape import visible
    from trainyard.repository.git import names
    from trainyard.upgrade.record import NAME
    from trainyard.upgrade.shipped import PARTS

    ignored = names(root, "ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *PARTS, NAME)
    for name in sorted(ignored & {NAME, *found.record.files}):
        print(f"{PROGRAM}: Git ignores {visible(name)}: git add --force {visible(name)}", file=sys.stderr)


def _by_part(names: Sequence[str]) -> dict[str, int]:
    parts = [name.split("/")[0] for name in names]
    return {part: parts.count(part) for part in dict.fromkeys(parts)}


def _say_jobs(root: Path, planned: "Changes | None") -> None:
    """What diff-jobs says: of what is `planned`, or of the working tree beside what is committed."""
    from trainyard.diff.compare import compare
    from trainyard.diff.text import text
    from trainyard.report.terminal import wants_color
    from trainyard.repository.git import tried
    from trainyard.upgrade.preview import preview

    if planned is None and tried(root, "rev-parse", "--verify", "--quiet", "HEAD") is None:
        return
    difference = compare(root, "HEAD") if planned is None else preview(root, planned)
    commandline.say("\nwhat changes for new jobs, as `trainyard diff` tells it:")
    commandline.say(text(difference, color=wants_color("auto", sys.stdout)))


def _say_first(root: Path) -> None:
    clusters = os.path.isdir(root / "clusters")
    lines = [
        "next:",
        "    git add --all && git commit     # so that a later upgrade can say what it changes",
        *([] if clusters else ["    trainyard upgrade --examples    # clusters to copy or rename: there is none yet"]),
        "    trainyard list && trainyard lint",
        "    trainyard new                   # asks for a job, once clusters/ has a cluster with a team",
    ]
    commandline.say("\n" + "\n".join(lines))
