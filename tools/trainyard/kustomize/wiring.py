"""base/**/wiring: kustomize replacements, written from the table.yaml that lies beside them.

The head of base/wiring/table.yaml tells the form. What follows each other there keeps its order in what kustomize runs.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from trainyard.catalogues.settings import SOURCE, wires
from trainyard.docs.generated import told, update
from trainyard.errors import Fault
from trainyard.home import HOME
from trainyard.yaml.nodes import load_documents

_TABLE = "table.yaml"
_HEAD = f"# Written by tools/update-docs from {_TABLE}, which says why.\n"
_OBJECT = re.compile(
    r"(?P<kind>\w+)(\.(?P<group>[^\s/]+))?(/(?P<name>\S+))?( when (?P<by>annotation|label) (?P<selector>\S+))?"
)
_VALUE = re.compile(
    r"(?P<kind>\w+)(/(?P<name>\S+))? (?P<field>[^\s,]+)"
    r"(, (?P<create>create)|, before (?P<before>\S+)|, part (?P<index>\d+) of (?P<delimiter>\S+))?"
)
_ITEM = re.compile(r"(?<=[^.])\[(?:([^\]=]+)=)?([^\]]+)\]")

Arrow = tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]
"""Source, select, options and the field of one target."""


def files(table: Path) -> dict[Path, str]:
    """What a table says, as the files of its folder. Fault where it is not a table, InputError where it is not YAML."""
    name = os.path.relpath(table, HOME)
    documents = load_documents(table.read_text(), name)
    listed: Mapping[str, Any] = documents[0].plain()
    written = {
        table.with_name(file): _HEAD + _yaml(_transformer(file.removesuffix(".yaml"), list(_arrows(objects, name))))
        for file, objects in listed.items()
        if objects
    }
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(listed),
    }
    return {**written, table.with_name("kustomization.yaml"): _HEAD + _yaml(kustomization)}


def _arrows(objects: Mapping[str, Any], table: str) -> Iterator[Arrow]:
    for object, fields in objects.items():
        known = _OBJECT.fullmatch(object)
        if known is None:
            raise Fault(f"{table}: no object: {object}; the head of base/wiring/table.yaml tells the form")
        select = {key: known[key] for key in ("group", "kind", "name") if known[key]}
        if known["by"]:
            select[f"{known['by']}Selector"] = known["selector"]
        for field, value in _flat(fields):
            said = _VALUE.fullmatch(value)
            if said is None:
                raise Fault(f"{table}: {field} of {object} is filled from no field: {value}")
            source = {key: said[key] for key in ("kind", "name") if said[key]}
            source["fieldPath"] = _ITEM.sub(lambda item: f".[{item[1] or 'name'}={item[2]}]", said["field"])
            target = _ITEM.sub(lambda item: f".[{item[1] or 'name'}=^{item[2]}$]", field)
            yield source, select, _options(said), target


def fills(listed: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What a table says, a row of it each: the object, its field, and what fills that."""
    for objects in listed.values():
        for object, fields in (objects or {}).items():
            for field, value in _flat(fields):
                yield object, field, value


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        path = f"{above}{name}"
        if isinstance(value, dict):
            yield from _flat(value, f"{path}.")
        elif value == SOURCE:
            yield from wires(path)
        else:
            yield path, str(value)


def _options(said: re.Match[str]) -> dict[str, Any]:
    if said["create"]:
        return {"create": True}
    if said["before"]:
        return {"delimiter": said["before"], "index": 0}
    return {"delimiter": said["delimiter"], "index": int(said["index"])} if said["delimiter"] else {}


def _transformer(name: str, arrows: list[Arrow]) -> dict[str, Any]:
    """What follows each other from one source is one replacement, and of that, into one object, one target."""
    replacements = []
    for source, alike in groupby(arrows, lambda arrow: arrow[0]):
        targets = []
        for (select, options), into in groupby(alike, lambda arrow: arrow[1:3]):
            target = {"select": select, "fieldPaths": [field for *_, field in into]}
            targets.append({**target, "options": options} if options else target)
        replacements.append({"source": source, "targets": targets})
    return {
        "apiVersion": "builtin",
        "kind": "ReplacementTransformer",
        "metadata": {"name": name},
        "replacements": replacements,
    }


class _Dumper(yaml.SafeDumper):
    """Everything as often as it is said."""

    def ignore_aliases(self, _: Any) -> bool:
        """Whether a map that stands twice is written twice."""
        return True


def _yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6)


def main() -> int:
    """Write the files of every table, or with --check say which of them differ."""
    tables = sorted(HOME.glob(f"base/**/wiring/{_TABLE}"))
    wanted = {file: text for table in tables for file, text in files(table).items()}
    there = [file for table in tables for file in table.parent.glob("*.yaml") if file.read_text().startswith(_HEAD)]
    return update(wanted, "the tables of base/", there)


if __name__ == "__main__":
    sys.exit(told(main))
