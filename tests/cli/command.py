"""lint-jobs as a process, in a copy of this repository's jobs or in a small repository of a test's own."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import forked
from trainyard.lint.cli import main

HOME = Path(__file__).resolve().parents[2]
LLAMA = "jobs/research/llama-8b-sft"
GPT2 = "jobs/research/gpt2-124m"

Done = subprocess.CompletedProcess[str]

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec: {restartPolicy: Never, containers: [{name: trainer, image: "example.com/trainer:1"}]}
"""


def environment(place: Path, tools: Path = HOME / "tools") -> dict[str, str]:
    """This machine's, with the linter that lies in `tools`, a cache below `place` and an author for commits."""
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "GIT_DIR", "NO_COLOR")}
    cache = {"XDG_CACHE_HOME": str(place / "cache"), "PYTHONPATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | dict.fromkeys(names, "researcher") | cache


def command(*arguments: str | Path) -> list[str]:
    """lint-jobs with this Python, without its set-up."""
    return [sys.executable, "-P", "-m", "trainyard", "lint-jobs", *map(str, arguments)]


def copied_linter(place: Path) -> Path:
    """A copy of the linter, for a test that spoils it: it runs where PYTHONPATH names its tools/."""
    for part in ("tools/trainyard", "schemas"):
        shutil.copytree(HOME / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    (place / ".tools/bin").mkdir(parents=True)
    for name in ("render", "validation"):
        (place / ".tools/bin" / name).symlink_to(HOME / ".tools/bin" / name)
    return place


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at `root`."""

    root: Path

    def lint(self, *arguments: str | Path, cwd: str | Path = ".", stdin: str | bytes = b"", **variables: str) -> Done:
        """Run lint-jobs in a folder of the repository. Standard input and output are UTF-8.

        A Python of its own starts where variables are given, which may be for it.
        """
        given = stdin.encode() if isinstance(stdin, str) else stdin
        where, around = self.root / cwd, environment(self.root.parent) | variables
        if variables:
            done = subprocess.run(
                command(*arguments), cwd=where, env=around, input=given, capture_output=True, timeout=120, check=False
            )
        else:
            done = forked(main, [str(argument) for argument in arguments], where, around, given)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Done(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def report(self, *arguments: str | Path, **options: Any) -> dict[str, Any]:
        """The JSON that a run prints, with `exit` as its exit code was."""
        done = self.lint("--format", "json", *arguments, **options)
        assert done.stdout, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["summary"]["exit_code"] == done.returncode
        return report

    def judged(self, *arguments: str | Path, **options: Any) -> list[str]:
        """Names of the targets that a run judges, or cannot judge."""
        import xml.etree.ElementTree as ET

        suite = ET.fromstring(self.lint("--format", "junit", *arguments, **options).stdout)
        return sorted(case.attrib["name"] for case in suite.iter("testcase"))

    def write(self, file: str, text: str | bytes) -> Path:
        """Write a file, with the folders it lies in."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a text that stands once in a file."""
        text = (self.root / file).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        (self.root / file).write_text(text.replace(old, new))

    def patch(self, job: str, text: str) -> None:
        """Give a job a patch.yaml."""
        self.replace(f"{job}/kustomization.yaml", "transformers:\n", "- path: patch.yaml\ntransformers:\n")
        self.write(f"{job}/patch.yaml", text)

    def copy_job(self, job: str, to: str) -> None:
        """A second job, under the name of its folder."""
        shutil.copytree(self.root / job, self.root / to)
        self.replace(f"{to}/job.yaml", f"name: {Path(job).name}\n", f"name: {Path(to).name}\n")

    def git(self, *arguments: str) -> str:
        """Run git here."""
        done = subprocess.run(
            ["git", "-C", self.root, *arguments], env=environment(self.root.parent), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def commit(self) -> str:
        """Commit everything; the id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "state")
        return self.git("rev-parse", "HEAD").strip()


def files_below(folder: Path) -> set[str]:
    """Every file and folder, by its path."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if ".git" not in path.parts}
