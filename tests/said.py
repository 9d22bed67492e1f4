"""Commands in this process, as their users run them."""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import tests.imported  # noqa: F401


@dataclass(frozen=True, slots=True)
class Said:
    """What a command answered: its exit code, standard output and standard error."""

    code: int
    out: str
    errors: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        assert self.out, self.errors
        return json.loads(self.out)


def said(
    main: Callable[[Sequence[str]], int], *arguments: str | Path, cwd: Path | None = None, stdin: TextIO | None = None
) -> Said:
    """Run the `main` of a command in a folder, with nothing to read unless it is given."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        _standard_input(stdin or io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        code = main([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), errors.getvalue())


@contextlib.contextmanager
def _standard_input(stream: TextIO) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before
