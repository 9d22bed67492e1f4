"""The command line of tools/update-schemas."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from trainyard import commandline
from trainyard.errors import EXIT_CLEAN, EXIT_FINDINGS, Fault
from trainyard.home import HOME

_EXAMPLES = """\
examples:
  tools/update-schemas                 after an edit of tools/go/schemas/go.mod or schemas/sources.yaml
  tools/update-schemas --check         writes nothing; lists what would change

exit codes: 0 done or no difference, 1 --check found differences, 2 bad usage, 3 a module is missing or not understood
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the schemas, or with `--check` say what is different. Returns the exit code."""
    return commandline.run("update-schemas", lambda: _update(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(
        prog="update-schemas",
        description="Generates schemas/ from the modules that tools/go/schemas/go.mod pins and schemas/sources.yaml "
        "lists. The same modules give the same bytes.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--check", action="store_true", help="write nothing; list what would change")
    parser.add_argument(
        "--definitions", type=Path, metavar="FOLDER", help="write the definitions themselves there instead"
    )
    return parser


def _update(options: argparse.Namespace) -> int:
    from trainyard.schema_generation.changes import changed_fields
    from trainyard.schema_generation.generated import drift, generate, write

    if options.definitions is not None:
        from trainyard.schema_generation.definitions import write_definitions

        commandline.say(f"{write_definitions(HOME, _go(), options.definitions)} definitions of custom resources")
        return EXIT_CLEAN
    files = generate(HOME, _go())
    changes = drift(HOME / "schemas", files)
    fields = changed_fields(HOME / "schemas", files) if changes else {}
    for line in changes:
        commandline.say("\n  ".join([line, *fields.get(line.partition(" ")[2], [])]))
    if options.check:
        return EXIT_FINDINGS if changes else EXIT_CLEAN
    write(HOME / "schemas", files)
    size = sum(len(text.encode()) for text in files.values())
    commandline.say(f"{len(files)} schemas, {size / 1e6:.1f} MB, {len(changes)} changed")
    return EXIT_CLEAN


def _go() -> str:
    """The Go that the set-up installed, which it does where PATH has none that is new enough, else the one on PATH."""
    installed = HOME / ".tools" / "go" / "go" / "bin" / "go"
    found = str(installed) if installed.is_file() else shutil.which("go")
    if found is None:
        raise Fault("go is not on PATH and not in .tools: run tools/lint-jobs once, it sets Go up")
    return found


if __name__ == "__main__":
    sys.exit(main())
