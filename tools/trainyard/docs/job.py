"""docs/job.md: each key of job.yaml, read from its schema, the wiring, the trainer's keys and the rules."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from trainyard.catalogues.settings import SET
from trainyard.docs.claims import unbound
from trainyard.docs.generated import told, update
from trainyard.docs.pages import link
from trainyard.errors import Fault
from trainyard.home import HOME
from trainyard.kustomize.wiring import fills
from trainyard.objects.unit import Unit
from trainyard.rules.examples import examples
from trainyard.rules.index import all_rules, problems
from trainyard.workload.of_unit import workloads

PAGE = HOME / "docs" / "job.md"
SCHEMA = HOME / "schemas" / "trainyard.dev" / "trainingjob_v1alpha1.json"
TABLE = HOME / "base" / "wiring" / "table.yaml"

HEAD = """\
# job.yaml

Written by `tools/update-docs` from the schema of a TrainingJob, the wiring, the trainer's keys and the rules. It has
every key of job.yaml.<!-- claim: job-page-has-every-key --> A job folder has two files: `job.yaml`, and a
`kustomization.yaml` that names base, cluster and components. job.yaml is merged into the defaults of the base, so it
says what differs:

    apiVersion: trainyard.dev/v1alpha1
    kind: TrainingJob
    metadata:
      name: my-run
    spec:
      nodes: 4
      batch: {micro: 5, accumulation: 3, global: 480}

Editors show the same while you type, from the line `# yaml-language-server: $schema=` that `tools/new-job` writes.

- **Sets** lists what the [wiring](architecture.md) fills from the key. What is set in the PodTemplate reaches the pods
  of the job's kind.
- **Read by** lists the rules that read the key when they run on the examples of their own pages. Other rules read what
  the wiring makes of it: the [list of rules](rules/README.md) has them.

## Keys
"""

UNITS = {
    "spec.nodes": "nodes",
    "spec.gpusPerNode": "ranks",
    "spec.learningRateScaling.baseBatch": "samples",
    "spec.checkpoint.size": "bytes, with a suffix",
    "spec.elastic.minNodes": "nodes",
    "spec.elastic.maxRestarts": "restarts",
    "spec.backoffLimit": "failures",
}
"""Units of the keys that the trainer does not have."""

CLAIMS = {
    "metadata.name": "claim: each-number-is-wired",
    "spec.batch.global": "claim: examples-are-tests",
    "spec.steps": "no claim: a total",
    "spec.parallelism": "claim: trains-what-other-code-trains",
    "spec.metricsPort": "claim: each-number-is-wired",
}
"""What binds a description that promises something to tests, or says why it promises nothing."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of job.yaml."""

    path: str
    schema: Mapping[str, Any]
    required: bool


def keys() -> list[Key]:
    """The keys of a TrainingJob in the order of its schema; groups of keys are none."""
    return list(_below(json.loads(SCHEMA.read_text(encoding="utf-8")), ""))


def _below(group: Mapping[str, Any], above: str) -> Iterator[Key]:
    for name, schema in group["properties"].items():
        path = f"{above}{name}"
        if "properties" in schema:
            yield from _below(schema, f"{path}.")
        else:
            yield Key(path, schema, name in group.get("required", ()))


