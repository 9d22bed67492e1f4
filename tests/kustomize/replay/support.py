"""Trees of files, rendered by the real kustomize and by the replay, and compared leaf by leaf."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from trainyard.kustomize.replay import Replay, replay
from trainyard.objects.objects import Object
from trainyard.yaml.fieldpath import Path, format_path
from trainyard.yaml.nodes import load_documents
from trainyard.yaml.sources import Sources

Case = tuple[str, dict[tuple[str, str], str]]
"""A tree whose folder `over` is rendered, and where chosen leaves were written, by object and path."""

KUSTOMIZE = FilePath(__file__).parents[3] / ".tools" / "bin" / "kustomize"


def write(root: FilePath, tree: str) -> None:
    """Write a tree that is given as `=== path` lines, each followed by the content of that file."""
    for part in tree.strip("\n").split("=== ")[1:]:
        name, _, text = part.partition("\n")
        file = root / name.strip()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def rendered(root: FilePath, folder: str) -> list[Object]:
    """What the stock kustomize builds."""
    assert KUSTOMIZE.exists(), "kustomize is not built: run ./tools/test once"
    done = subprocess.run([KUSTOMIZE, "build", root / folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [Object.of(node.plain(), i) for i, node in enumerate(load_documents(done.stdout, "rendered"))]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Scalars and empty containers, with their paths."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from leaves(child, (*path, index))
    else:
        yield path, value


@dataclass(frozen=True, slots=True)
class Compared:
    """One folder, rendered both ways."""

    sources: Sources
    objects: list[Object]
    replay: Replay

    def differences(self) -> list[str]:
        """Leaves whose replayed value is not the rendered one, and objects or leaves that only one of the two has."""
        found = []
        for item in self.objects:
            node = self.replay.node(item)
            if node is None:
                found.append(f"{item.title} is not replayed")
                continue
            ours, theirs = dict(leaves(node.plain())), dict(leaves(item.data))
            for path in ours.keys() | theirs.keys():
                pair = (ours.get(path, "(absent)"), theirs.get(path, "(absent)"))
                if pair[0] != pair[1] or type(pair[0]) is not type(pair[1]):
                    name = format_path(item.data, path)
                    found.append(f"{item.title} {name}: replayed {pair[0]!r}, rendered {pair[1]!r}")
        names = [(item.kind, item.namespace, item.name) for item in self.objects]
        replayed = [Object.of(node.plain(), 0) for node in self.replay.objects]
        for item in replayed:
            if (item.kind, item.namespace, item.name) not in names:
                found.append(f"{item.title} is replayed and not rendered")
        return sorted(found)

    def where(self, title: str, name: str) -> str:
        """Where a leaf was written: the file, the line as it stands there, and what a caret would underline."""
        item = next(item for item in self.objects if item.title == title)
        paths = {format_path(item.data, path): path for path, _ in leaves(item.data)}
        return self.at(item, paths[name])

    def at(self, item: Object, path: Path) -> str:
        """Where any field was written, as `where`."""
        position = self.replay.position(item, path)
        if position is None:
            return "unknown"
        line = self.sources.lines(position.file)[position.line - 1]
        under = line[position.column - 1 : position.column - 1 + position.length]
        return f"{position.file}: {line.strip()} [{under}]"

    def known(self) -> float:
        """Share of leaves with a position."""
        marks = [self.replay.position(item, path) for item in self.objects for path, _ in leaves(item.data)]
        return sum(mark is not None for mark in marks) / len(marks)


def compare(root: FilePath, folder: str) -> Compared:
    """Render a folder both ways."""
    sources = Sources(root)
    return Compared(sources, rendered(root, folder), replay(root, folder, sources))


def check(case: Case, root: FilePath) -> None:
    """Every leaf is replayed as it is rendered, and those that the case names were written where it says."""
    tree, places = case
    write(root, tree)
    both = compare(root, "over")
    assert both.differences() == []
    assert {(title, path): both.where(title, path) for title, path in places} == places
