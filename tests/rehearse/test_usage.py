"""What a command line says is judged before anything is set up, which takes 8 GB the first time."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rehearse.rehearsing import HOME


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The tools of a checkout that was never set up, beside an empty home."""
    (tmp_path / "home").mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HOME / "tools", tmp_path / "clone" / "tools", ignore=ignored)
    return tmp_path / "clone"


def run(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """rehearse-job of a clone."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(clone.parent / "home")}
    return subprocess.run(
        [clone / "tools" / "rehearse-job", *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.claim("help-sets-nothing-up")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["jobs/a", "-h", "--nodes", "2"], 0),
        (["jobs/a", "--nodez", "2"], 2),
        (["jobs/a", "--nodes", "many"], 2),
        ([], 2),
    ],
)
def test_help_and_a_slip_of_the_pen_set_nothing_up(clone: Path, words: list[str], code: int) -> None:
    before = sorted(clone.parent.rglob("*"))

    done = run(clone, *words)

    assert done.returncode == code, done.stderr
    assert sorted(clone.parent.rglob("*")) == before
    assert ("examples:" in done.stdout, len(done.stderr.splitlines())) == ((True, 0) if code == 0 else (False, 1))
