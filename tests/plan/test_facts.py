"""schemas/hardware/: files as their schemas say, and facts that agree with one another and with the repository."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.plan.support import HOME
from trainyard.plan.hardware import FOLDER, GIB, gpus, nodes, read, usual_network
from trainyard.plan.shapes import shapes

FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_as_their_schema_says(file: Path) -> None:
    schema = json.loads((FOLDER / f"{file.stem}.schema.json").read_text())
    assert f"$schema={file.stem}.schema.json" in file.read_text().splitlines()[0]

    Draft7Validator.check_schema(schema)
    assert [error.message for error in Draft7Validator(schema).iter_errors(read(file.name))] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_source_that_is_named_is_listed(file: Path) -> None:
    document = read(file.name)
    named = set(re.findall(r"from: \[?([^\]}]+)[\]}]", file.read_text()))

    assert {name.strip() for names in named for name in names.split(",")} <= set(document.get("sources", {}))


def test_what_a_node_has_is_known() -> None:
    assert {node.gpu for node in nodes().values()} <= set(gpus())
    assert set(usual_network()) == {gpu.name for gpu in gpus().values()}


def test_the_gpus_of_our_clusters_are_known() -> None:
    files = sorted(HOME.glob("clusters/*/facts/cluster.yaml"))
    named = [re.search(r"^    gpu: (\S+)$", file.read_text(), re.MULTILINE) for file in files]
    products = {gpu.name: read("gpus.yaml")["gpus"][gpu.name]["product"] for gpu in gpus().values()}

    assert named
    for file, match in zip(files, named, strict=True):
        assert match is not None
        assert f"nvidia.com/gpu.product: {products[match[1]]}\n" in file.read_text()


def test_memory_is_at_most_as_many_gib_as_the_box_says_gb() -> None:
    facts = read("gpus.yaml")["gpus"]
    for gpu in gpus().values():
        assert 0.91 * facts[gpu.name]["memory"] <= gpu.memory / GIB <= gpu.most / GIB <= facts[gpu.name]["memory"], gpu


def test_the_best_product_is_below_the_peak() -> None:
    for gpu in gpus().values():
        assert 0.5 < gpu.matmul / gpu.tensor < 0.95, gpu.name


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("gpt2-124m", 124_439_808),
        ("gpt2-1.5b", 1_557_611_200),
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
    ],
)
def test_weights_are_those_of_the_published_models(model: str, parameters: int) -> None:
    assert shapes()[model].parameters == parameters


def test_shapes_are_those_of_the_trainer() -> None:
    """The trainer's presets are the names that `model` of a job.yaml takes: none is missing, none differs."""
    presets = _presets()
    if presets is None:
        pytest.skip("this checkout has no trainer")
    assert set(presets) == set(shapes())
    for name, preset in presets.items():
        shape = shapes()[name]
        assert (shape.layers, shape.width, shape.heads, shape.hidden) == (
            preset.layers,
            preset.width,
            preset.heads,
            preset.hidden,
        )
        if shape.patches:
            assert (shape.patches, shape.vocabulary) == ((preset.image // preset.patch) ** 2, preset.classes)
            continue
        learned = preset.context if preset.positions == "learned" else 0
        assert (shape.kv, shape.vocabulary, shape.tied, shape.bias) == (
            preset.kv_heads,
            preset.vocabulary,
            preset.tied,
            preset.bias,
        )
        assert (shape.context, shape.positions, shape.gated) == (
            preset.context,
            learned,
            preset.activation == "swiglu",
        )


def _presets() -> dict[str, Any] | None:
    if not (HOME / "trainer" / "presets.py").is_file():
        return None
    sys.path.insert(0, str(HOME))
    try:
        spec = importlib.util.find_spec("trainer.presets")
        assert spec is not None
        found: dict[str, Any] = importlib.import_module("trainer.presets").PRESETS
        return found
    finally:
        sys.path.remove(str(HOME))