class _Recorded(dict[str, Any]):
    """A map that notes which of its fields are asked for."""

    def __init__(self, data: Mapping[str, Any], seen: set[str], path: str = "") -> None:
        inner = {
            key: _Recorded(each, seen, f"{path}{key}.") if isinstance(each, dict) else each
            for key, each in data.items()
        }
        super().__init__(inner)
        self._seen, self._path = seen, path

    def __getitem__(self, key: str) -> Any:
        self._seen.add(f"{self._path}{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The field, as of any map."""
        self._seen.add(f"{self._path}{key}")
        return super().get(key, default)


def readers() -> dict[str, list[str]]:
    """The ids of the rules that read each field of a TrainingJob when they run on the examples of their pages."""
    found: dict[str, list[str]] = {}
    for rule in all_rules().values():
        seen: set[str] = set()
        for example in () if rule.declared else examples(rule.page):
            unit = _watched(example.unit, seen)
            for _ in problems(rule, unit, tuple(workloads(unit))) if unit.is_job else ():
                pass
        for path in seen:
            found.setdefault(path, []).append(rule.id)
    return found


def _watched(unit: Unit, seen: set[str]) -> Unit:
    facts = (
        replace(fact, data=_Recorded(fact.data, seen)) if fact.kind == "TrainingJob" else fact for fact in unit.facts
    )
    return replace(unit, facts=tuple(facts))


def sets() -> dict[str, dict[str, list[str]]]:
    """What the wiring fills from each field of a TrainingJob: the fields, each with the kinds that have it."""
    found: dict[str, dict[str, list[str]]] = {}
    for target, field, source in fills(yaml.safe_load(TABLE.read_text(encoding="utf-8"))):
        kind, _, path = source.partition(" ")
        if kind != "TrainingJob":
            continue
        name, _, when = target.partition(" when ")
        said = name.partition("/")[0].partition(".")[0] + (f" ({when})" if when else "")
        kinds = found.setdefault(path.partition(",")[0], {}).setdefault(field, [])
        if said not in kinds:
            kinds.append(said)
    return found


def page() -> str:
    """The whole page. Fault where a description promises something and CLAIMS binds it to no test."""
    known, read, filled = keys(), readers(), sets()
    rows = [f"| [`{key.path}`](#{anchor(key.path)}) | {_type(key.schema)} | {_default(key)} |" for key in known]
    parts = [HEAD, "| key | type | default |", "|---|---|---|", *rows]
    for key in known:
        parts += ["", f"### {key.path}", "", _about(key), "", *_facts(key, read, filled)]
    return "\n".join(parts) + "\n"


def anchor(path: str) -> str:
    """The anchor of a key's heading, on the site and in Git."""
    return path.replace(".", "").lower()


def _about(key: Key) -> str:
    """The description, with what binds it behind each sentence that promises something."""
    said: str = key.schema["description"]
    for sentence in unbound(said, ""):
        if key.path not in CLAIMS:
            raise Fault(f"{Path(__file__).name}: bind to a test, in CLAIMS, what {key.path} promises: {sentence.text}")
        said = said.replace(sentence.text, f"{sentence.text}<!-- {CLAIMS[key.path]} -->")
    return said


def _facts(key: Key, read: Mapping[str, list[str]], filled: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    yield f"- Type: {_type(key.schema)}{', required' if key.required else ''}"
    if "default" in key.schema:
        yield f"- Default: {_default(key)}"
    known = SET.get(key.path.removeprefix("spec."))
    if unit := UNITS.get(key.path) or (known.unit if known else ""):
        yield f"- Unit: {unit}"
    if rules := read.get(key.path):
        yield f"- Read by: {', '.join(map(link, rules))}"
    if fields := filled.get(key.path):
        yield "- Sets:"
        for field, kinds in fields.items():
            yield f"    - `{field}` of {', '.join(kinds)}"


def _type(schema: Mapping[str, Any]) -> str:
    """Type and allowed values in words."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kind = {"array": "list of texts", "object": "map of texts", "string": "text"}.get(schema["type"], schema["type"])
    bounds = {
        "minimum": "at least {}",
        "exclusiveMinimum": "greater than {}",
        "maximum": "at most {}",
        "maxLength": "at most {} characters",
        "minItems": "at least {} item",
        "minProperties": "at least {} entry",
        "pattern": "as in `{}`",
    }
    limits = [words.format(str(schema[name]).replace("|", "\\|")) for name, words in bounds.items() if name in schema]
    return ", ".join([kind, *limits])


def _default(key: Key) -> str:
    if "default" not in key.schema:
        return ""
    default = key.schema["default"]
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "the schema of a TrainingJob")


if __name__ == "__main__":
    sys.exit(told(main))
