"""job.yaml, fabric.yaml and cluster.yaml against our own schemas, before kustomize runs: the line is still known."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from trainyard.findings.finding import Finding, Fix, Place, Position, Severity
from trainyard.fixes.mender import Mender
from trainyard.home import HOME
from trainyard.objects.objects import Object
from trainyard.rules.registry import declare
from trainyard.schemas.violation import Violation, not_finite, remedy, sentence, validator_of, violations
from trainyard.yaml.fieldpath import Path, format_path
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

INVALID = declare(
    "SCH003",
    "job-file-invalid",
    Severity.ERROR,
    """A TrainingJob, Fabric or Cluster that its schema refuses.

    kustomize would carry a misspelt field nowhere, so the job would train with the default, and it stops at a missing
    field without naming the file. So these files are checked before it runs. It copies integers as they are written, so
    6e5 and 0x10 are none: the trainer would not read them.

    Bad:
        apiVersion: trainyard.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: llama-8b-sft}
        spec: {node: 4, learningRate: 2e-5x}
    Good:
        apiVersion: trainyard.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: llama-8b-sft}
        spec: {nodes: 4, learningRate: 2e-5}

    Source: schemas/trainyard.dev/
    """,
    fix="safe",
)

_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\Z", re.ASCII)
"""An integer that every program reads as YAML does."""
_TRAINERS = "trainer/config.py"
"""Stands in the comment of a field that the trainer itself reads."""
_EXACT = 2**53
"""Floats beyond do not tell which integer was meant."""


def check_facts(node: Node, kind: str, home: File | None = None, sources: Sources | None = None) -> Iterator[Finding]:
    """Everything that the schema of `kind` (TrainingJob, Fabric or Cluster) refuses in a document, by field.

    `home` holds schemas/; the default is the repository of this file. With `sources`, the files that the document was
    read from, findings say how they are fixed. Fault where there is no schema for `kind`.
    """
    home = home or HOME
    validator, schema = validator_of(home / "schemas" / "trainyard.dev" / f"{kind.lower()}_v1alpha1.json")
    document = node.plain()
    found: list[Violation] = []
    if not validator.is_valid(document) or any(not_finite(document)):
        found = violations(validator, schema, document)
    told = {violation.path for violation in found}
    found += [violation for violation in _misread(node, schema) if violation.path not in told]
    if not found:
        return
    title = Object.of(document, 0).title if isinstance(document, dict) else kind
    for violation in found:
        place = Place(title, format_path(document, violation.path), _position(node, violation))
        message = sentence(violation, format_path(document, _author_path(violation.path)))
        fix = None if sources is None else _fix(node, violation, sources)
        yield Finding(INVALID.id, INVALID.name, INVALID.severity, message, place, help=violation.help, fix=fix)


def _misread(node: Node, schema: Mapping[str, Any], path: Path = ()) -> Iterator[Violation]:
    """Integers in a form that the programs do not read to which kustomize copies them, as they are written."""
    if node.tag == "map":
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, child in node.value.items():
            below = fields.get(name, others)
            if isinstance(below, dict):
                yield from _misread(child, below, (*path, name))
    elif node.tag == "seq":
        for index, child in enumerate(node.value):
            yield from _misread(child, schema.get("items", {}), (*path, index))
    elif node.tag == "float" and "integer" in schema.get("type", ()) and node.value.is_integer():
        meant = int(node.value) if abs(node.value) < _EXACT else None
        yield _rewritten(path, f"expected an integer, found the number {node.text}", meant)
    elif node.tag == "int" and "integer" in schema.get("type", ()):
        in_python = _in_python(node.text)
        is_read = in_python == node.value if _TRAINERS in schema.get("$comment", "") else _DECIMAL.match(node.text)
        if not is_read:
            sure = in_python in (None, node.value)  # 017 is fifteen to YAML, and may have been meant as seventeen
            yield _rewritten(path, f"expected an integer in decimal digits, found {node.text}", node.value, sure)


def _in_python(text: str) -> int | None:
    """The integer that Python's int() makes of a text of at most 80 characters, or None where it refuses it."""
    try:
        return int(text)
    except ValueError:
        return None


def _rewritten(path: Path, message: str, meant: int | None, sure: bool = True) -> Violation:
    return Violation(path, message, "" if meant is None else f"write {meant}", instead=meant, sure=sure)


def _fix(node: Node, violation: Violation, sources: Sources) -> Fix | None:
    mend = Mender(node, sources)
    found = remedy(violation, mend.document.at(*violation.path)) if isinstance(node.value, dict) else None
    return None if found is None else mend(found, violation.help)


def _author_path(path: Path) -> Path:
    """The path as people say it: everything they set is under `spec`, so that goes without saying."""
    return path[1:] if len(path) > 1 and path[0] == "spec" else path


def _position(root: Node, violation: Violation) -> Position | None:
    """The value that is wrong; the key where the field may not be there, or where something under it is missing."""
    node = root.at(violation.path)
    if node is None:
        return root.mark
    if violation.at_key or isinstance(node.value, dict | list):
        return node.key_mark or node.mark
    return node.mark
