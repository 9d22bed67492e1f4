"""job.yaml and the fact sheets against our own schemas, with the lines."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from tests.schemas.conftest import HERE, HOME, Snapshot
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
