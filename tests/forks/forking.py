"""Forks of this repository, and what commands say in them."""

import os
import subprocess
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]


def run(folder: Path, script: str) -> str:
    """What a script prints, both streams. It ends at the first command that fails, and that fails the test."""
    who = {f"GIT_{role}_{what}": "adopter" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dropped = ("CI", "NO_COLOR", "GIT_DIR", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "TRAINYARD_COVER")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=kept | who | {"XDG_CACHE_HOME": str(folder.parent / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def with_the_set_up(root: Path) -> None:
    """Give a clone what is built here."""
    (root / ".tools").mkdir()
    for made in (HOME / ".tools").iterdir():
        if made.name not in ("cache", "lock", "on-examples", "site"):
            (root / ".tools" / made.name).symlink_to(made)
