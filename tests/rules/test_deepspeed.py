"""DSP rules: where the configuration is, what it says, and what its arithmetic gives."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.telling import check_told, manifests
from trainyard.catalogues import deepspeed as deepspeed_catalogue
from trainyard.catalogues import programs as trainer_catalogue
from trainyard.errors import Fault
from trainyard.rules.deepspeed import hjson
from trainyard.rules.deepspeed.elasticity import Elastic, batch_and_sizes


@pytest.mark.parametrize("file", manifests("deepspeed"), ids=lambda file: file.stem)
def test_what_is_said_about_deepspeed(file: Path) -> None:
    check_told(file, "BAT", "DSP")


def test_the_compiled_facts_are_what_their_sources_give() -> None:
    folder = deepspeed_catalogue.FOLDER
    assert (folder / "facts.json").read_text() == deepspeed_catalogue.compile_facts()


@pytest.mark.parametrize("module", [deepspeed_catalogue.compile_facts, trainer_catalogue.compile_arguments])
def test_a_source_that_breaks_its_schema_is_named(module: object, tmp_path: Path) -> None:
    assert callable(module)
    own = deepspeed_catalogue if module is deepspeed_catalogue.compile_facts else trainer_catalogue
    for file in own.FOLDER.glob("*.schema.json"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "arguments.yaml").write_text("trainers: {x: {rolls: {}}}\n")
    with pytest.raises(Fault, match=r"arguments\.yaml"):
        module(tmp_path)


def test_constraints_name_keys_that_exist() -> None:
    """A key that the tables do not hold must be one that its section refuses or ignores, and is named in `at`."""
    unknown = []
    for constraint in deepspeed_catalogue.constraints():
        for path in (*constraint.when, constraint.at, *((constraint.other,) if constraint.other else ())):
            section, _, name = path.rpartition(".")
            known = deepspeed_catalogue.sections().get(section)
            if not path.startswith(("optimizer.params", "scheduler.params")) and (known is None or not known.key(name)):
                unknown.append(path)
    assert set(unknown) == {"activation_checkpointing.partitioned_activations"}
    names = [constraint.name for constraint in deepspeed_catalogue.constraints()]
    assert len(names) == len(set(names))


VECTORS = [
    ((8, 12, 16, 17), 10000, 32, 1500, 9792, 23, [32, 34, 36, 48, 51, 64], 128),
    ((2, 4, 6), 2000, 1, 10000, 1680, 32, [8, 12], 16),
    ((1, 2, 4, 8), 1024, 8, 256, 840, 22, [8, 10, 12, 14, 15, 210], 64),
]


@pytest.mark.parametrize(("micros", "most", "least", "largest", "batch", "count", "some", "refused"), VECTORS)
def test_elastic_sizes(
    micros: tuple[int, ...], most: int, least: int, largest: int, batch: int, count: int, some: list[int], refused: int
) -> None:
    chosen, sizes = batch_and_sizes(Elastic(most, micros, least, largest, True, 0.1, 1, 1), 1)
    assert (chosen, len(sizes)) == (batch, count)
    assert set(some) <= set(sizes)
    assert refused not in sizes


@given(
    st.lists(st.integers(1, 32), min_size=1, max_size=4, unique=True),
    st.integers(32, 4096),
    st.integers(1, 64),
    st.sampled_from([0.1, 0.2]),
    st.sampled_from([1, 2, 4, 8]),
)
def test_every_elastic_size_shares_the_batch(
    micros: list[int], most: int, ranks: int, version: float, per_node: int
) -> None:
    numbers = Elastic(max(most, per_node * 32), tuple(micros), 1, 10000, True, version, 1, per_node)
    batch, sizes = batch_and_sizes(numbers, ranks * per_node)
    for size in sizes:
        if version == 0.1 or size != ranks * per_node:
            assert any(batch % (micro * size) == 0 for micro in micros)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.sampled_from([None, 2]))
def test_all_json_is_hjson(value: dict[str, object], indent: int | None) -> None:
    assert hjson.loads(json.dumps(value, indent=indent)) == value


@given(st.text(alphabet="{}[]\",:'#/*\n ab1.-eEtrufalsn\\", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(hjson.Refused):
        assert isinstance(hjson.loads(text), dict | list)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: x y", {"a": 1, "b": "x y"}),
        ("{a: 1e-5, // c\n b: [1, 2,],}", {"a": 1e-5, "b": [1, 2]}),
        ("{'a': true # yes\n}", {"a": True}),
        ("{a: True}", None),
        ("{a: '''x\ny'''}", {"a": "x\ny"}),
        ('{"a": 1, "a": 2}', None),
        ('{"a": 1', None),
        ('{"a": [1', None),
        ('{"a" 1}', None),
        ('{"a": "b}', None),
        ('{"a": 1} b', None),
        ("[" * 60, None),
    ],
)
def test_hjson(text: str, value: object) -> None:
    if value is None:
        with pytest.raises(hjson.Refused):
            hjson.loads(text)
    else:
        assert hjson.loads(text) == value


def test_the_sources_are_read_by_yaml_alone() -> None:
    for folder in (deepspeed_catalogue.FOLDER, trainer_catalogue.FOLDER):
        for source in folder.glob("*.yaml"):
            assert isinstance(yaml.safe_load(source.read_text()), dict)
