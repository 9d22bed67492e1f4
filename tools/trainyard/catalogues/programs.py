"""What the arguments of well-known training programs mean.

People write it in schemas/trainers/arguments.yaml; `compile_arguments` makes arguments.json of it, which is what is
read at run time. tools/update-docs rewrites that file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.home import HOME

FOLDER = HOME / "schemas" / "trainers"
SCRIPT = "script"
"""The entry for programs that nothing else knows."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """What the arguments of one training program mean."""

    name: str
    roles: Mapping[str, tuple[str, ...]]
    """Role, such as micro or tensor, to the names of the argument that gives it."""
    programs: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    variables: bool = False
    words: bool = False
    keeps_global: bool = False
    accumulation_shared: bool = False
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mixed: tuple[str, ...] = ()
    defaults: Mapping[str, float] = field(default_factory=dict)
    wired: Mapping[str, str] = field(default_factory=dict)


@cache
def trainers() -> Mapping[str, Trainer]:
    """Every entry of the table by its name, in its order."""
    try:
        loaded: dict[str, dict[str, Any]] = json.loads((FOLDER / "arguments.json").read_text())
    except (OSError, ValueError) as error:
        raise Fault(f"the table of training programs cannot be read: {error}") from None
    return {
        name: Trainer(name, **{key: _frozen(value) for key, value in facts.items()}) for name, facts in loaded.items()
    }


def compile_arguments(folder: Path = FOLDER, wired: Mapping[str, str] | None = None) -> str:
    """The text of arguments.json, from arguments.yaml in `folder`. Fault where that breaks its schema.

    `wired` says which key of this repository's trainer job.yaml sets by which field.
    """
    import jsonschema_rs
    import yaml

    validator = jsonschema_rs.validator_for(json.loads((folder / "arguments.schema.json").read_text()))
    document = yaml.load((folder / "arguments.yaml").read_text(), yaml.CSafeLoader)
    for error in validator.iter_errors(document):
        raise Fault(f"arguments.yaml: {'.'.join(map(str, error.instance_path))}: {error.message}")
    if wired is not None:
        document["trainers"]["trainyard"]["wired"] = wired
    return json.dumps(document["trainers"], indent=1) + "\n"


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(below) for key, below in value.items()}
    return tuple(value) if isinstance(value, list) else value
