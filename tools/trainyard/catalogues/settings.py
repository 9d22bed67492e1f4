"""The trainer's keys that job.yaml sets, wherever they are repeated: written from trainer/config.py.

`job` of a key says where job.yaml has it. From there it gets its place in the schema of a TrainingJob, its default in
base/run, its variable, and what the linter knows of it; `trainyard.kustomize.wiring` copies it.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from trainyard.catalogues.programs import FOLDER, compile_arguments
from trainyard.docs.generated import told, update
from trainyard.errors import Fault
from trainyard.home import HOME

sys.path.append(str(HOME))  # the trainer is not a package of the linter's environment

from trainer import manual
from trainer.sources import KEYS

SOURCE = "trainer/config.py"
SET = {known.job: known for known in KEYS.values() if known.job}
"""Field below spec of job.yaml to the key that it sets."""
_TRAINER = HOME / "schemas" / "trainer.schema.json"
_JOB = HOME / "schemas" / "trainyard.dev" / "trainingjob_v1alpha1.json"
_DEFAULTS = HOME / "base" / "run" / "training-job.yaml"
_VARIABLES = HOME / "base" / "run" / "config-map-trainer.yaml"
_MARK = f"  # The rest is written by tools/update-docs from {SOURCE}"


def wires(path: str) -> Iterator[tuple[str, str]]:
    """The fields of a path with TRAINER_* in it, and what fills them, as a table of the wiring says it."""
    for field, known in SET.items():
        yield path.replace("TRAINER_*", known.variable), f"TrainingJob spec.{field}"


def job_schema(text: str) -> dict[str, Any]:
    """The schema of a TrainingJob with the trainer's keys of today. Fault where a key's group is not there."""
    schema: dict[str, Any] = json.loads(text)
    spec = schema["properties"]["spec"]
    _drop_stale(spec)
    for field, known in SET.items():
        *groups, name = field.split(".")
        into = spec
        for group in groups:
            into = into["properties"].get(group, {})
        if "properties" not in into:
            raise Fault(f"{_JOB.name} has no group {'.'.join(groups)} for {field}; write it, with a description")
        comment = f"Written by tools/update-docs from {known.name} of {SOURCE}."
        into["properties"][name] = {**manual.in_job(known), "$comment": comment}
    return schema


def _drop_stale(group: dict[str, Any], above: str = "") -> None:
    """Take out what came from a key that no longer sets it."""
    for name, below in list(group["properties"].items()):
        if SOURCE in below.get("$comment", "") and f"{above}{name}" not in SET:
            del group["properties"][name]
        elif "properties" in below:
            _drop_stale(below, f"{above}{name}.")


def _defaults(group: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, below in group["properties"].items():
        if "default" in below:
            found[name] = below["default"]
        elif "properties" in below and (inner := _defaults(below)):
            found[name] = inner
    return found


class _Dumper(yaml.SafeDumper):
    """Lists on one line; texts in quotes that kustomize, but not YAML 1.1, would read as a number: 1e-08."""


_Dumper.add_representer(list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+\Z"), list("-+0123456789")
)


def _behind(file: Path, values: Mapping[str, Any], also: str = "") -> str:
    """The file, with `values` behind its mark."""
    before, mark, _ = file.read_text().partition(f"{_MARK}{also}.\n")
    if not mark:
        raise Fault(f"{file.relative_to(HOME)} lacks the line that says from where on it is written: {_MARK}{also}.")
    return before + mark + textwrap.indent(yaml.dump(values, Dumper=_Dumper, sort_keys=False, width=10**6), "  ")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def files() -> dict[Path, str]:
    """Every file that repeats something of the keys."""
    schema = job_schema(_JOB.read_text())
    variables = {known.variable: _text(manual.in_job(known)["default"]) for known in SET.values()}
    return {
        _TRAINER: json.dumps(manual.schema(), indent=2) + "\n",
        _JOB: json.dumps(schema, indent=2) + "\n",
        _DEFAULTS: _behind(_DEFAULTS, _defaults(schema["properties"]["spec"]), " and the defaults of that schema"),
        _VARIABLES: _behind(_VARIABLES, variables),
        FOLDER / "arguments.json": compile_arguments(wired={known.name: field for field, known in SET.items()}),
    }


def main() -> int:
    """Write them, or with --check say which of them differ."""
    return update(files(), SOURCE)


if __name__ == "__main__":
    sys.exit(told(main))
