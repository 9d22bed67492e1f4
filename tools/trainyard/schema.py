"""Rendered objects against the schemas of their kinds: one offline kubeconform process for all of them.

kubeconform judges. Where it refuses an object, the same schema is read once more for the fields and the words, since
kubeconform's own list stops at the first reference inside a schema.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any

from trainyard.errors import Fault
from trainyard.fieldpath import Path
from trainyard.finding import Severity
from trainyard.objects import Object
from trainyard.remedy import Remedy
from trainyard.rules.registry import declare
from trainyard.unit import Unit
from trainyard.violation import Violation, field_name, nearest, not_finite, remedy, sentence, violations

VIOLATION = declare(
    "SCH001",
    "schema-violation",
    Severity.ERROR,
    """A field that the API server refuses or drops in silence.

    A misspelt field is the quiet one: `kubectl apply` without strict validation drops it, and the job runs with the
    default. Fields of the wrong type, missing fields and values outside their range stop the sync instead.

    Bad:
        apiVersion: batch/v1
        kind: Job
        spec: {completion: 4, parallelism: "4"}
    Good:
        apiVersion: batch/v1
        kind: Job
        spec: {completions: 4, parallelism: 4}

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#setting-the-field-validation-level
    """,
    fix="safe",
)

UNKNOWN_KIND = declare(
    "SCH002",
    "unknown-kind",
    Severity.WARNING,
    """A kind that schemas/ knows nothing about, so its fields are not checked.

    A misspelt kind or an API version that the cluster no longer serves looks just like this, and the API server refuses
    both. For a kind that does exist, name the module that owns it in schemas/sources.yaml and tools/go/schemas/go.mod,
    and run tools/update-schemas.

    Bad:
        apiVersion: batch/v1beta1
        kind: CronJob
    Good:
        apiVersion: batch/v1
        kind: CronJob

    Source: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
    """,
)

FOREIGN_KIND = declare(
    "SCH007",
    "kind-not-checked",
    Severity.INFO,
    """A kind of a project of which schemas/ holds nothing, so its fields are not checked.

    The API server checks them when it is asked. To have them checked here, name the module that owns the kind in
    schemas/sources.yaml and tools/go/schemas/go.mod, and run tools/update-schemas.

    Bad:
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
    Good:
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet

    Source: https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
    """,
)

OLDER_FIELD = declare(
    "SCH008",
    "field-of-older-release",
    Severity.INFO,
    """A field that an older release of its operator reads, and the release that schemas/ describes does not.

    Which release runs on the cluster of a plain manifest is not known. In a job folder it is, and SCH001 refuses the
    field there.

    Bad:
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        spec: {mlPolicy: {torch: {numProcPerNode: auto}}}
    Good:
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        spec: {mlPolicy: {torch: {}}}

    Source: https://github.com/kubeflow/trainer/releases
    """,
)

_OLDER_FIELDS: Mapping[str, tuple[Path, ...]] = {
    "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime": (
        ("spec", "mlPolicy", "torch", "elasticPolicy"),
        ("spec", "mlPolicy", "torch", "numProcPerNode"),
    ),
    "trainer.kubeflow.org/v1alpha1/TrainingRuntime": (
        ("spec", "mlPolicy", "torch", "elasticPolicy"),
        ("spec", "mlPolicy", "torch", "numProcPerNode"),
    ),
    "trainer.kubeflow.org/v1alpha1/TrainJob": (
        ("spec", "podSpecOverrides"),
        ("spec", "podTemplateOverrides"),
        ("spec", "trainer", "numProcPerNode"),
    ),
}
"""Trainer 2.0 has podSpecOverrides, 2.1 podTemplateOverrides; up to 2.1 numProcPerNode may be a word, and up to 2.2 a
runtime says it."""

OWN_GROUP = "trainyard.dev"
"""Group of the facts. The wiring deletes them, and `jobfile` checks them where they were written."""

KUSTOMIZE = "builtin"
"""apiVersion of what kustomize reads itself: transformers and generators."""

_PLACES = ("kubernetes/{group}/{kind}_{version}.json", "{group}/{kind}_{version}.json")
_LOCATIONS = tuple(
    place.format(group="{{.Group}}", kind="{{.ResourceKind}}", version="{{.ResourceAPIVersion}}") for place in _PLACES
)
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may hold raw and YAML may not."""

