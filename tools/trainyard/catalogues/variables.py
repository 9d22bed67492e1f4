"""Facts about environment variables that communication libraries and launchers read.

People write them in schemas/communication/*.yaml; `compile_catalogue` makes variables.json of them, which loads in a
millisecond. `python -m trainyard.catalogues.variables` rewrites that file.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.home import HOME

FOLDER = HOME / "schemas" / "communication"

INTEGERS = frozenset({"nccl-int", "torch-int", "python-int", "ofi-number"})
"""Parsers that read a whole number and no word."""

_BOOLEANS = {
    "nccl-bool": ("0", "1", "f", "false", "t", "true"),
    "torch-bool": ("0", "1", "f", "false", "n", "no", "t", "true", "y", "yes"),
    "ofi-bool": ("0", "1", "false", "true"),
    "ucx-bool": ("0", "1", "n", "no", "off", "on", "y", "yes"),
    "ucx-ternary": ("0", "1", "n", "no", "off", "on", "try", "y", "yes"),
}
_STRICT = (INTEGERS | set(_BOOLEANS)) - {"nccl-int", "nccl-bool"}
"""Parsers that stop the run at a value that they cannot read."""

_LIBRARIES = {
    "nccl": "NCCL",
    "torch": "PyTorch",
    "pet": "torchrun",
    "gloo": "Gloo",
    "aws-ofi-nccl": "the OFI plugin",
    "gpudirect-tcpx": "the TCPX plugin",
    "gpudirect-tcpxo": "the TCPXO plugin",
    "ucx": "UCX",
    "mpi": "Open MPI",
    "deepspeed": "DeepSpeed",
}
_CHOICE_FUNCTIONS = ("allgather", "allreduce", "broadcast", "reduce", "reducescatter")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,14}(:\d+)?\Z")
_LONGEST = 40
"""Characters of a number that a library can hold."""
_C_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)\Z")


@dataclass(frozen=True, slots=True)
class Variable:
    """What is known about one variable."""

    name: str
    owner: str
    """nccl, torch, pet, gloo, aws-ofi-nccl, gpudirect-tcpx, gpudirect-tcpxo, ucx, mpi or deepspeed."""
    type: str
    parse: str = ""
    values: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    excludable: bool = False
    ignore_case: bool = False
    pattern: str = ""
    min: int | None = None
    max: int | None = None
    breaks: bool = False
    """A bad value stops the run or changes the transport; otherwise it is ignored or clamped."""
    secret: bool = False
    status: str = ""
    """phantom (no release reads it), removed, deprecated, or empty for a variable in use."""
    since: str = ""
    """The first release that reads it; empty for those of old, and where it is not known."""
    items_since: Mapping[str, str] = field(default_factory=dict)
    """The first release that reads a word of the list, by word."""
    ended: str = ""
    instead: str = ""
    same_on_all_ranks: bool = False
    unsure: bool = False

    @property
    def library(self) -> str:
        """The owner as people write it."""
        return _LIBRARIES.get(self.owner, self.owner)

    @property
    def range(self) -> str:
        """The numbers that are honoured: `1 to 31`, `1 or more`, or empty where there is no bound."""
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.min is not None:
            return f"{self.min} or more"
        return "" if self.max is None else f"{self.max} or less"

    @property
    def is_integer(self) -> bool:
        """True where the library reads a whole number."""
        return self.parse in INTEGERS

    def refuses(self, value: str) -> str:
        """Why the library does not honour the value, in a few words after "which"; empty where it does, or may."""
        if self.parse in _BOOLEANS:
            return _not_among(value, _BOOLEANS[self.parse], ignore_case=True)
        if self.parse == "nccl-choice":
            return _bad_choice(value, self.items)
        if self.parse in ("nccl-interfaces", "exact-interfaces"):
            return _bad_interfaces(value, markers=self.parse == "nccl-interfaces")
        if self.values:
            return _not_among(value, self.values, self.ignore_case)
        if self.items:
            return self._bad_list(value)
        if self.pattern and not re.search(self.pattern, value):
            return "does not have the form that it reads"
        return self._out_of_range(value)

    def _bad_list(self, value: str) -> str:
        listed = value[1:] if self.excludable and value.startswith("^") else value
        for word in listed.split(","):
            if reason := _not_among(word, self.items, self.ignore_case):
                return reason
        return ""

    def _out_of_range(self, value: str) -> str:
        if self.min is None and self.max is None and not self.is_integer:
            return ""
        if not _C_INTEGER.match(value) or len(value) > _LONGEST:
            return "is not a whole number"
        number = int(value, 0 if value.lower().lstrip("+-").startswith("0x") else 10)
        if self.min is not None and number < self.min:
            return f"is below {self.min}"
        if self.max is not None and number > self.max:
            return f"is above {self.max}"
        return ""


@cache
def variable(name: str) -> Variable | None:
    """The facts about a variable, or None for a name that the catalogue does not hold."""
    facts = _compiled().get(name)
    if facts is None:
        return None
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return Variable(name, **values)


def names() -> frozenset[str]:
    """Every name of the catalogue, phantoms included."""
    return frozenset(_compiled())


def nearest(
    name: str, families: tuple[str, ...], distance: int, standing: tuple[str, ...] = ("", "deprecated")
) -> Variable | None:
    """The variable of the same family and of a status whose name is at most `distance` typing slips away.

    Of several the nearest, and of those the one in use.
    """
    family = next((prefix for prefix in families if name.startswith(prefix)), None)
    if family is None:
        return None
    near = sorted(
        (slips, "status" in facts, known)
        for known, facts in _compiled().items()
        if known.startswith(family)
        and facts.get("status", "") in standing
        and (slips := _slips(name, known, distance)) <= distance
    )
    return variable(near[0][2]) if near else None


def compile_catalogue(folder: Path = FOLDER) -> str:
    """The text of variables.json, from the sources in `folder`. Fault where a source breaks its schema."""
    import jsonschema_rs
    import yaml

    validator = jsonschema_rs.validator_for(json.loads((folder / "variables.schema.json").read_text()))
    compiled: dict[str, dict[str, Any]] = {}
    for source in sorted(folder.glob("*.yaml")):
        document = yaml.load(source.read_text(), yaml.CSafeLoader)
        for error in validator.iter_errors(document):
            raise Fault(f"{source.name}: {'.'.join(map(str, error.instance_path))}: {error.message}")
        for name, facts in document["variables"].items():
            if name in compiled:
                raise Fault(f"{source.name}: {name} is already in {compiled[name]['owner']}.yaml")
            compiled[name] = {"owner": document["owner"], **_with_strictness(facts)}
    lines = (f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in sorted(compiled.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _with_strictness(facts: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in facts.items() if key != "examples"}
    if facts.get("parse") in _STRICT and not facts.get("unsure"):
        kept["breaks"] = True
    return kept


@cache
def _compiled() -> dict[str, dict[str, Any]]:
    try:
        loaded: dict[str, dict[str, Any]] = json.loads((FOLDER / "variables.json").read_text())
    except (OSError, ValueError) as error:
        raise Fault(f"the catalogue of communication variables cannot be read: {error}") from None
    return loaded


def _not_among(word: str, words: tuple[str, ...], ignore_case: bool) -> str:
    known = {other.lower() for other in words} if ignore_case else set(words)
    if (word.lower() if ignore_case else word) in known:
        return ""
    return f"is none of {', '.join(words)}"


def _bad_choice(value: str, words: tuple[str, ...]) -> str:
    """NCCL_ALGO and NCCL_PROTO: `[function:][^]word,word[;function:...]`; only the first group may leave the function
    out."""
    groups = value.removesuffix(";").split(";")
    for place, group in enumerate(groups):
        function, colon, listed = group.rpartition(":")
        if colon and function.lower() not in _CHOICE_FUNCTIONS:
            return f"names no collective: {function or group}"
        if place and not colon:
            return f"has a second group without a collective: {group}"
        for word in listed.removeprefix("^").split(","):
            if reason := _not_among(word, words, ignore_case=True):
                return f"holds {word or 'an empty word'}, which {reason}"
    return ""


def _bad_interfaces(value: str, markers: bool) -> str:
    """Interface lists: NCCL reads `[^][=]name,name`; Gloo and TensorPipe read names and nothing else."""
    listed = value.removeprefix("^").removeprefix("=") if markers else value
    for name in listed.split(","):
        if name[:1] in ("^", "="):
            where = "anywhere but at the very start, once" if markers else "at all"
            return f"holds {name}: the library does not read {name[0]} as a marker {where}"
        if not _INTERFACE.match(name):
            return f"holds {name!r}, which is not an interface name"
    return ""


def _slips(one: str, other: str, limit: int) -> int:
    """Letters added, dropped, changed or swapped between two names (optimal string alignment), or more than `limit`."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before, last = last, row
    return last[-1]


def main() -> None:
    """Rewrite variables.json from its sources."""
    (FOLDER / "variables.json").write_text(compile_catalogue())


if __name__ == "__main__":
    main()
