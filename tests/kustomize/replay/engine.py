"""Where kustomize's own engine has each rendered value from, held against where the replay says it was written.

The engine's nodes keep the line and column that they were read at. It tells where a node stands and not who filled it:
a value that is set by code has the place of the old value or none. Those are the reasons below; nothing else may
differ.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from trainyard.findings.finding import Position
from trainyard.kustomize.replay import ObjectId, Replay, replay
from trainyard.objects.objects import Object
from trainyard.yaml.fieldpath import Path, format_path
from trainyard.yaml.sources import Sources

RENDER = FilePath(__file__).parents[3] / ".tools" / "bin" / "render"

REASONS = {
    "same": "Both name the same file, line and column.",
    "wired": "A replacement writes its text into the node that stands there: the engine's place is the target's, or "
    "none where the replacement made the field. The replay names the source.",
    "set": "The value stands in a kustomization, in a transformer or generator, or in a file that a generator takes: "
    "the engine keeps the old value's place, or has none. A patch within a kustomization is among them: its lines are "
    "not those of a file. A generator that merges into an object writes all its data anew.",
    "identity": "After a merge or a prefix, kustomize writes apiVersion, kind and name anew from texts.",
    "renamed": "A reference takes on the new name of what it means: the engine keeps its place or has none, the replay "
    "names where the name was written.",
    "json": "A JSON patch reads the whole object anew from JSON, so that the engine has no place of it any more.",
    "listed": "An item of a List is read anew as an object of its own.",
    "annotation": "Kustomize writes annotations anew once it has taken its own ones out, without their places.",
    "added": "A patch adds an item to a list of plain values, which the merge makes anew.",
    "key": "A patch repeats the field by which it finds its item, and the merge takes over the patch's node. The "
    "replay stays with the object's, which the patch did not set.",
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One rendered scalar, and where either says it was written."""

    folder: str
    title: str
    name: str
    value: Any
    engine: tuple[str, int, int] | None
    """File, line and column."""
    ours: Position | None
    reason: str
    """One of REASONS; empty where none holds."""

    def __str__(self) -> str:
        return f"{self.folder} {self.title} {self.name} = {self.value!r}: engine {self.engine}, replay {self.ours}"


def scalars(root: FilePath, folders: Iterable[str]) -> Iterator[Scalar]:
    """Each scalar that the folders render to."""
    assert RENDER.exists(), "the renderer is not built: run ./tools/test once"
    names = "".join(f"{folder}\n" for folder in folders)
    command: list[str | FilePath] = [RENDER, "-root", root, "-positions"]
    done = subprocess.run(command, input=names, capture_output=True, text=True, timeout=120)
    sources = Sources(root)
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        assert answer["error"] == "", answer["error"]
        yield from _scalars(answer, replay(root, answer["folder"], sources), sources)


def counted(found: Iterable[Scalar]) -> Counter[str]:
    """How many have each reason. AssertionError for a scalar that has none."""
    listed = list(found)
    assert [str(each) for each in listed if not each.reason] == []
    return Counter(each.reason for each in listed)


def _scalars(answer: dict[str, Any], replayed: Replay, sources: Sources) -> Iterator[Scalar]:
    objects = [Object.of(data, index) for index, data in enumerate(answer["objects"])]
    names = frozenset(each.name for each in objects)
    for rendered, positions in zip(objects, answer["positions"], strict=True):
        history = _history(rendered, replayed, names, sources)
        for told in positions:
            path = tuple(told["path"])
            engine = (told["file"], told["line"], told["column"]) if told["line"] else None
            ours = replayed.position(rendered, path)
            value = _at(rendered.data, path)
            reason = history.reason(path, value, engine, ours)
            name = format_path(rendered.data, path)
            yield Scalar(answer["folder"], rendered.title, name, value, engine, ours, reason)


def _history(rendered: Object, replayed: Replay, names: frozenset[str], sources: Sources) -> "_History":
    id = ObjectId(rendered.api_version, rendered.kind, rendered.namespace, rendered.name)
    node = replayed.node(rendered)
    made = [("kind",), *(("data", key) for key in rendered.data.get("data", ()) if rendered.kind in _GENERATED)]
    marks = [replayed.position(rendered, path) for path in made]
    return _History(
        wired=frozenset(wire.target.path for wire in replayed.wires_to.get(id, ()) if wire.target is not None),
        json=any(write.object == id for patch in replayed.patches if patch.kind == "json" for write in patch.writes),
        listed=node is not None and node.mark is not None and node.mark.column > 1,
        generated=any(mark is not None and _set_by(sources, mark.file) for mark in marks),
        names=names,
        set_by=partial(_set_by, sources),
    )


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


@dataclass(frozen=True, slots=True)
class _History:
    """What was done to one object."""

    wired: frozenset[Path]
    json: bool
    listed: bool
    generated: bool
    names: frozenset[str]
    """Of all rendered objects."""
    set_by: Callable[[str], bool]
    """Whether the values of a file are set by code."""

    def reason(self, path: Path, value: Any, engine: tuple[str, int, int] | None, ours: Position | None) -> str:
        if ours is None:
            return ""
        reasons = {
            "same": engine == (ours.file, ours.line, ours.column),
            "wired": any(path[:end] in self.wired for end in range(1, len(path) + 1)),
            "set": self.set_by(ours.file) or (engine is None and self.generated),
            "identity": path in _IDENTITY,
            "json": engine is None and self.json,
            "listed": engine is None and self.listed,
            "renamed": value in self.names,
            "annotation": engine is None and path[:2] == ("metadata", "annotations"),
            "added": engine is None and path[-2:-1] == ("finalizers",),
            "key": path[-1] in _KEYS and len(path) > 1 and type(path[-2]) is int,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


_IDENTITY: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata", "name"))
_GENERATED = ("ConfigMap", "Secret")
_KEYS = ("name", "mountPath", "containerPort", "protocol", "port")


def _set_by(sources: Sources, file: str) -> bool:
    name = file.rpartition("/")[2]
    if not name.endswith((".yaml", ".yml")):
        return True
    if name in ("kustomization.yaml", "kustomization.yml"):
        return True
    versions = [document.at(("apiVersion",)) for document in sources.documents(file)]
    return any(version is not None and version.value == "builtin" for version in versions)