_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?\Z")
"""What may become part of a file name."""

_READ_BY_KUBECONFORM = ("apiVersion", "kind", "metadata", "items")
_READ_IN_METADATA = ("name", "namespace", "generateName")

_SAME_GROUP = 0.9
"""How alike the names of two groups are that were meant to be one."""

_BATCH = 256
"""Objects in one file: enough files for every core, few enough to write."""

_SECONDS = 60
_SECONDS_PER_OBJECT = 0.02


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """What the schema of its kind says against an object."""

    unit_index: int
    rule_id: str
    object: Object
    path: Path
    """The wrong field; for a missing one the field that lacks it; `("kind",)` for an unknown kind."""
    message: str
    help: str = ""
    at_key: bool = False
    """True where the field may not be there at all, whatever its value."""
    fix: Remedy | None = None


@dataclass(slots=True)
class _Distinct:
    """One object as kubeconform gets it, and everything that looks just like it."""

    text: str
    data: dict[str, Any]
    schema_file: File
    users: list[tuple[int, Object]] = field(default_factory=list)

    @property
    def identity(self) -> tuple[str, str, str]:
        """(kind, apiVersion, name) as kubeconform's report will name it."""
        metadata = self.data.get("metadata", {})
        name = metadata.get("name", "")
        if "generateName" in metadata:
            name = metadata["generateName"] + "{{ generateName }}"
        return self.data["kind"], self.data["apiVersion"], name

    @property
    def regular(self) -> bool:
        """False where kubeconform would misread it. No schema accepts such an object."""
        metadata = self.data.get("metadata", {})
        return (
            isinstance(metadata, dict)
            and all(isinstance(metadata.get(key, ""), str) for key in _READ_IN_METADATA)
            and not _in_other_case(metadata, _READ_IN_METADATA)
            and not _in_other_case(self.data, _READ_BY_KUBECONFORM)
            and not any(not_finite(self.data))
        )


def check(units: Sequence[Unit], home: File | None = None) -> list[SchemaProblem]:
    """Every problem of every object, by unit, object and path.

    `home` holds schemas/ and .tools/bin/kubeconform; the default is this repository. Fault where kubeconform is
    missing, breaks, hangs or says what cannot be understood.
    """
    home = home or File(__file__).resolve().parents[2]
    schemas = home / "schemas"
    problems: list[SchemaProblem] = []
    distinct: dict[str, _Distinct] = {}
    for unit_index, unit in enumerate(units):
        for rendered in unit.objects:
            if rendered.group == OWN_GROUP or rendered.api_version == KUSTOMIZE:
                continue
            problem = _without_kind(unit_index, rendered)
            schema_file = None if problem else schema_of(schemas, rendered.api_version, rendered.kind)
            if problem is None and schema_file is None:
                problem = _unknown_kind(schemas, unit_index, rendered)
            if problem is not None:
                problems.append(problem)
                continue
            assert schema_file is not None
            text, data = _as_kubernetes_reads(rendered.data, core=schema_file.parts[-3] == "kubernetes")
            distinct.setdefault(text, _Distinct(text, data, schema_file)).users.append((unit_index, rendered))
    refused = [one for one in distinct.values() if not one.regular]
    words: dict[str, str] = {}
    regular = [one for one in distinct.values() if one.regular]
    if regular:
        words = _kubeconform(home / ".tools" / "bin" / "kubeconform", schemas, regular)
        refused += [one for one in regular if one.text in words]
    problems.extend(_explained(refused, words))
    problems = [problem if units[problem.unit_index].is_job else _dated(problem) for problem in problems]
    return sorted(problems, key=lambda p: (p.unit_index, p.object.index))


