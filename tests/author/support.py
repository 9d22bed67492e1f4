"""new-job in this process, on a copy of what jobs are made of."""

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests import recorded
from tests.said import Said, said
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


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def new_job(root: Path, *arguments: str, answers: Iterator[str] | None = None) -> Said:
    """Run new-job. `answers` are typed, one a question; without them standard input is not a terminal."""

    def read(question: str) -> str:
        assert answers is not None
        said = next(answers, None)
        if said is None:
            raise EOFError
        print(f"{question}{said}")
        return said

    typed = _Terminal() if answers is not None else None
    return said(partial(main, read=read), "--root", root, *arguments, stdin=typed)


def hold(name: str, text: str) -> None:
    """An output is as recorded in snapshots/."""
    recorded.hold(HERE / "snapshots" / name, text)


def files_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones included, but git's."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
