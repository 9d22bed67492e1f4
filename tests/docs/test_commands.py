"""Every command of the pages that one follows step by step runs, in its order, and prints what the page shows."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.recorded import hold

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[2]
PAGES = HOME / "docs"
PARTS = ("base", "overlays", "clusters", "jobs", "tools", "schemas", "requirements", "trainer")
ALSO_WRITTEN = ("docs", "tests", "bench", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""What tools/update-docs reads and writes beside them."""
LONGEST_SECONDS = 120
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def checkout(root: Path, parts: Sequence[str] = PARTS) -> Path:
    """A clone of this repository as a newcomer has it, with the set-up done."""
    for part in (*parts, ".gitignore"):
        if (HOME / part).is_dir():
            shutil.copytree(HOME / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(HOME / part, root)
    (root / ".tools").symlink_to(HOME / ".tools")
    run(root, "git init -q -b main --template= && mkdir .git/info && echo /.tools > .git/info/exclude")
    run(root, "git add --all && git commit -q -m state")
    return root


def run(root: Path, command: str) -> str:
    who = {f"GIT_{role}_{what}": "newcomer" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "GIT_DIR")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=root,
        env=kept | who | {"XDG_CACHE_HOME": str(root.parent / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    return done.stdout


@pytest.mark.claim("tutorial-is-a-test")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    hold_commands(PAGES / "tutorial.md", tmp_path)


@pytest.mark.claim("cluster-page-is-a-test")
def test_adding_a_cluster_prints_what_the_page_shows(tmp_path: Path) -> None:
    hold_commands(PAGES / "add-a-cluster.md", tmp_path)


@pytest.mark.claim("adopt-pages-are-tests")
@pytest.mark.parametrize("page", ["adopt", "adopt-eks", "adopt-gke", "adopt-roce", "own-program"])
def test_adopting_it_prints_what_the_page_shows(page: str, tmp_path: Path) -> None:
    hold_commands(PAGES / f"{page}.md", tmp_path, (*PARTS, *ALSO_WRITTEN))


def hold_commands(page: Path, folder: Path, parts: Sequence[str] = PARTS) -> None:
    """Run the commands of a page in a clone of its own, and compare what they print. `> ` goes on with a command."""
    root = checkout(folder / "trainyard", parts)

    def replayed(block: re.Match[str]) -> str:
        commands = re.findall(r"^\$ (.*(?:\n> .*)*)$", block[1], re.MULTILINE)
        printed = [settled(run(root, command.replace("\n> ", "\n"))) for command in commands]
        shown = [f"$ {command}\n{output}" for command, output in zip(commands, printed, strict=True)]
        return f"```console\n{''.join(shown)}```"

    hold(page, BLOCK.sub(replayed, page.read_text()))


def settled(output: str) -> str:
    """Output without what differs from run to run: ids of commits."""
    return re.sub(r"\((?:[0-9a-f]{12})\)", "(0123456789ab)", output)