def _dated(problem: SchemaProblem) -> SchemaProblem:
    """The problem; of a field that an older release has, only as advice."""
    older = _OLDER_FIELDS.get(f"{problem.object.api_version}/{problem.object.kind}", ())
    known = problem.rule_id == VIOLATION.id and any(problem.path[: len(field)] == field for field in older)
    return replace(problem, rule_id=OLDER_FIELD.id) if known else problem


def schema_of(schemas: File, api_version: str, kind: str) -> File | None:
    """The file that describes a kind, or None. Upper and lower case are the schema's to judge."""
    group, version = api_version.split("/")[0], api_version.split("/")[-1]
    if api_version.count("/") > 1 or not all(_NAME.match(part) for part in (group, version, kind)):
        return None
    for place in _PLACES:
        file = schemas / place.format(group=group, version=version, kind=kind.lower())
        if file.is_file():
            return file
    return None


def _without_kind(unit_index: int, rendered: Object) -> SchemaProblem | None:
    for key, value in (("apiVersion", rendered.api_version), ("kind", rendered.kind)):
        if key not in rendered.data:
            return SchemaProblem(unit_index, VIOLATION.id, rendered, (), f'missing required field "{key}"')
        if not value:
            message = f"{key}: expected the name of a Kubernetes {'API' if key == 'apiVersion' else 'kind'}"
            return SchemaProblem(unit_index, VIOLATION.id, rendered, (key,), message)
    return None


def _unknown_kind(schemas: File, unit_index: int, rendered: Object) -> SchemaProblem:
    message = f"no schema for {rendered.kind} of {rendered.api_version}: its fields are not checked"
    known: dict[str, list[File]] = {}
    for file in sorted(schemas.glob("**/*_v*.json")):
        known.setdefault(file.stem.rpartition("_")[0], []).append(file)
    key, advice = "kind", ""
    if not _is_known_group(schemas, rendered.group):
        known = {}
    if same := known.get(rendered.kind.lower()):
        key, advice = "apiVersion", f"known are {', '.join(_type_of(file)[0] for file in same)}"
    elif meant := nearest(rendered.kind, list(known)):
        file = next((file for file in known[meant] if file.parent.name == rendered.group), known[meant][0])
        advice = "did you mean {1} of {0}?".format(*_type_of(file))
    rule = UNKNOWN_KIND if advice or _is_known_group(schemas, rendered.group) else FOREIGN_KIND
    return SchemaProblem(unit_index, rule.id, rendered, (key,), message, advice)


def _is_known_group(schemas: File, group: str) -> bool:
    """Whether schemas/ holds kinds of a group, or of one whose name differs by a letter."""
    if "." not in group or "/" in group:
        return True
    known = [folder.name for folder in (*schemas.iterdir(), *(schemas / "kubernetes").iterdir()) if folder.is_dir()]
    return bool(get_close_matches(group, known, n=1, cutoff=_SAME_GROUP))


def _type_of(schema_file: File) -> tuple[str, str]:
    """(apiVersion, kind) that a schema is for: generated ones list the one value, ours have a constant."""
    properties = json.loads(schema_file.read_bytes())["properties"]
    api_version, kind = (properties[key].get("const") or properties[key]["enum"][0] for key in ("apiVersion", "kind"))
    return api_version, kind


def _in_other_case(fields: Mapping[str, Any], names: Sequence[str]) -> bool:
    """True where a field would pass for one of `names` with Go's JSON reader, which does not mind case."""
    folded = {name.casefold() for name in names}
    return any(key.casefold() in folded and key not in names for key in fields)


def _as_kubernetes_reads(data: dict[str, Any], core: bool) -> tuple[str, dict[str, Any]]:
    """The object's JSON and data without its empty fields.

    Built-in kinds take a field that is null as one that is absent; custom resources do so only in metadata.
    """
    text = _json(data)
    if "null" not in text:
        return text, data
    clean = _without_nulls(data, everywhere=core)
    return _json(clean), clean


