"""The verdicts on objects are those of kubeconform, which reads the same schemas with a library of its own."""

import copy
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.schemas.conftest import HERE, HOME, unit_of
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import OLDER_FIELD, VIOLATION, check, schema_of

SCHEMAS = HOME / "schemas"
WRONG: tuple[Any, ...] = (
    0,
    -1,
    1.5,
    1e300,
    10**30,
    True,
    "",
    "7",
    "a b",
    "1Gi",
    [],
    [1],
    {},
    {"unknown": 1},
    "\U0001f680",
)
MUTANTS = 20
"""Of each object."""


def _of(file: Path) -> Iterator[Object]:
    for obj in unit_of(file).objects:
        if schema_of(SCHEMAS, obj.api_version, obj.kind) and "null" not in json.dumps(obj.data) and obj.name:
            yield obj


WRITTEN = [obj for folder in ("good", "bad") for file in sorted((HERE / folder).glob("*.yaml")) for obj in _of(file)]


def places(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every field and item below a tree, but for what names the object."""
    for step, below in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if path or step not in ("apiVersion", "kind", "metadata"):
            yield (*path, step)
            yield from places(below, (*path, step))


def mutant(data: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The object with one field changed, taken out, or given a neighbour that no schema knows."""
    made = copy.deepcopy(data)
    path = chance.choice(list(places(made)) or [("spec",)])
    holder: Any = made
    for step in path[:-1]:
        holder = holder[step]
    kind = chance.choice(("change", "change", "take", "add"))
    if kind == "take" and isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif kind == "add" and isinstance(holder, dict):
        holder[f"{path[-1]}s"] = chance.choice(WRONG)
    elif isinstance(holder, dict) or path[-1] < len(holder):  # type: ignore[operator]
        holder[path[-1]] = chance.choice(WRONG)
    return made


def kubeconform(*arguments: str, stdin: bytes = b"") -> Any:
    """Its report on files, or on standard input."""
    places = ("kubernetes/{{.Group}}", "{{.Group}}")
    locations = [f"{place}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json" for place in places]
    command = [str(HOME / ".tools/bin/kubeconform"), "-strict", "-summary", "-output", "json"]
    command += [word for location in locations for word in ("-schema-location", location)]
    done = subprocess.run([*command, *arguments], cwd=SCHEMAS, env={}, input=stdin, stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)


def refused_by_kubeconform(folder: Path, documents: list[dict[str, Any]]) -> set[int]:
    """The numbers of the documents that it does not take."""
    for number, document in enumerate(documents):
        (folder / f"{number:05d}.json").write_text(json.dumps(document, ensure_ascii=False))
    report = kubeconform(str(folder))
    assert sum(report["summary"].values()) == len(documents)
    assert report["summary"]["skipped"] == 0
    return {int(Path(one["filename"]).stem) for one in report["resources"]}


@pytest.mark.claim("verdicts-are-kubeconforms")
def test_every_verdict_is_kubeconforms(tmp_path: Path) -> None:
    chance = random.Random(10)
    documents = [obj.data for obj in WRITTEN]
    documents += [mutant(obj.data, chance) for obj in WRITTEN for _ in range(MUTANTS)]
    units = [Unit(str(n), False, (Object.of(data, 0),)) for n, data in enumerate(documents)]

    told = (VIOLATION.id, OLDER_FIELD.id)
    refused = {problem.unit_index for problem in check(units) if problem.rule_id in told}
    theirs = refused_by_kubeconform(tmp_path, documents)

    assert [documents[n] for n in sorted(refused ^ theirs)] == []
    assert 500 < len(refused) < len(documents) - 500


FOLDERS = sorted(
    str(file.parent.relative_to(HOME))
    for pattern in ("jobs/*/*/kustomization.yaml", "clusters/*/platform/kustomization.yaml")
    for file in HOME.glob(pattern)
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_kustomize_builds_passes_kubeconform(folder: str) -> None:
    built = subprocess.run([HOME / ".tools/bin/kustomize", "build", folder], cwd=HOME, capture_output=True, check=True)

    report = kubeconform(stdin=built.stdout)

    assert report["resources"] == []
    assert report["summary"]["valid"] == built.stdout.count(b"\nkind: ") > 5
