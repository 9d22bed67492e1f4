"""The examples on a rule's page, as units that the rule can be run on.

A block holds only the lines that matter. They are merged onto a good manifest, of which no rule says anything: the one
that the first line names, as `# on: mpijob` names good/mpijob.yaml, or else the job folder of good/folder.yaml. Maps
merge as kustomize would, lists of named items merge by name, other lists are replaced, null deletes. `$replace` under a
key puts a whole map or list in place of the old one, `$patch: delete` takes an item or a document away. On a named
manifest a document without a kind changes the first. A block whose first line is `# whole` stands alone, in the folder
that the line names if it names one. A document with `$platform: true` lies on the platform of the cluster.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

import yaml

from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit

HEADINGS = ("Bad", "Good", "Near miss")
WHOLE = "# whole"
ON = "# on: "
GOOD = Path(__file__).with_name("good")
_PLATFORM = "$platform"

_HEADING = re.compile(rf"({'|'.join(HEADINGS)}):\s*\Z")
_ITEM_KEYS = ("name", "groupName", "mountPath", "containerPort", "port")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Example:
    """One block of a page."""

    heading: str
    """Bad, Good or Near miss."""
    text: str
    """The YAML as the page shows it, without its indent."""

    @property
    def unit(self) -> Unit:
        """What the rule is run on: the block merged onto a good manifest, or the block alone if it is whole.

        ValueError where the block is not YAML, holds a document without a kind, or names no manifest.
        """
        if not self.text.startswith(WHOLE):
            base = _good(self.manifest or "folder")
            return unit_of(merge(base, _documents(self.text, base[0]["kind"] if self.manifest else "")))
        folder = self.text.partition("\n")[0].removeprefix(WHOLE).strip()
        return unit_of(merge((), _documents(self.text)), folder or "example")

    @property
    def manifest(self) -> str:
        """The good manifest that the block names; empty where it names none."""
        first = self.text.partition("\n")[0]
        return first.removeprefix(ON) if first.startswith(ON) else ""


def examples(page: str) -> tuple[Example, ...]:
    """The examples of a rule's docstring, in the order of the page."""
    found: list[Example] = []
    heading, lines = "", []
    for line in [*cleandoc(page).splitlines(), "end"]:
        if heading and (not line or line.startswith("    ")):
            lines.append(line.removeprefix("    "))
            continue
        if heading:
            found.append(Example(heading, "\n".join(lines).strip("\n") + "\n"))
        match = _HEADING.match(line)
        heading, lines = (match[1] if match else ""), []
    return tuple(found)


def good_job(name: str = "folder") -> Unit:
    """A good manifest as it is: every rule is silent about it. ValueError where there is none of that name."""
    return unit_of(list(_good(name)))


def good_names() -> list[str]:
    """The names of the good manifests."""
    return sorted(file.stem for file in GOOD.glob("*.yaml"))


def good_text(name: str) -> str:
    """A good manifest as it is written. ValueError where there is none of that name."""
    file = GOOD / f"{name}.yaml"
    if not file.is_file():
        raise ValueError(f"no good manifest is called {name!r}: there are {', '.join(good_names())}")
    return file.read_text(encoding="utf-8")


def unit_of(documents: list[dict[str, Any]], name: str = "example") -> Unit:
    """Plain documents as a unit; a TrainingJob, Fabric or Cluster among them is a fact, as after rendering.

    What the cluster holds is known where a document lies on its platform.
    """
    platform = [document for document in documents if document.get(_PLATFORM) is True]
    beside = [document for document in documents if document not in platform]
    facts = [document for document in beside if str(document.get("apiVersion")).startswith("trainyard.dev/")]
    applied = [document for document in beside if document not in facts]
    below = [{key: value for key, value in document.items() if key != _PLATFORM} for document in platform]
    objects = [Object.of(document, index) for index, document in enumerate(applied + facts + below)]
    return Unit(
        name=name,
        is_job=any(fact.get("kind") == "TrainingJob" for fact in facts),
        objects=tuple(objects[: len(applied)]),
        facts=tuple(objects[len(applied) : len(beside)]),
        platform=tuple(objects[len(beside) :]) or None,
    )


def merge(
    base: tuple[dict[str, Any], ...] | list[dict[str, Any]], blocks: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """`base` with each block merged onto its document: the one of its kind and name, or the only one of its kind."""
    documents = list(deepcopy(base))
    for block in blocks:
        position = _document_for(block, documents)
        if position is None:
            documents.append(_merged({}, block))
        elif block.get("$patch") == "delete":
            del documents[position]
        else:
            documents[position] = _merged(documents[position], block)
    return documents


def _document_for(block: dict[str, Any], documents: list[dict[str, Any]]) -> int | None:
    same_kind = [i for i, document in enumerate(documents) if document.get("kind") == block["kind"]]
    name = block.get("metadata", {}).get("name")
    named = [i for i in same_kind if documents[i]["metadata"].get("name") == name]
    if named:
        return named[0]
    if name is None and len(same_kind) > 1:
        raise ValueError(f"the example holds several documents of kind {block['kind']}: say which by metadata.name")
    return same_kind[0] if len(same_kind) == 1 else None


def _merged(old: Any, new: Any) -> Any:
    if isinstance(new, Mapping):
        if "$replace" in new:
            return new["$replace"]
        result = dict(old) if isinstance(old, Mapping) else {}
        for key, value in new.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merged(result.get(key), value)
        return result
    if isinstance(old, list) and isinstance(new, list) and (key := _item_key(old + new)):
        return _merged_items(old, new, key)
    return new


def _merged_items(old: list[Any], new: list[Any], key: str) -> list[Any]:
    items = {item[key]: item for item in old}
    for item in new:
        if item.get("$patch") == "delete":
            items.pop(item[key], None)
        else:
            items[item[key]] = _merged(items.get(item[key]), item)
    return list(items.values())


def _item_key(items: list[Any]) -> str | None:
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _ITEM_KEYS if items and all(key in item for item in items)), None)


def _documents(text: str, kind: str = "") -> list[dict[str, Any]]:
    """The documents of a text; `kind` is that of a document that has none."""
    try:
        documents = [document for document in yaml.load_all(text, Loader=_LOADER) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"the example is not YAML: {error}") from None
    if not all(isinstance(document, dict) and (kind or "kind" in document) for document in documents):
        raise ValueError("each document of an example needs a kind")
    return [{"kind": kind, **document} for document in documents]


@cache
def _good(name: str) -> tuple[dict[str, Any], ...]:
    return tuple(_documents(good_text(name)))
