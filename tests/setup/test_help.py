"""--help of every program of tools/: it tells, and neither installs nor writes; so does a slip of the pen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.conftest import HOME

pytestmark = pytest.mark.commands

PROGRAMS = sorted(file.name for file in (HOME / "tools").iterdir() if file.is_file() and os.access(file, os.X_OK))
PASSES_ON = ("test",)
"""Programs that hand options which they do not know to another one, here pytest."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of this checkout, as it is now: without .tools, beside an empty HOME."""
    place = tmp_path_factory.mktemp("help")
    names = subprocess.run(
        ["git", "-C", HOME, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "tools", "tests/fuzz"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        if (HOME / name).is_file():
            (place / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, place / "clone" / name)
    (place / "home").mkdir()
    (place / "path").mkdir()
    # The Python of somebody who installed nothing: whatever package is in that of the tests must not be found.
    python = place / "path/python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return place


def state(place: Path) -> dict[str, int]:
    """Every file and folder, and when it was last written."""
    return {str(path.relative_to(place)): path.lstat().st_mtime_ns for path in place.rglob("*")}


def started(clone: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of the clone, in an empty environment; no file of the clone or of HOME may come to be or change."""
    before = state(clone)
    done = subprocess.run(
        [clone / "clone/tools" / program, *arguments],
        cwd=clone / "clone",
        env={"PATH": f"{clone / 'path'}:{os.environ['PATH']}", "HOME": str(clone / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert state(clone) == before
    return done


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_installs_nothing_and_writes_nothing(program: str, option: str, clone: Path) -> None:
    done = started(clone, program, option)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
    assert f"  tools/{program}" in done.stdout, "no example"


@pytest.mark.parametrize("word", ["explain", "rules", "export-policy"])
def test_so_do_help_and_a_slip_behind_a_subcommand(word: str, clone: Path) -> None:
    helped = started(clone, "lint-jobs", word, "--help")
    slipped = started(clone, "lint-jobs", word, "--no-such-option")

    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith(f"usage: lint-jobs {word}")
    assert (slipped.returncode, slipped.stdout) == (2, "")
    assert slipped.stderr.count("\n") == 1


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in PASSES_ON])
def test_an_unknown_option_is_one_line_and_sets_nothing_up(program: str, clone: Path) -> None:
    done = started(clone, program, "--no-such-option")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{program}: ")
    assert done.stderr.count("\n") == 1


def test_the_version_of_the_linter(clone: Path) -> None:
    done = started(clone, "lint-jobs", "--version")

    assert (done.returncode, done.stdout) == (0, "lint-jobs 0.1.0\n")
