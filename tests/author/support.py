"""new-job in this process, on a copy of what jobs are made of."""

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.author.command import main

HERE = Path(__file__).parent
HOME = HERE.parents[1]
COMPLETE = (
    "--name=my-run",
    "--cluster=gpu-east",
    "--model=llama-3.1-8b",
    "--nodes=4",
    "--data=/data/web",
)
"""Flags that leave nothing to ask."""


@dataclass(frozen=True, slots=True)
class Said:
    """What new-job printed."""

    code: int
    out: str
    errors: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def new_job(root: Path, *arguments: str, answers: Iterator[str] | None = None) -> Said:
    """Run new-job. `answers` are typed, one a question; without them standard input is no terminal."""
    out, errors = io.StringIO(), io.StringIO()

    def read(question: str) -> str:
        assert answers is not None
        said = next(answers, None)
        if said is None:
            raise EOFError
        print(f"{question}{said}")
        return said

    typed = _Terminal() if answers is not None else io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), _standard_input(typed):
        code = main(["--root", str(root), *arguments], read)
    return Said(code, out.getvalue(), errors.getvalue())


@contextlib.contextmanager
def _standard_input(stream: io.StringIO) -> Iterator[None]:
    import sys

    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before


def hold(name: str, text: str) -> None:
    """An output is as recorded; UPDATE_SNAPSHOTS=1 records it."""
    file = HERE / "snapshots" / name
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def files_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones included, but git's."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
