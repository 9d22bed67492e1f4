"""job.yaml and the fact sheets against our own schemas, with the lines."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from tests.schemas.conftest import HERE, HOME, Snapshot
from trainer import sources
from trainer.errors import ConfigError
from trainer.sources import KEYS
from trainyard.errors import Fault
from trainyard.findings.finding import Finding, Severity
from trainyard.kustomize.jobfile import check_facts
from trainyard.yaml.nodes import load_documents

OWN = sorted((HOME / "schemas/trainyard.dev").glob("*.json"))
JOBS = sorted(HOME.glob("jobs/*/*/job.yaml"))
FABRICS = sorted(HOME.glob("overlays/*/fabric.yaml"))
CLUSTERS = sorted(HOME.glob("clusters/*/facts/cluster.yaml"))
WRONG = sorted((HERE / "facts").glob("*.yaml"))
FACTS = [
    *((file, "TrainingJob") for file in [*JOBS, *WRONG]),
    *((file, "Fabric") for file in FABRICS),
    *((file, "Cluster") for file in CLUSTERS),
]


def findings(file: Path, kind: str) -> list[Finding]:
    (document,) = load_documents(file.read_text(), file.name)
    return list(check_facts(document, kind))


def as_text(found: list[Finding]) -> str:
    """A compiler's list: place, rule and message, the field path and the help."""
    lines = []
    for finding in found:
        position = finding.place.position
        assert position is not None
        lines.append(f"{position.file}:{position.line}:{position.column} +{position.length} {finding.message}")
        lines.append(f"    {finding.place.object} {finding.place.path}".rstrip())
        if finding.help:
            lines.append(f"    help: {finding.help}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_each_mistake_is_named_at_its_line(file: Path, snapshot: Snapshot) -> None:
    found = findings(file, "TrainingJob")
    assert {(finding.rule, finding.name, finding.severity) for finding in found} == {
        ("SCH003", "job-file-invalid", Severity.ERROR)
    }
    snapshot(f"fact-{file.stem}.txt", as_text(found))


@pytest.mark.parametrize(("file", "kind"), [pair for pair in FACTS if pair[0] not in WRONG], ids=str)
def test_the_repository_s_own_facts_are_clean(file: Path, kind: str) -> None:
    assert findings(file, kind) == []


def test_a_learning_rate_without_a_dot_is_a_number() -> None:
    """PyYAML would read it as a string; Kubernetes does not."""
    text = (
        "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"
        "spec: {nodes: 4, learningRate: 2e-5}\n"
    )
    (document,) = load_documents(text, "job.yaml")
    assert list(check_facts(document, "TrainingJob")) == []


def test_a_kind_without_schema_is_a_fault_of_ours(tmp_path: Path) -> None:
    (document,) = load_documents("kind: Fabric\n", "fabric.yaml")
    with pytest.raises(Fault, match=r"fabric_v1alpha1\.json is not a usable JSON Schema"):
        list(check_facts(document, "Fabric", tmp_path))


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
def test_our_schemas_are_schemas_and_their_defaults_fit(file: Path) -> None:
    schema = json.loads(file.read_bytes())
    jsonschema.Draft7Validator.check_schema(schema)
    for part in parts(schema):
        for example in [*([part["default"]] if "default" in part else []), *part.get("examples", [])]:
            assert jsonschema_rs.validator_for({**part, "definitions": schema.get("definitions", {})}).is_valid(example)


@pytest.mark.parametrize(("file", "kind"), FACTS, ids=str)
def test_two_readers_agree(file: Path, kind: str) -> None:
    """jsonschema and jsonschema-rs find the same faults at the same places in good and in wrong facts."""
    schema = json.loads((HOME / f"schemas/trainyard.dev/{kind.lower()}_v1alpha1.json").read_bytes())
    (node,) = load_documents(file.read_text(), file.name)
    document: Any = node.plain()
    if isinstance(document, dict) and "seed" in document.get("spec", {}):
        document["spec"].pop("seed")  # an infinity is not JSON: each reader takes it for something else
    slow = [
        (list(error.absolute_path), error.validator)
        for error in jsonschema.Draft7Validator(schema).iter_errors(document)
    ]
    fast = [
        (error.instance_path, reader_name(error)) for error in jsonschema_rs.validator_for(schema).iter_errors(document)
    ]
    assert sorted(fast, key=str) == sorted(slow, key=str)


def reader_name(error: Any) -> str:
    """jsonschema names the keyword inside propertyNames, jsonschema-rs the keyword itself."""
    name: str = error.kind.error.kind.name if error.kind.name == "propertyNames" else error.kind.name
    return name


def parts(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for item in schema for part in parts(item)]
    if not isinstance(schema, dict):
        return []
    below = [
        part for key, value in schema.items() if key not in ("default", "examples", "enum") for part in parts(value)
    ]
    return [schema, *below] if "type" in schema or "enum" in schema else below


FORMS: dict[str, Callable[[int], str]] = {
    "plain": str,
    "float": lambda value: f"{value}.0",
    "exponent": lambda value: f"{value}e0",
    "thousands": lambda value: f"{value / 1000:.3f}e3",
    "underscore": lambda value: f"{str(value)[0]}_{str(value)[1:]}",
    "underscore at the end": lambda value: f"{value}_",
    "plus": lambda value: f"+{value}",
    "hexadecimal": hex,
    "octal": oct,
    "octal of YAML 1.1": lambda value: f"0{value:o}",
    "binary": bin,
    "tagged float": lambda value: f"!!float {value}",
    "quoted, tagged": lambda value: f'!!int "{value}"',
}


def integers(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that holds an integer, by its path below the schema."""
    for name, below in schema.get("properties", {}).items():
        if "integer" in below.get("type", ()):
            yield f"{path}{name}", below
        yield from integers(below, f"{path}{name}.")


def written(path: str, text: str) -> str:
    """A TrainingJob in which one field below spec is written in that way."""
    beside = ", rule: linear, baseLearningRate: 1e-3" if path == "learningRateScaling.baseBatch" else ""
    for name in reversed(path.split(".")):
        text = f"{{{name}: {text}{beside}}}"
        beside = ""
    return f"apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: a}}\nspec: {text}\n"


JOB_SCHEMA = json.loads((HOME / "schemas/trainyard.dev/trainingjob_v1alpha1.json").read_bytes())
INTEGERS = dict(integers(JOB_SCHEMA["properties"]["spec"]))
TRAINERS = {known.job: known for known in KEYS.values() if known.job in INTEGERS}


def trainer_reads(path: str, text: str) -> int | None:
    """What the trainer makes of the text that the wiring copies to its variable."""
    try:
        config = sources.dump(sources.read([], {TRAINERS[path].variable: text}))
    except ConfigError:
        return None
    value: int = config[TRAINERS[path].name]
    return value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", INTEGERS)
def test_an_integer_is_written_as_what_reads_it_reads_it(path: str, form: str) -> None:
    """kustomize copies the text: the trainer's own parser judges its keys, and the others are to be in plain digits."""
    value = max(12, INTEGERS[path].get("minimum", 0))
    (document,) = load_documents(written(path, FORMS[form](value)), "job.yaml")
    node = document.at(("spec", *path.split(".")))
    assert node is not None
    is_read = trainer_reads(path, node.text) == value if path in TRAINERS else node.text == str(value)
    is_integer = node.tag == "int"

    found = list(check_facts(document, "TrainingJob"))

    assert [finding.rule for finding in found] == ([] if is_read and is_integer else ["SCH003"])
    for finding in found:
        assert finding.place.path == f"spec.{path}"
        assert finding.place.position == node.mark
        assert finding.help == f"write {value}"


@pytest.mark.parametrize(("kind", "file"), [("Cluster", CLUSTERS[0]), ("Fabric", FABRICS[0])])
def test_integers_of_a_cluster_and_a_fabric_are_held_to_it(kind: str, file: Path) -> None:
    text = re.sub(r"^( +[\w./-]+: )([1-9][0-9]*)( *(?:#.*)?)$", r"\1\2.0\3", file.read_text(), flags=re.MULTILINE)
    (document,) = load_documents(text, file.name)

    found = list(check_facts(document, kind))

    assert found
    assert {finding.message.partition(":")[2] for finding in found} <= {
        f" expected an integer, found the number {value}.0" for value in range(1, 5000)
    }
