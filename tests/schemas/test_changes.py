"""What update-schemas says of fields that a newer version has otherwise."""

import json
from pathlib import Path

from trainyard.schema_generation.changes import MOST, changed_fields, field_changes

JOB_SET = Path(__file__).parents[2] / "schemas" / "jobset.x-k8s.io" / "jobset_v1alpha2.json"


def test_a_real_schema_that_gains_loses_and_changes_fields() -> None:
    after = json.loads(JOB_SET.read_text())
    spec = after["properties"]["spec"]["properties"]
    del spec["failurePolicy"]
    spec["suspend"] = {"type": "string"}
    spec["patience"] = {"type": "object", "properties": {"seconds": {"type": "integer"}}}

    assert field_changes(JOB_SET.read_text(), json.dumps(after)) == [
        "- spec.failurePolicy",
        "+ spec.patience",
        '~ spec.suspend: type "boolean" -> "string"',
    ]


def test_a_part_that_is_folded_otherwise_is_no_change() -> None:
    plain = {"properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    folded = {
        "definitions": {"b": {"type": "string"}},
        "properties": {"a": {"type": "object", "properties": {"b": {"$ref": "#/definitions/b"}}}},
    }
    assert field_changes(json.dumps(plain), json.dumps(folded)) == []


def test_a_schema_that_holds_itself_ends() -> None:
    endless = {"definitions": {"a": {"properties": {"a": {"$ref": "#/definitions/a"}}}}, "$ref": "#/definitions/a"}
    assert field_changes(json.dumps(endless), "{}") == []


def test_many_changes_are_counted(tmp_path: Path) -> None:
    old = {"properties": {f"f{number:02}": {"type": "string"} for number in range(MOST + 5)}}
    (tmp_path / "a.json").write_text(json.dumps(old))
    assert changed_fields(tmp_path, {"a.json": "{}", "new.json": "{}"})["a.json"][-2:] == [
        f"- f{MOST - 1:02}",
        "and 5 more",
    ]
