"""schemas/job-folder.yaml as a tree. Its head says how it is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from trainyard.home import HOME

FILE = HOME / "schemas" / "job-folder.yaml"
NODE_RULE, FIELD_RULE, VALUE_RULE, ACCOUNT_RULE, THERE_RULE = "SEC005", "SEC010", "SEC011", "SEC012", "SEC013"
"""The rules that hold a job folder to the statement. FIELD_RULE speaks of a field that is not allowed or missing and
VALUE_RULE of a value, where the statement names no other."""

_OF_EVERY_OBJECT = ("apiVersion", "kind", "status")


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value."""


@dataclass(frozen=True, slots=True)
class Values:
    """One of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """What one of LIMITS lets through."""

    limit: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list, whose items are all like this."""

    item: "Node"


@dataclass(frozen=True, slots=True)
class Laid:
    """An object that is laid over another, so that nothing must be there."""

    node: "Node"


@dataclass(frozen=True, slots=True)
class Field:
    """A field that may be there."""

    node: "Node"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """An object, by its fields."""

    name: str
    """How the statement calls it: that of a definition or of a kind, with the fields that lead on from there."""
    fields: Mapping[str, Field] = field(repr=False)
    prefixes: Mapping[str, Field] = field(repr=False)
    """Fields by how they begin."""
    others: Field | None = field(repr=False)
    limit: str = ""
    """A limit of the object as a whole."""

    def of(self, key: str) -> Field | None:
        """What is said of a field."""
        found = self.fields.get(key)
        if found is None:
            found = next((each for prefix, each in self.prefixes.items() if key.startswith(prefix)), self.others)
        return found


Node = Anything | Values | Limit | Items | Laid | Fields


@dataclass(frozen=True, slots=True)
class Words:
    """What the statement says of a limit."""

    says: str
    """What is wrong with a value that it does not let through."""
    more: str = ""
    """The field of team.yaml that lets more through; empty where no team gets more."""


@dataclass(frozen=True, slots=True)
class Statement:
    """All that it says."""

    kinds: Mapping[tuple[str, str], Fields] = field(repr=False)
    """By apiVersion and kind."""
    definitions: Mapping[str, Fields] = field(repr=False)
    limits: Mapping[str, Words] = field(repr=False)
    rules: Mapping[str, str] = field(repr=False)
    """The ids of rules by what they say so of, where that is not FIELD_RULE and VALUE_RULE."""

    def rule(self, name: str, *, is_value: bool) -> str:
        """The id of the rule that is about a field, by its name in the statement."""
        default = VALUE_RULE if is_value else FIELD_RULE
        while name:
            found = self.rules.get(name)
            if found is not None:
                return default if found == FIELD_RULE else found
            name = name.rpartition(".")[0]
        return default


@cache
def statement() -> Statement:
    """The statement of this repository."""
    import yaml

    return parsed(yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def parsed(document: Mapping[str, Any]) -> Statement:
    """A statement from its document. KeyError or ValueError where that does not hold together."""
    reader = _Reader(document["definitions"], document["limits"])
    kinds = {}
    for title, written in document["kinds"].items():
        api_version, _, kind = title.rpartition("/")
        kinds[api_version, kind] = reader.fields(
            kind,
            {
                "any": [*_OF_EVERY_OBJECT, *written.get("any", ())],
                **{key: value for key, value in written.items() if key != "any"},
            },
        )
    return Statement(
        kinds,
        {name: reader.definition(name) for name in document["definitions"]},
        {name: Words(**words) for name, words in document["limits"].items()},
        {name: rule for rule, names in document["rules"].items() for name in names},
    )


class _Reader:
    """Reads nodes; each definition once."""

    def __init__(self, definitions: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
        self._written = definitions
        self._limits = limits
        self._read: dict[str, Fields] = {}

    def definition(self, name: str) -> Fields:
        if name not in self._read:
            self._read[name] = self.fields(name, self._written[name])
        return self._read[name]

    def node(self, name: str, written: Any) -> Node:
        if isinstance(written, dict):
            return self.fields(name, written)
        if isinstance(written, list):
            if len(written) == 1 and (isinstance(written[0], dict | list) or str(written[0]).startswith("=")):
                return Items(self.node(name, written[0]))
            return Values(tuple(written))
        if written == "any":
            return Anything()
        if not isinstance(written, str) or not written.startswith("="):
            raise ValueError(f"{name} is {written!r}, which is neither `any` nor a name behind a =")
        return self._named(written[1:])

    def _named(self, name: str) -> Node:
        if name in self._limits:
            return Limit(name)
        node = self.definition(name.removesuffix("?"))
        return Laid(node) if name.endswith("?") else node

    def fields(self, name: str, written: Mapping[str, Any]) -> Fields:
        plain, prefixes, others = dict[str, Field](), dict[str, Field](), None
        for key, below in self._by_key(written):
            bare = key.removesuffix("!")
            found = Field(self.node(f"{name}.{bare}", below), required=key.endswith("!"))
            if bare == "*":
                others = found
            elif bare.endswith("*"):
                prefixes[bare[:-1]] = found
            else:
                plain[bare] = found
        limit = written.get("=", "")
        if limit and limit not in self._limits:
            raise ValueError(f"{name} has the limit {limit}, which is not said")
        return Fields(name, plain, prefixes, others, limit)

    def _by_key(self, written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for key, below in written.items():
            if key == "any":
                yield from ((each, "any") for each in below)
            elif key != "=":
                yield key, below