def _json(data: Any) -> str:
    """JSON that is YAML too, since kubeconform reads it as such: no surrogate pairs, nothing raw that YAML refuses."""
    text = json.dumps(data, ensure_ascii=False)
    return _NOT_IN_YAML.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _without_nulls(tree: Any, *, everywhere: bool) -> Any:
    if isinstance(tree, dict):
        return {
            key: _without_nulls(value, everywhere=everywhere or key == "metadata")
            for key, value in tree.items()
            if value is not None or not everywhere
        }
    return [_without_nulls(item, everywhere=everywhere) for item in tree] if isinstance(tree, list) else tree


def _kubeconform(binary: File, schemas: File, objects: Sequence[_Distinct]) -> dict[str, str]:
    """kubeconform's words on each object that it refuses, by the object's text."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="trainyard-schema-") as folder:
        batches: dict[str, dict[tuple[str, str, str], _Distinct]] = {}
        for number, batch in enumerate(_batches(objects)):
            file = os.path.join(folder, f"{number:06d}.json")
            batches[file] = batch
            with open(file, "w", encoding="utf-8") as out:
                out.write("\n---\n".join(one.text for one in batch.values()))
        report = _run(binary, schemas, folder, _SECONDS + _SECONDS_PER_OBJECT * len(objects))
        try:
            summary = report["summary"]
            if sum(summary[key] for key in ("valid", "invalid", "errors", "skipped")) != len(objects):
                raise Fault(f"kubeconform judged {summary} of {len(objects)} objects")
            return {
                batches[result["filename"]][result["kind"], result["version"], result["name"]].text: str(result["msg"])
                for result in report["resources"]
            }
        except (KeyError, TypeError) as error:
            raise Fault(f"kubeconform's report is not understood: {error!r}") from error


def _batches(objects: Sequence[_Distinct]) -> Iterator[dict[tuple[str, str, str], _Distinct]]:
    """Objects in groups in which kind, version and name tell them apart."""
    open_batches: list[dict[tuple[str, str, str], _Distinct]] = []
    seen: dict[tuple[str, str, str], int] = {}
    for one in objects:
        place = seen.get(one.identity, 0)
        seen[one.identity] = place + 1
        if place == len(open_batches):
            open_batches.append({})
        open_batches[place][one.identity] = one
    for batch in open_batches:
        items = list(batch.items())
        for start in range(0, len(items), _BATCH):
            yield dict(items[start : start + _BATCH])


def _run(binary: File, schemas: File, folder: str, seconds: float) -> Mapping[str, Any]:
    import subprocess

    locations = [word for location in _LOCATIONS for word in ("-schema-location", location)]
    workers = str(os.cpu_count() or 1)
    command = [str(binary), "-strict", "-summary", "-output", "json", "-n", workers, *locations, folder]
    try:
        done = subprocess.run(command, cwd=schemas, env={}, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"kubeconform did not end within {seconds:.0f} s") from error
    except OSError as error:
        raise Fault(f"kubeconform cannot be started: {error}") from error
    try:
        report = json.loads(done.stdout)
    except ValueError as error:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[:1] or ["it printed no report"]
        raise Fault(f"kubeconform failed with exit code {done.returncode}: {reason[0]}") from error
    if done.returncode not in (0, 1) or not isinstance(report, dict):
        raise Fault(f"kubeconform failed with exit code {done.returncode}")
    return report


def _explained(refused: Sequence[_Distinct], words: Mapping[str, str]) -> Iterator[SchemaProblem]:
    import jsonschema_rs

    validators: dict[File, tuple[Any, dict[str, Any]]] = {}
    for one in refused:
        if one.schema_file not in validators:
            schema = json.loads(one.schema_file.read_bytes())
            validators[one.schema_file] = (jsonschema_rs.validator_for(schema), schema)
        validator, schema = validators[one.schema_file]
        found = violations(validator, schema, one.data)
        if not found and one.text in words:
            found = [Violation((), words[one.text])]
        for unit_index, rendered in one.users:
            for violation in found:
                message = sentence(violation, field_name(one.data, violation.path))
                fix = remedy(violation, rendered.at(*violation.path))
                yield SchemaProblem(
                    unit_index, VIOLATION.id, rendered, violation.path, message, violation.help, violation.at_key, fix
                )
