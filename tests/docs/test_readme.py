"""What the README shows is what happens."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
README = (HOME / "README.md").read_text()


def lint(folder: Path) -> str:
    """What lint-jobs prints there."""
    command = [sys.executable, "-m", "trainyard", "lint-jobs", "--no-cache", "jobs/research/gpt2-124m"]
    environment = {"PYTHONPATH": str(HOME / "tools"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_finding_of_the_readme_is_a_real_one(tmp_path: Path) -> None:
    for part in ("base", "overlays", "clusters", "jobs"):
        shutil.copytree(HOME / part, tmp_path / part)
    job = tmp_path / "jobs" / "research" / "gpt2-124m" / "job.yaml"
    job.write_text(job.read_text().replace("nodes: 4", "nodes: 6"))
    [shown] = re.findall(r"```\n(error\[.*?)```", README, re.DOTALL)
    assert lint(tmp_path) == shown


def test_files_that_the_readme_links_to_are_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (HOME / link).exists(), link


def test_folders_that_the_readme_names_are_there() -> None:
    for folder in re.findall(r"^\| `([a-z-]+(?:/[a-z-]+)*)/?(?:<[a-z]+>/?)*", README, re.MULTILINE):
        assert (HOME / folder).is_dir(), folder
