"""Wheels, and environments that hold one and what it asks for."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.test_offline import offline

HOME = Path(__file__).resolve().parents[2]


def build(folder: Path, target: str, to: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "hatchling", "build", "--target", target, "--directory", to],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def built(folder: Path, target: str, to: Path, **settings: str) -> Path:
    """What hatchling builds of a source folder."""
    done = build(folder, target, to, **settings)
    assert done.returncode == 0, done.stderr
    (file,) = to.iterdir()
    return file


def installed(wheel: Path, environment: Path) -> Path:
    """A new environment that holds a wheel, and what it asks for in the versions that are pinned."""
    uv = subprocess.run(
        [sys.executable, "-I", HOME / "tools/bootstrap.py", "uv"], capture_output=True, text=True, check=True
    ).stdout.strip()
    pinned = ("--require-hashes", "--requirement", HOME / "requirements/lint.txt")
    into = (uv, "pip", "install", "--quiet", "--python", environment / "bin/python")
    for command in ((uv, "venv", "--quiet", "--python", sys.executable, environment), (*into, *pinned)):
        subprocess.run(command, check=True)
    # With what is pinned, all that it depends on is there.
    subprocess.run([*into, "--no-index", wheel], check=True)
    return environment


@dataclass(frozen=True, slots=True)
class Bare:
    """An environment that holds the wheel and what it asks for, and a repository of two jobs, far from the checkout."""

    wheel: Path
    environment: Path
    repository: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the repository, without a network."""
        program = self.environment / "bin" / words[0]
        return offline(program, *words[1:], cwd=self.repository)
