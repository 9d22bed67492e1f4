"""Files of the repository that a program writes: written, or with --check said to differ."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trainyard.errors import EXIT_BAD_INPUT, EXIT_CLEAN, EXIT_FAULT, EXIT_FINDINGS, Fault, InputError
from trainyard.home import HOME


def update(wanted: Mapping[Path, str], source: str, there: Iterable[Path] = ()) -> int:
    """Write what differs, or with --check as the only argument say what does. Returns the exit code.

    `source` is what the files are made from; of `there`, what is not wanted is stale too, and removed.
    """
    before = {file: file.read_text() for file in {*wanted, *there} if file.is_file()}
    stale = sorted(file for file in {*wanted, *before} if wanted.get(file) != before.get(file))
    if sys.argv[1:] == ["--check"]:
        for file in stale:
            print(f"{file.relative_to(HOME)} differs from {source}: run tools/update-docs", file=sys.stderr)
        return EXIT_FINDINGS if stale else EXIT_CLEAN
    for file in stale:
        if file in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted[file])
        else:
            file.unlink()
    print(f"{len(wanted)} {'file' if len(wanted) == 1 else 'files'} from {source}: {len(stale)} changed")
    return EXIT_CLEAN


def told(main: Callable[[], int]) -> int:
    """The exit code of a program that writes such files; what they cannot be written from is told in one line."""
    try:
        return main()
    except (Fault, InputError) as error:
        print(f"update-docs: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT if isinstance(error, InputError) else EXIT_FAULT
