"""Manifests name their schemas for editors, as `tools/update-docs` writes it."""

import pytest

from trainyard.docs.schema_headers import MARK, files, headed
from trainyard.home import HOME

FILE = HOME / "base" / "team" / "new.yaml"
SERVICE = f"{MARK}../../schemas/kubernetes/v1/service_v1.json\n"
WHOLE = "# What it is for.\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
PART = "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"
JOB = f"{MARK}../../schemas/trainyard.dev/trainingjob_v1alpha1.json\n"


def test_every_manifest_names_its_schema() -> None:
    assert [str(file.relative_to(HOME)) for file in files() if headed(file.read_text(), file) != file.read_text()] == []


def test_the_schemas_that_are_named_are_there() -> None:
    named = [
        (file, line.removeprefix(MARK))
        for file in files()
        for line in file.read_text().splitlines()
        if line.startswith(MARK)
    ]
    assert len(named) > 140
    assert [str(file) for file, schema in named if not (file.parent / schema).is_file()] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WHOLE, SERVICE + WHOLE),
        (SERVICE + WHOLE, SERVICE + WHOLE),
        (f"{MARK}service_v1.json\n{WHOLE}", SERVICE + WHOLE),
        (f"{WHOLE}---\n{WHOLE}", f"{SERVICE}{WHOLE}---\n{SERVICE}{WHOLE}"),
        (PART, PART),
        (f"{MARK}elsewhere.json\n{PART}", JOB + PART),
        (f"{SERVICE}- op: remove\n  path: /spec\n", "- op: remove\n  path: /spec\n"),
        ("kind: Kustomization\n", "kind: Kustomization\n"),
        (f"# Written by a program.\n{WHOLE}", f"# Written by a program.\n{WHOLE}"),
    ],
)
def test_the_line_stands_above_each_document_that_its_schema_takes(before: str, after: str) -> None:
    assert headed(before, FILE) == after
