"""What tools/test --all draws, tools/test --nightly takes whole, and nobody else draws."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
COMMANDS = """
import pytest

pytestmark = pytest.mark.commands


@pytest.mark.parametrize("number", range(40))
def test_it(number: int) -> None:
    pass
"""
SERVER = """
import pytest


@pytest.mark.controlplane
def test_one() -> None:
    pass


@pytest.mark.controlplane
def test_other() -> None:
    pass


def test_plain() -> None:
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose tests are set up as those here: 40 with commands, and six files that share a server each."""
    (tmp_path / "tests").mkdir()
    for name in ("by_day.py", "conftest.py", "watcher.py"):
        (tmp_path / "tests" / name).write_text((HOME / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text((HOME / "pyproject.toml").read_text())
    (tmp_path / "tests/test_commands.py").write_text(COMMANDS)
    for number in range(6):
        (tmp_path / f"tests/test_server_{number}.py").write_text(SERVER)
    return tmp_path


def collected(project: Path, marks: str, **variables: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks],
        cwd=project,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return re.findall(r"^tests/.*::.*$", done.stdout, re.MULTILINE)


def test_by_day_a_part_runs_and_at_night_the_rest_too(project: Path) -> None:
    day = collected(project, "not long", TRAINYARD_COVER="some", TRAINYARD_SEED="a")
    other = collected(project, "not long", TRAINYARD_COVER="some", TRAINYARD_SEED="b")
    night = collected(project, "long", TRAINYARD_COVER="all", TRAINYARD_SEED="a")

    assert sum("test_commands" in each for each in day) == 5
    files = sorted(each.split("::")[0] for each in day if "plain" not in each and "server" in each)
    assert len(files) == 4, "two tests of each of two files"
    assert len(set(files)) == 2
    assert sum("plain" in each for each in day) == 6
    assert set(day) != set(other)
    assert len(night) == 40 + 12
    assert collected(project, "not long", TRAINYARD_COVER="some", TRAINYARD_SEED="a") == day


def test_shards_are_the_whole_and_share_nothing(project: Path) -> None:
    marks = "commands or controlplane"
    parts = [collected(project, marks, TRAINYARD_SHARD=f"{number}/3") for number in (1, 2, 3)]

    assert sorted(each for part in parts for each in part) == sorted(collected(project, marks))
    assert len(parts[0] + parts[1] + parts[2]) == 40 + 12


def test_who_names_tests_gets_them(project: Path) -> None:
    assert len(collected(project, "commands or controlplane")) == 40 + 12
