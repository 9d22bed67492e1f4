"""A copy of this repository's jobs and all that they are made of, to plant one mistake in and lint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.said import said
from trainyard.lint.cli import main

LLAMA = "jobs/research/llama-8b-sft"
GPT2 = "jobs/research/gpt2-124m"
BOTH = (GPT2, LLAMA)
CARET = "▸"
"""Stands in a piece of text right before the place that a finding is expected to point at."""


@dataclass(frozen=True, slots=True)
class Found:
    """One finding, as it is expected."""

    rule: str
    file: str
    text: str
    """Text that stands once in the file, with a CARET where the finding points; empty for the whole file."""
    object: str = ""
    path: str = ""
    jobs: tuple[str, ...] | None = None
    """Those it reaches; None for the job that the file belongs to, or both where it belongs to none."""


class Checkout:
    """The copy, below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, file: str, text: str) -> None:
        """Add a file, with the folders it lies in."""
        (self.root / file).parent.mkdir(parents=True, exist_ok=True)
        (self.root / file).write_text(text)

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a piece of text that stands once in a file."""
        text = (self.root / file).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        (self.root / file).write_text(text.replace(old, new))

    def append(self, file: str, text: str) -> None:
        """Add lines at the end of a file."""
        with (self.root / file).open("a") as out:
            out.write(text)

    def patch(self, job: str, text: str, target: str = "") -> str:
        """Add patch.yaml to a job; `target` in flow style for a JSON patch. Returns its path."""
        entry = f"- path: patch.yaml\n  target: {target}\n" if target else "- path: patch.yaml\n"
        self.replace(f"{job}/kustomization.yaml", "transformers:\n", f"{entry}transformers:\n")
        self.write(f"{job}/patch.yaml", text)
        return f"{job}/patch.yaml"

    def lint(self, *paths: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the JSON document of the command line. Every finding counts, whatever its severity."""
        found = said(main, "--format=json", "--level=info", "--fail-on=info", *paths, cwd=self.root)
        return found.code, found.json

    def expect(self, *expected: Found, lint: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Lint all jobs, and hold what is found of them against all that should be. Returns the findings.

        What a wrong fact makes wrong on the platform of its cluster too is left out.
        """
        code, document = self.lint(*lint)
        told: list[dict[str, Any]] = document["findings"]
        findings = [each for each in told if not each["jobs"] or any("clusters/" not in job for job in each["jobs"])]
        found, wanted = sorted(map(_line, findings)), sorted(map(self._line, expected))
        assert found == wanted, "\n".join(["found:", *found, "wanted:", *wanted])
        bad_input = any(each["rule"] == "INP001" for each in told)
        assert code == (2 if bad_input else 1 if expected else 0)
        return findings

    def _line(self, found: Found) -> str:
        place = found.file
        if found.text:
            line, column = self._position(found.file, found.text)
            place = f"{found.file}:{line}:{column}"
        job = "/".join(found.file.split("/")[:3])
        jobs = found.jobs if found.jobs is not None else (job,) if job in BOTH else BOTH
        return _told(found.rule, place, found.object, found.path, jobs)

    def _position(self, file: str, text: str) -> tuple[int, int]:
        whole = (self.root / file).read_text()
        before, _, after = text.partition(CARET)
        assert whole.count(before + after) == 1, (
            f"{before + after!r} stands {whole.count(before + after)} times in {file}"
        )
        start = whole.index(before + after) + len(before)
        return whole.count("\n", 0, start) + 1, start - (whole.rfind("\n", 0, start) + 1) + 1


def _line(finding: dict[str, Any]) -> str:
    place = finding["file"] or "position unknown"
    if finding["line"]:
        place = f"{place}:{finding['line']}:{finding['column']}"
    return _told(finding["rule"], place, finding["object"], finding["path"], finding["jobs"])


def _told(rule: str, place: str, object: str, path: str, jobs: Any) -> str:
    return " | ".join((rule, place, object, path, ", ".join(job.rpartition("/")[2] for job in jobs)))
