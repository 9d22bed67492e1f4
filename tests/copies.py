"""Copies of parts of this repository, for tests that change them."""

import shutil
from pathlib import Path

from trainyard.cache import folder_of

HOME = Path(__file__).resolve().parents[1]
TWO_JOBS = (
    "base",
    "overlays",
    "clusters/gpu-east",
    "clusters/lab-west",
    "jobs/research/gpt2-124m",
    "jobs/research/llama-8b-sft",
)
"""Two jobs, and all that they are made of and land on."""


def copy_parts(root: Path, *parts: str) -> None:
    """Copy folders, without what Flux starts from: a test may then add and rename jobs without a list."""
    for part in parts:
        shutil.copytree(HOME / part, root / part, ignore=shutil.ignore_patterns("flux"))


def copy_judged(one: Path, other: Path) -> Path:
    """Copy `repository`, and of `cache` the results that are kept of it, from one folder to another. Returns the copy.

    Of the copy, only what a test changes is judged again.
    """
    root = other / "repository"
    shutil.copytree(one / "repository", root, symlinks=True)
    shutil.copytree(one / "cache" / folder_of(one / "repository"), other / "cache" / folder_of(root))
    return root
