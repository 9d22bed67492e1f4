"""Rendered objects against the schemas of their kinds, read once a run and judged in this process.

A test holds every verdict equal to kubeconform's, which reads the same schemas with another library.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path as File
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.home import HOME
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Remedy
from trainyard.objects.unit import Unit
from trainyard.rules.registry import declare
from trainyard.schemas.expressions import RULES, broken_rules
from trainyard.schemas.filledin import FILLED, is_filled_in
from trainyard.schemas.violation import (
    Violation,
    field_name,
    nearest,
    not_finite,
    remedy,
    sentence,
    validator_of,
    violations,
)
from trainyard.yaml.fieldpath import Path, lookup

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

NULL_FIELD = declare(
    "SCH009",
    "field-without-value",
    Severity.WARNING,
    """A field of a custom resource stands without a value.

    What comes of it depends on the way that it is applied. `kubectl create`, `kubectl apply`, `helm install` and Argo
    CD's default leave the field out, and with it what its author meant to write. Server-side apply, which Flux uses, is
    refused unless the field has a default. In a job folder SCH001 says it.

    Bad:
        apiVersion: ray.io/v1
        kind: RayCluster
        spec: {headGroupSpec: {template: {metadata: null, spec: {containers: []}}}}
    Good:
        apiVersion: ray.io/v1
        kind: RayCluster
        spec: {headGroupSpec: {template: {metadata: {}, spec: {containers: []}}}}

    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting-and-nullable
    """,
)

BROKEN_RULE = declare(
    "SCH010",
    "validation-rule-broken",
    Severity.ERROR,
    """Fields that a custom resource's definition does not allow together, or a value that it refuses.

    Beside the types of its fields, a definition brings rules that the API server asks of every new object. The message
    is the definition's own. An object that breaks one is not created, and a sync stops there. Rules are asked of
    objects in which nothing else is wrong.

    Bad:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        spec:
          cohortName: research
          preemption: {reclaimWithinCohort: Never, borrowWithinCohort: {policy: LowerPriority}}
    Good:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        spec:
          cohortName: research
          preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}
    Near miss:
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        spec:
          cohortName: research
          preemption: {borrowWithinCohort: {}} # the policy that is filled in is Never

    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
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
_FACTS = ("Cluster", "Fabric", "TrainingJob")
"""Kinds of ours that the wiring deletes. `jobfile` checks them where they were written."""

KUSTOMIZE = "builtin"
"""apiVersion of what kustomize reads itself: transformers and generators."""

_PLACES = ("kubernetes/{group}/{kind}_{version}.json", "{group}/{kind}_{version}.json")

_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?\Z")
"""What may become part of a file name."""

_BY_HAND = "by hand"
"""How the comment of a schema begins that was written without a definition: it has the fields that are set here."""

_SAME_GROUP = 0.9
"""How alike the names of two groups are that were meant to be one."""


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
    is_missing: bool = False
    """True where a required field is not there."""
    severity: Severity | None = None
    """The rule's own, where it is None."""


def check(units: Sequence[Unit], home: File | None = None) -> list[SchemaProblem]:
    """Every problem of every object, by unit, object and path.

    `home` holds schemas/; the default is this repository. Fault where a schema cannot be used.
    """
    schemas = (home or HOME) / "schemas"
    return [
        problem
        for index, unit in enumerate(units)
        for rendered in unit.objects
        if is_for_the_server(rendered)
        for problem in _problems(schemas, index, rendered, unit.is_job, unit.is_synced)
    ]


def is_for_the_server(rendered: Object) -> bool:
    """Whether an API server reads the object as it is: no fact, nothing of kustomize's own, nothing encrypted."""
    return not _is_fact(rendered) and rendered.api_version != KUSTOMIZE and not _is_encrypted(rendered)


def _is_fact(rendered: Object) -> bool:
    return rendered.group == OWN_GROUP and rendered.kind in _FACTS


def _is_encrypted(rendered: Object) -> bool:
    """Whether SOPS wrote the object, which Flux decrypts before it applies it: its values are ciphertext."""
    sops = rendered.data.get("sops")
    return isinstance(sops, dict) and "mac" in sops


def _dated(problem: SchemaProblem) -> SchemaProblem:
    """The problem; of a field that an older release has, only as advice."""
    older = _OLDER_FIELDS.get(f"{problem.object.api_version}/{problem.object.kind}", ())
    known = problem.rule_id == VIOLATION.id and any(problem.path[: len(field)] == field for field in older)
    return replace(problem, rule_id=OLDER_FIELD.id) if known else problem


