"""What other linters of manifests say of the failures in tests/cases, beside lint-jobs.

    .tools/test/bin/python bench/compare_linters.py
    .tools/test/bin/python bench/compare_linters.py --write --kube-linter PATH --checkov PATH

Each case is a manifest that fails in one way (`bad`) and the same with that one thing mended (`good`), from public
threads. A linter tells the two apart where it says something of the bad one that it does not say of the good one, in
number or in kind. What it says of both is about something else, and is counted as noise on the good one. kubeconform
is the one of tools/go, with the schemas of schemas/; the others run with the checks that they have by themselves, from
PATH or from where the options say. A linter that is not there is left out. --write records the figures in
docs/compare.md.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HOME = Path(__file__).resolve().parents[1]
CASES = HOME / "tests" / "cases"
PAGE = HOME / "docs" / "compare.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"

Said = dict[str, Counter[str]]
"""What a linter says of each file: its checks, each with how often."""


@dataclass(frozen=True, slots=True)
class Linter:
    """A program, how it is asked about a folder, and how its version is."""

    name: str
    program: str
    ask: Callable[[str, Path], Said]
    version: tuple[str, ...]
    checks: str
    """Which of its checks run."""


def answered(command: list[str], cwd: Path) -> str:
    """The standard output of a command, whatever its exit code: that of a linter says that it found something."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False).stdout


def lint_jobs(_: str, folder: Path) -> Said:
    """Errors and warnings of lint-jobs."""
    files = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*.yaml"))]
    command = [sys.executable, "-m", "trainyard", "lint-jobs", "--no-cache", "--format", "json", *files]
    environment = {"PYTHONPATH": str(HOME / "tools"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    said: Said = {}
    for finding in json.loads(done.stdout)["findings"]:
        if finding["severity"] != "info":
            for file in finding["jobs"]:
                said.setdefault(file, Counter())[finding["rule"]] += 1
    return said


def kubeconform(program: str, folder: Path) -> Said:
    """Objects that do not fit their schema; those without a schema are passed over."""
    places = (f"{HOME}/schemas/{part}{{{{.Group}}}}" for part in ("kubernetes/", ""))
    schemas = [f"{place}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json" for place in places]
    asked = [word for schema in schemas for word in ("-schema-location", schema)]
    command = [program, "-strict", "-ignore-missing-schemas", "-output", "json", *asked, "."]
    said: Said = {}
    for resource in json.loads(answered(command, folder))["resources"]:
        if resource["status"] in ("statusInvalid", "statusError"):
            file = Path(resource["filename"]).as_posix()
            # Its messages join violations in an order that changes from run to run.
            broken = [f"{each['path']}: {each['msg']}" for each in resource.get("validationErrors") or ()]
            said.setdefault(file, Counter()).update(broken or [resource["msg"]])
    return said


def kube_linter(program: str, folder: Path) -> Said:
    """The checks that kube-linter has on by default."""
    said: Said = {}
    for report in json.loads(answered([program, "lint", "--format", "json", "."], folder))["Reports"] or ():
        file = Path(report["Object"]["Metadata"]["FilePath"])
        name = (file.relative_to(folder) if file.is_absolute() else file).as_posix()
        said.setdefault(name, Counter())[report["Check"]] += 1
    return said


def checkov(program: str, folder: Path) -> Said:
    """The checks of checkov's framework for Kubernetes."""
    command = [program, "--directory", ".", "--framework", "kubernetes", "--output", "json", "--quiet", "--compact"]
    found = json.loads(answered([*command, "--skip-download"], folder))
    said: Said = {}
    for check in found["results"]["failed_checks"]:
        said.setdefault(check["file_path"].lstrip("/"), Counter())[check["check_id"]] += 1
    return said


LINTERS = (
    Linter("lint-jobs", sys.executable, lint_jobs, ("-m", "trainyard", "lint-jobs", "--version"), "errors, warnings"),
    Linter(
        "kubeconform", str(HOME / ".tools/bin/kubeconform"), kubeconform, ("-v",), "strict schemas, those of schemas/"
    ),
    Linter("kube-linter", "kube-linter", kube_linter, ("version",), "on by default"),
    Linter("checkov", "checkov", checkov, ("--version",), "framework kubernetes"),
)


def written(folder: Path) -> list[str]:
    """Write the halves of each case to bad/ and good/; their paths below those."""
    names = []
    for file in sorted(CASES.glob("*/*.yaml")):
        case: Mapping[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        names.append(f"{file.parent.name}/{file.name}")
        for half in ("bad", "good"):
            to = folder / half / names[-1]
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(case[half], encoding="utf-8")
    return names


def row(linter: Linter, program: str, folder: Path, names: list[str]) -> str:
    """One line of the table."""
    bad, good = (linter.ask(program, folder / half) for half in ("bad", "good"))
    told = sum(bool(bad.get(name, Counter()) - good.get(name, Counter())) for name in names)
    noisy = sum(bool(good.get(name)) for name in names)
    noise = sum(good.get(name, Counter()).total() for name in names)
    return f"| {linter.name} {version(linter, program)} | {linter.checks} | {told} | {noisy} | {noise} |"


def version(linter: Linter, program: str) -> str:
    """What the program says of its version; ours is the commit that the page lies in."""
    if linter.name == "lint-jobs":
        return "of this commit"
    said = answered([program, *linter.version], HOME).strip()
    number = re.search(r"v?\d+\.\d+\.\d+", said)
    return number[0] if number else said


def table(programs: Mapping[str, str]) -> str:
    """The figures as a table of Markdown."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = written(folder)
        head = f"| linter | checks | told apart, of {len(names)} | good manifests with findings | findings on them |"
        rows = [row(each, program, folder, names) for each in LINTERS if (program := programs.get(each.name))]
    return "\n".join([head, "|---|---|---|---|---|", *rows]) + "\n"


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the figures in docs/compare.md")
    for linter in LINTERS[1:]:
        parser.add_argument(f"--{linter.name}", metavar="PATH", default=shutil.which(linter.program))
    given = vars(parser.parse_args())
    programs = {"lint-jobs": sys.executable}
    programs |= {each.name: path for each in LINTERS[1:] if (path := given[each.name.replace("-", "_")])}
    for missing in [each.name for each in LINTERS if each.name not in programs]:
        print(f"{missing} is not on PATH: left out", file=sys.stderr)
    figures = table(programs)
    if given["write"]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{figures}{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(figures, end="")


if __name__ == "__main__":
    main()
