"""job.yaml, fabric.yaml and cluster.yaml against our own schemas, before kustomize runs: the line is still known."""

from collections.abc import Iterator
from pathlib import Path as File

from trainyard.findings.finding import Finding, Fix, Place, Position, Severity
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
    field without naming the file. So these files are checked before it runs.

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


def check_facts(node: Node, kind: str, home: File | None = None, sources: Sources | None = None) -> Iterator[Finding]:
    """Everything that the schema of `kind` (TrainingJob, Fabric or Cluster) refuses in a document, by field.

    `home` holds schemas/; the default is the repository of this file. With `sources`, the files that the document was
    read from, findings say how they are fixed. Fault where there is no schema for `kind`.
    """
    home = home or HOME
    validator, schema = validator_of(home / "schemas" / "trainyard.dev" / f"{kind.lower()}_v1alpha1.json")
    document = node.plain()
    if validator.is_valid(document) and not any(not_finite(document)):
        return
    title = Object.of(document, 0).title if isinstance(document, dict) else kind
    for violation in violations(validator, schema, document):
        place = Place(title, format_path(document, violation.path), _position(node, violation))
        message = sentence(violation, format_path(document, _author_path(violation.path)))
        fix = None if sources is None else _fix(node, violation, sources)
        yield Finding(INVALID.id, INVALID.name, INVALID.severity, message, place, help=violation.help, fix=fix)


def _fix(node: Node, violation: Violation, sources: Sources) -> Fix | None:
    from trainyard.fixes.mender import Mender

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