def _problems(
    schemas: File, unit_index: int, rendered: Object, is_job: bool, is_synced: bool
) -> Iterator[SchemaProblem]:
    problem = _without_kind(unit_index, rendered)
    if problem is not None:
        yield problem
        return
    schema_file = schema_of(schemas, rendered.api_version, rendered.kind)
    if schema_file is None:
        yield _unknown_kind(schemas, unit_index, rendered)
        return
    data, text = rendered.data, json.dumps(rendered.data, ensure_ascii=False)
    if "null" in text:
        data = _without_nulls(data, everywhere=schema_file.parts[-3] == "kubernetes")
    validator, schema = validator_of(schema_file)
    # The validator takes a NaN and an infinity, which YAML can write, for null.
    is_json = not ("NaN" in text or "Infinity" in text) or not any(not_finite(data))
    found = [] if is_json and validator.is_valid(data) else violations(validator, schema, data)
    if found and not is_job and "null" in text:
        nulls = list(dict.fromkeys(violation.path for violation in found if _is_null_field(data, violation)))
        data = _without(data, nulls)
        found = violations(validator, schema, data)
        missing = {(*violation.path, violation.needed) for violation in found if not violation.at_key}
        yield from (_null_field(unit_index, rendered, path) for path in nulls if path not in missing)
    if not found and _has_rules(schema_file):
        for broken in broken_rules(schema, data, is_final=is_synced):
            name = field_name(data, broken.path)
            message = f"{name}: {broken.message}" if name else broken.message
            yield SchemaProblem(unit_index, BROKEN_RULE.id, rendered, broken.path, message)
    ours_alone = not is_synced and str(schema.get("$comment", "")).startswith(_BY_HAND)
    for violation in found:
        if ours_alone and violation.at_key and not violation.needed:
            continue
        message = sentence(violation, field_name(data, violation.path))
        fix = remedy(violation, rendered.at(*violation.path))
        problem = SchemaProblem(
            unit_index,
            VIOLATION.id,
            rendered,
            violation.path,
            message,
            violation.help,
            violation.at_key,
            fix,
            is_missing=bool(violation.needed) and not violation.at_key,
        )
        if not is_synced and not violation.at_key and is_filled_in(lookup(data, violation.path)):
            problem = replace(problem, severity=Severity.INFO, help=FILLED)
        yield problem if is_job else _dated(problem)


@cache
def _has_rules(schema_file: File) -> bool:
    return RULES.encode() in schema_file.read_bytes()


def _is_null_field(data: Any, violation: Violation) -> bool:
    """Whether the violation is a field without a value, which the API server leaves out where it creates objects."""
    is_field = violation.path and isinstance(violation.path[-1], str) and not violation.at_key
    return bool(is_field) and not violation.needed and lookup(data, violation.path) is None


def _null_field(unit_index: int, rendered: Object, path: Path) -> SchemaProblem:
    name = field_name(rendered.data, path)
    message = f"{name} has no value: create leaves the field out, and server-side apply refuses it without a default"
    return SchemaProblem(unit_index, NULL_FIELD.id, rendered, path, message, "write a value, or remove the field")


def _without(data: Any, paths: Sequence[Path]) -> Any:
    """A copy without some fields."""
    if not paths:
        return data
    copy = deepcopy(data)
    for path in paths:
        del lookup(copy, path[:-1])[path[-1]]
    return copy


@lru_cache(maxsize=1024)
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
    is_own = _is_known_group(schemas, rendered.group)
    if not is_own:
        known = {}
    if same := known.get(rendered.kind.lower()):
        key, advice = "apiVersion", f"known are {', '.join(_type_of(file)[0] for file in same)}"
    elif meant := nearest(rendered.kind, [kind for kind, files in known.items() if _may_be_meant(rendered, files)]):
        file = next((file for file in known[meant] if file.parent.name == rendered.group), known[meant][0])
        advice = "did you mean {1} of {0}?".format(*_type_of(file))
    rule = UNKNOWN_KIND if advice or (is_own and not _is_of_projects(rendered.group)) else FOREIGN_KIND
    return SchemaProblem(unit_index, rule.id, rendered, (key,), message, advice)


def _may_be_meant(rendered: Object, files: Sequence[File]) -> bool:
    """Whether a kind may be a misspelt one of these: a project's, of which we hold some, only one of its own group."""
    return not _is_of_projects(rendered.group) or any(file.parent.name == rendered.group for file in files)


def _is_of_projects(group: str) -> bool:
    """Whether a group is not Kubernetes' own, of which schemas/ holds every kind."""
    return "." in group and "/" not in group and not group.endswith(".k8s.io")


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


def _without_nulls(tree: Any, *, everywhere: bool) -> Any:
    """What Kubernetes reads: built-in kinds take a null as an absent field everywhere, others in metadata only."""
    if isinstance(tree, dict):
        return {
            key: _without_nulls(value, everywhere=everywhere or key == "metadata")
            for key, value in tree.items()
            if value is not None or not everywhere
        }
    return [_without_nulls(item, everywhere=everywhere) for item in tree] if isinstance(tree, list) else tree
