"""docs/troubleshoot.md: its rules are there and fire, and its texts are those of the programs that tests have."""

import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainyard.controlplane.programs import PROGRAMS
from trainyard.docs.troubleshoot import PAGE, Symptom, page, programs, symptoms
from trainyard.home import HOME
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover
from trainyard.rules.examples import examples
from trainyard.rules.index import all_rules

CASES = sorted((HOME / "tests" / "cases").glob("*/*.yaml"))
LIBRARIES = HOME / ".tools" / "trainer" / "lib"
FILES = {
    "nccl": (LIBRARIES, "*/site-packages/nvidia/nccl/lib/libnccl.so*"),
    "cuda": (LIBRARIES, "*/site-packages/nvidia/*/lib/libcudart.so*"),
    "torch": (LIBRARIES, "*/site-packages/torch/lib/lib*.so"),
    "torchrun": (LIBRARIES, "*/site-packages/torch/distributed/**/*.py"),
    "deepspeed": (LIBRARIES, "*/site-packages/deepspeed/runtime/**/*.py"),
    "transformers": (LIBRARIES, "*/site-packages/transformers/**/*.py"),
    "openmpi": (Path("/usr/share/openmpi"), "help-*.txt"),
    "kubernetes": (PROGRAMS, "kube-*"),
    **{
        name: (HOME / ".tools" / "controllers", name)
        for name in ("jobset", "kueue", "mpi-operator", "training-operator", "ray-operator", "trainer")
    },
}
"""Where the programs lie that the tests have; other texts are looked up by hand."""
ROWS = [row for rows in symptoms().values() for row in rows]


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run tools/update-docs"


def test_each_program_that_is_named_prints_something() -> None:
    assert set(programs()) == {row.by for row in ROWS}


def test_no_text_stands_there_twice() -> None:
    assert len({row.text for row in ROWS}) == len(ROWS)


@pytest.mark.claim("symptoms-lead-to-rules")
def test_rules_fire_on_the_cases_of_public_threads(tmp_path: Path) -> None:
    named = {rule for row in ROWS for rule in row.rules}
    wanted = {}
    for file in CASES:
        case = yaml.safe_load(file.read_text(encoding="utf-8"))
        if case["rule"] in named:
            (tmp_path / file.parent.name).mkdir(exist_ok=True)
            name = f"{file.parent.name}/{file.name}"
            (tmp_path / name).write_text(case["bad"], encoding="utf-8")
            wanted[name] = case["rule"]

    found = lint(tmp_path, discover(sorted(wanted), tmp_path, tmp_path), use_cache=False).findings

    said = {(name, finding.rule) for finding in found for name in finding.jobs}
    assert len(wanted) > 150
    assert set(wanted.items()) - said == set()


def test_the_other_rules_have_an_example_that_they_find() -> None:
    for row in ROWS:
        for rule in map(all_rules().__getitem__, row.rules):
            assert rule.declared or "Bad" in {example.heading for example in examples(rule.page)}, row.text


def files_of(*names: str) -> Iterator[Path]:
    """The files of programs, the smallest first."""
    found = [file for folder, pattern in map(FILES.__getitem__, names) for file in folder.glob(pattern)]
    if not found:
        pytest.skip(f"{names[0]} is not installed")
    yield from sorted(filter(Path.is_file, found), key=lambda file: file.stat().st_size)


@pytest.mark.slow_build
@pytest.mark.parametrize("by", sorted(FILES.keys() - {"torchrun"}))
def test_texts_are_those_of_the_program(by: str) -> None:
    missing = {piece.strip().encode() for row in ROWS if row.by == by for piece in row.seen}
    for file in files_of(by, *(["torchrun"] if by == "torch" else [])):
        if missing and file.stat().st_size:
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
                missing = {piece for piece in missing if content.find(piece) < 0}

    assert missing == set()


def test_what_differs_is_not_looked_for() -> None:
    row = next(row for row in ROWS if row.text.startswith("The client socket"))

    assert isinstance(row, Symptom)
    assert row.seen == ("The client socket has timed out after ", " while trying to connect to (")
