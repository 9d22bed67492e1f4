"""Checkouts to set up: the real set-up and Go sources; in place of the linter, a program that says how it was run."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]

PROBE = """\
import json, os, sys

if sys.argv[2:3] == ["exit"]:
    sys.exit(int(sys.argv[3]))
print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), "isolated": sys.flags.isolated, "file": __file__}))
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """This machine's environment, with the uv and the Go that this checkout set up for itself, if it did."""
    own = (HOME / ".tools/uv/bin", HOME / ".tools/go/go/bin")
    path = os.pathsep.join([os.environ["PATH"], *(str(folder) for folder in own if folder.is_dir())])
    drawn = ("TRAINYARD_COVER", "TRAINYARD_SEED")  # what tools/test says to the tests that run here
    return {name: value for name, value in os.environ.items() if name not in drawn} | {"PATH": path}


def make_checkout(place: Path) -> Path:
    """A checkout at `place` that was never set up."""
    shutil.copytree(HOME / "tools/trainyard", place / "tools/trainyard", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "tools/trainyard/__main__.py").write_text(PROBE)
    shutil.copytree(HOME / "requirements", place / "requirements")
    for name in ("bootstrap.py", "lint-jobs", "lock", "test"):
        shutil.copy(HOME / "tools" / name, place / "tools")
    shutil.copytree(HOME / "tools/set_up", place / "tools/set_up", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("render", "validation", "controlplane"):
        shutil.copytree(HOME / "tools/go" / name, place / "tools/go" / name)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HOME / "tools/go" / name, place / "tools/go")
    shutil.copy(HOME / "pyproject.toml", place)
    return place


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that was never set up."""
    return make_checkout(tmp_path / "checkout")


@pytest.fixture(scope="session")
def set_up_once(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    place = make_checkout(tmp_path_factory.mktemp("set up") / "check out")
    done = subprocess.run([place / "tools/lint-jobs"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def ready(set_up_once: Path, tmp_path: Path) -> Path:
    """A checkout of one's own, set up, at a path with a space; it was moved since."""
    return shutil.copytree(set_up_once, tmp_path / "ready checkout", symlinks=True)


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Runs a command in an empty folder, or in `cwd`; further arguments by name are environment variables."""

    def run_command(
        *command: str | Path, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        return subprocess.run(
            command,
            cwd=cwd or elsewhere,
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run_command


@pytest.fixture
def path_with(tmp_path: Path, environment: dict[str, str]) -> Callable[..., str]:
    """A PATH that begins with scripts given by name; each is the body of a shell script."""

    def make(**scripts: str) -> str:
        folder = tmp_path / "scripts"
        folder.mkdir(exist_ok=True)
        for name, body in scripts.items():
            script = folder / name
            script.write_text(f"#!/bin/sh\n{body}\n")
            script.chmod(0o755)
        return f"{folder}{os.pathsep}{environment['PATH']}"

    return make
