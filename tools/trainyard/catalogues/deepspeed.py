"""Facts about DeepSpeed configurations: keys, what cannot stand together, optimizers and schedulers.

People write them in schemas/deepspeed/*.yaml; `compile_facts` makes facts.json of them, which is read when a job uses
DeepSpeed and not before. `python -m trainyard.catalogues.deepspeed` rewrites that file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.home import HOME

FOLDER = HOME / "schemas" / "deepspeed"


@dataclass(frozen=True, slots=True)
class Key:
    """What is known about one key."""

    type: str
    """any, boolean, integer, list, map, number or string."""
    default: Any = None
    values: tuple[str, ...] = ()
    any_case: bool = False
    min: float | None = None
    max: float | None = None
    above: float | None = None
    alias: str = ""
    auto: tuple[str, ...] = ()
    """Who fills in "auto": hugging-face, accelerate, trainyard."""
    checked: bool = False
    """True where a bad value is refused although the section is not a checked model."""
    strict: bool = False
    """True where a boolean must be one, not a word or number that means one, and where a number must be no boolean."""
    removed: str = ""
    """The release that refuses the key."""
    instead: str = ""
    replaces: str = ""
    moved: Mapping[str, Any] | None = None
    """`release`, since which the default is what it is, and `before`, what it was."""


@dataclass(frozen=True, slots=True)
class Section:
    """A map of the configuration and what happens to keys that it does not know: refused, ignored or free."""

    unknown: str
    keys: Mapping[str, Key]

    def key(self, name: str) -> Key | None:
        """A key by its name or its alias."""
        found = self.keys.get(name)
        return found or next((key for key in self.keys.values() if key.alias == name), None)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Keys that do not go together."""

    name: str
    verdict: str
    """refused, ignored or advice."""
    when: Mapping[str, Any]
    at: str
    says: str
    instead: str
    other: str = ""
    """The key at the other end."""
    since: str = ""


@cache
def sections() -> Mapping[str, Section]:
    """Every section by its dotted path; the top is the empty one."""
    return {
        path: Section(
            facts["unknown"],
            {
                name: Key(**{field: _frozen(value) for field, value in key.items()})
                for name, key in facts["keys"].items()
            },
        )
        for path, facts in _compiled()["sections"].items()
    }


@cache
def constraints() -> tuple[Constraint, ...]:
    """Every constraint, in the order of its file."""
    return tuple(
        Constraint(**{"other" if field == "with" else field: value for field, value in facts.items()})
        for facts in _compiled()["constraints"]
    )


def optimizers() -> Mapping[str, Any]:
    """Optimizers that DeepSpeed knows by name, and those that ZeRO takes without being told to."""
    found: Mapping[str, Any] = _compiled()["optimizers"]
    return found


def schedulers() -> Mapping[str, Any]:
    """Schedulers that DeepSpeed knows, and their parameters."""
    found: Mapping[str, Any] = _compiled()["schedulers"]
    return found


def highly_composite() -> tuple[int, ...]:
    """Numbers with more divisors than any smaller one, of which elasticity makes its batches."""
    return tuple(_compiled()["highly_composite"])


def default(path: str) -> Any:
    """The default of a key by its dotted path; None where it has none or is not known, or where it moved."""
    section, _, name = path.rpartition(".")
    known = sections().get(section)
    key = known.key(name) if known is not None else None
    return None if key is None or key.moved is not None else key.default


def compile_facts(folder: Path = FOLDER) -> str:
    """The text of facts.json, from the sources in `folder`. Fault where a source breaks the schema."""
    import jsonschema_rs
    import yaml

    validator = jsonschema_rs.validator_for(json.loads((folder / "facts.schema.json").read_text()))
    compiled: dict[str, Any] = {}
    for source in sorted(folder.glob("*.yaml")):
        document = yaml.load(source.read_text(), yaml.CSafeLoader)
        for error in validator.iter_errors(document):
            raise Fault(f"{source.name}: {'.'.join(map(str, error.instance_path))}: {error.message}")
        compiled |= document
    return json.dumps(compiled, indent=1, sort_keys=False) + "\n"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _compiled() -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = json.loads((FOLDER / "facts.json").read_text())
    except (OSError, ValueError) as error:
        raise Fault(f"the facts about DeepSpeed cannot be read: {error}") from None
    return loaded


def main() -> None:
    """Rewrite facts.json from its sources."""
    (FOLDER / "facts.json").write_text(compile_facts())


if __name__ == "__main__":
    main()
