"""From the dialects of the sources to JSON Schema, and back from the repository's files to the pinned modules."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.schemas.conftest import HOME
from trainyard.errors import Fault
from trainyard.schema_generation.fold import fold, to_text
from trainyard.schema_generation.generated import MARK, drift, generate, write
from trainyard.schema_generation.sources import download, read_sources
from trainyard.schema_generation.structure import QUANTITY, StructureError, core, custom

CONTAINER: dict[str, Any] = {
    "description": "Prose that must not come along.",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "default": ""},
        "port": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
        "memory": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}],
            "default": {},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
        "data": {"type": "object", "description": "Anything."},
        "since": {"type": "string", "format": "date-time"},
    },
}


def test_core_types() -> None:
    types = {"Pod": {"type": "object", "properties": {"main": {"$ref": "#/components/schemas/C"}}}, "C": CONTAINER}
    assert core(types, "Pod") == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "main": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "port": {"type": ["integer", "string"]},
                    "memory": {"type": ["number", "string"], "pattern": QUANTITY},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "data": {"type": "object"},
                    "since": {"type": "string"},
                },
            }
        },
    }


def test_custom_resources() -> None:
    schema = {
        "type": "object",
        "required": ["protocol", "name"],
        "x-kubernetes-validations": [{"rule": "self.name != ''"}],
        "properties": {
            "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
            "name": {"type": "string", "nullable": True, "maxLength": 63},
            "memory": {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+$",
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "pod": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"kind": {"type": "string"}},
            },
            "marker": {"type": "object"},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        },
    }
    assert custom(schema, "Port") == {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "x-kubernetes-validations": [{"rule": "self.name != ''"}],
        "properties": {
            "protocol": {"type": "string", "enum": ["TCP", "UDP"]},
            "name": {"type": ["null", "string"], "maxLength": 63},
            "memory": {"type": ["integer", "string"], "pattern": "^[0-9]+$"},
            "free": {"type": "object"},
            "pod": {"type": "object", "properties": {"kind": {"type": "string"}}},
            "marker": {"type": "object", "additionalProperties": False},
            "any": {},
        },
    }


def test_a_required_field_that_a_webhook_fills_is_not_required() -> None:
    named = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    schema = {"type": "object", "properties": {"rules": {"type": "array", "items": named}, "owner": named}}

    rules, owner = custom(schema, "Policy", frozenset({"Policy.rules[].name"}))["properties"].values()

    assert "required" not in rules["items"]
    assert owner["required"] == ["name"]


def test_rules_of_new_objects_come_with_the_defaults_that_they_read() -> None:
    rule = {"rule": "self.range.low <= self.range.high", "message": "upside down", "fieldPath": ".range"}
    change = {"rule": "self.range == oldSelf.range"}
    number = {"type": "integer", "default": 1}
    between = {"type": "object", "default": {}, "properties": {"low": number, "high": number, "step": number}}
    elsewhere = {"type": "object", "properties": {"low": number}}
    schema = {
        "type": "object",
        "x-kubernetes-validations": [change, rule | {"reason": "FieldValueInvalid"}],
        "properties": {"range": between, "elsewhere": elsewhere},
    }

    made = custom(schema, "Thing")

    assert made["x-kubernetes-validations"] == [rule]
    assert made["properties"]["range"] == {
        "type": "object",
        "additionalProperties": False,
        "default": {},
        "properties": {"low": number, "high": number, "step": {"type": "integer"}},
    }
    assert made["properties"]["elsewhere"]["properties"] == {"low": {"type": "integer"}}


@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "quantity(self.memory).isGreaterThan(quantity('1Gi'))"},
        {"rule": "self.max__dash__nodes > 1"},
        {"rule": "self.nodes > 1", "messageExpression": "self.nodes.format('%d')"},
        {"rule": "oldSelf.hasValue() || self.nodes > 1", "optionalOldSelf": True},
    ],
)
def test_a_rule_that_cannot_be_judged_stops_the_generator(rule: dict[str, Any]) -> None:
    schema = {"properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule]}}}
    with pytest.raises(StructureError, match=r"Thing\.spec: no translation for the rule "):
        custom(schema, "Thing")


@pytest.mark.parametrize(
    ("go", "ours"),
    [
        ("^[a-z]+$", "^[a-z]+$"),
        ("^(?i)(on|off)?$", "^([oO][nN]|[oO][fF][fF])?$"),
        ("^(?i)[a-z]([-a-z0-9]*[x\\]])\\d?$", "^[a-zA-Z]([-a-z0-9A-Z]*[x\\]X])\\d?$"),
    ],
)
def test_patterns_that_mind_no_case(go: str, ours: str) -> None:
    assert custom({"type": "string", "pattern": go}, "Word") == {"type": "string", "pattern": ours}


def test_a_keyword_without_translation_stops_the_generator() -> None:
    schema = {"properties": {"spec": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}}
    with pytest.raises(StructureError, match=r"Thing\.spec: no translation for oneOf"):
        custom(schema, "Thing")


def test_repeated_parts_are_written_once() -> None:
    probe = {"type": "object", "properties": {f"field{n}": {"type": "integer"} for n in range(20)}}
    container = {"type": "object", "properties": {"livenessProbe": probe, "readinessProbe": probe}}
    pod = {
        "type": "object",
        "properties": {
            "containers": {"type": "array", "items": container},
            "initContainers": {"type": "array", "items": container},
            "name": {"type": "string"},
        },
    }
    assert fold(pod) == {
        "type": "object",
        "properties": {
            "containers": {"$ref": "#/definitions/containers"},
            "initContainers": {"$ref": "#/definitions/containers"},
            "name": {"type": "string"},
        },
        "definitions": {
            "containers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "livenessProbe": {"$ref": "#/definitions/livenessProbe"},
                        "readinessProbe": {"$ref": "#/definitions/livenessProbe"},
                    },
                },
            },
            "livenessProbe": probe,
        },
    }


def test_names_of_repeated_parts_do_not_collide() -> None:
    def limits(unit: str) -> dict[str, Any]:
        return {"type": "object", "properties": {f"{unit}{n}": {"type": "integer"} for n in range(20)}}

    def pair(unit: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"limits": limits(unit), "requests": limits(unit)}}

    folded = fold({"type": "object", "properties": {"cpu": pair("cpu"), "gpu": pair("gpu")}})
    assert sorted(folded["definitions"]) == ["limits", "limits2"]
    assert folded["properties"]["gpu"]["properties"]["requests"] == {"$ref": "#/definitions/limits2"}


def test_text_is_a_line_where_a_line_is_enough() -> None:
    assert to_text(
        {"type": "object", "properties": {"b": {"enum": ["x" * 60, "y" * 60]}, "a": {"type": "string"}}}
    ) == (
        '{\n "properties": {\n  "a": {"type": "string"},\n  "b": {\n   "enum": [\n'
        f'    "{"x" * 60}",\n    "{"y" * 60}"\n   ]\n  }}\n }},\n "type": "object"\n}}\n'
    )


def test_drift_and_write(tmp_path: Path) -> None:
    ours = tmp_path / "trainyard.dev" / "fabric_v1alpha1.json"
    ours.parent.mkdir()
    ours.write_text("{}")
    old = {"a/job_v1.json": f'{{"$comment": "{MARK}a"}}\n', "b/pod_v1.json": f'{{"$comment": "{MARK}b"}}\n'}
    write(tmp_path, old)
    assert drift(tmp_path, old) == []
    new = {"a/job_v1.json": old["a/job_v1.json"] + "\n", "c/queue_v1.json": f'{{"$comment": "{MARK}c"}}\n'}
    assert drift(tmp_path, new) == ["changed a/job_v1.json", "missing c/queue_v1.json", "stale b/pod_v1.json"]
    write(tmp_path, new)
    assert drift(tmp_path, new) == []
    assert ours.read_text() == "{}"
    assert not (tmp_path / "b/pod_v1.json").exists()


@pytest.mark.parametrize("text", ["[]", "kubernetes: {}", "customResources: 3", "{"])
def test_sources_of_another_shape_are_a_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.yaml").write_text(text)
    with pytest.raises(Fault, match="cannot be read as a list of schema sources"):
        read_sources(tmp_path / "sources.yaml")


def pinned_home(tmp_path: Path, sources: str, go_sum: str = "") -> Path:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/sources.yaml").write_text(sources)
    pins = tmp_path / "tools/go/schemas"
    pins.mkdir(parents=True)
    (pins / "go.mod").write_text("module pins\n\ngo 1.26.0\n")
    (pins / "go.sum").write_text(go_sum)
    return tmp_path


def test_a_module_that_is_not_pinned_is_a_fault(tmp_path: Path) -> None:
    home = pinned_home(
        tmp_path, "kubernetes: {module: k8s.io/kubernetes, folder: api, groupVersions: [v1]}\ncustomResources: []\n"
    )
    with pytest.raises(Fault, match=r"go\.mod does not pin k8s\.io/kubernetes"):
        generate(home)


def test_a_missing_go_is_a_fault(tmp_path: Path) -> None:
    home = pinned_home(
        tmp_path, "kubernetes: {module: k8s.io/kubernetes, folder: api, groupVersions: [v1]}\ncustomResources: []\n"
    )
    with pytest.raises(Fault, match=r"the schema sources do not download: .*no-such-go"):
        generate(home, "no-such-go")


@pytest.mark.slow_build
def test_the_repository_holds_what_the_pinned_modules_give() -> None:
    command = [sys.executable, "-m", "trainyard.schema_generation", "--check"]
    done = subprocess.run(command, cwd=HOME / "tools", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


NETWORKS = "github.com/k8snetworkplumbingwg/network-attachment-definition-client"
NETWORK_SOURCES = f"""
kubernetes: {{module: {NETWORKS}, folder: api, groupVersions: []}}
customResources: [{{module: {NETWORKS}, files: [artifacts/networks-crd.yaml]}}]
"""
(OF_ITS_GO_MOD,) = (
    line
    for line in (HOME / "tools/go/schemas/go.sum").read_text().splitlines(keepends=True)
    if line.startswith(NETWORKS) and "/go.mod " in line
)
"""Go asks for no more than this while nobody builds from the module."""


@pytest.mark.slow_build
@pytest.mark.parametrize(
    ("go_sum", "message"),
    [
        ("", "does not pin all of go.mod"),
        (OF_ITS_GO_MOD, "does not pin all of go.mod"),
        (f"{NETWORKS} v1.7.7 h1:{'0' * 43}=\n", "checksum mismatch"),
    ],
)
def test_a_download_that_go_sum_does_not_vouch_for_is_refused(tmp_path: Path, go_sum: str, message: str) -> None:
    home = pinned_home(tmp_path, NETWORK_SOURCES, go_sum)
    pins = home / "tools/go/schemas"
    (pins / "go.mod").write_text(f"module pins\n\ngo 1.26.0\n\nrequire {NETWORKS} v1.7.7\n")
    with pytest.raises(Fault) as caught:
        generate(home)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (pins / "go.sum").read_text() == go_sum


def test_a_version_that_another_module_lifts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go takes the higher one without a word: schemas would be of another version than go.mod says."""
    lifted = "require example.com/low v1.1.0"
    for name, version, needs in (("low", "v1.0.0", ""), ("low", "v1.1.0", ""), ("high", "v1.0.0", lifted)):
        folder, module = tmp_path / f"proxy/example.com/{name}/@v", f"example.com/{name}"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"module {module}\n\ngo 1.26.0\n\n{needs}\n"
        (folder / f"{version}.info").write_text(f'{{"Version": "{version}"}}')
        (folder / f"{version}.mod").write_text(text)
        with zipfile.ZipFile(folder / f"{version}.zip", "w") as packed:
            packed.writestr(f"{module}@{version}/go.mod", text)
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path}/proxy")
    monkeypatch.setenv("GONOSUMDB", "*")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    pins = tmp_path / "pins"
    pins.mkdir()
    (pins / "go.mod").write_text(
        "module pins\n\ngo 1.26.0\n\nrequire (\n\texample.com/high v1.0.0\n\texample.com/low v1.0.0\n)\n"
    )
    (pins / "go.sum").write_text("")

    with pytest.raises(Fault, match=r"go\.mod pins example\.com/low v1\.0\.0, but another module needs v1\.1\.0"):
        download("go", pins, ("example.com/low", "example.com/high"))
