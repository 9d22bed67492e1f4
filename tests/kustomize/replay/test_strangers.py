"""Input of the wrong shape: an InputError or a replay with fewer positions, never a crash."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.kustomize.replay.cases import CASES
from tests.kustomize.replay.support import write
from tests.kustomize.replay.test_records import FOLDER, TREE
from trainyard.errors import InputError
from trainyard.kustomize.kustomization import load_graph
from trainyard.kustomize.replay import replay
from trainyard.objects.objects import Object
from trainyard.yaml.nodes import load_documents
from trainyard.yaml.sources import Sources

ODD: list[Any] = [
    None,
    "",
    "x",
    0,
    -1,
    2.5,
    True,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": None},
    "²",
    "--1",
    "a.yaml",
    "[",
    "/",
]


def spoil(data: Any, chance: random.Random) -> Any:
    """The same data with a few values replaced by something else."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    if isinstance(data, dict):
        return {key: spoil(child, chance) for key, child in data.items()}
    return [spoil(child, chance) for child in data] if isinstance(data, list) else data


@pytest.mark.parametrize("name", [*CASES, "wired"])
def test_spoilt_trees(name: str, tmp_path: Path) -> None:
    tree, folder = (TREE, FOLDER) if name == "wired" else (CASES[name][0], "over")
    write(tmp_path, tree)
    written = {file: file.read_text() for file in tmp_path.rglob("*.yaml")}
    for seed in range(8):
        chance = random.Random(f"{name}{seed}")
        for file, text in written.items():
            documents = [spoil(node.plain(), chance) for node in load_documents(text, file.name)]
            file.write_text("---\n".join(json.dumps(document) + "\n" for document in documents))
        sources = Sources(tmp_path)
        try:
            load_graph(sources, folder)
            done = replay(tmp_path, folder, sources)
        except InputError:
            continue
        assert done.wires is not None
        assert done.patches is not None
        for index, node in enumerate([*done.objects, *done.facts]):
            plain = node.plain()
            if isinstance(plain, dict):
                done.position(Object.of(plain, index), ("spec", "template", 0))
