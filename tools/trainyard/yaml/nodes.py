"""YAML as Kubernetes reads it, each value with the place where it was written.

Built from parser events, so that one pass gives values, marks and bounds. Plain scalars resolve as in the Go library
that kustomize and kubectl read with, not as in PyYAML: `2e-5` is a number, `yes` a string, `010` is eight.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from trainyard import limits
from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.yaml.characters import Inside
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.mistakes import control_character, lines_of, problem_words
from trainyard.yaml.scalars import resolve

Mark = Position
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Source:
    """The text that nodes were read from."""

    __slots__ = ("_lines", "embedded", "file", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.embedded: dict[tuple[int, int, str], Node | None] = {}
        self._lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        """Lines of the text without their ends."""
        if self._lines is None:
            self._lines = lines_of(self.text)
        return self._lines


class Settings(Source):
    """A file of NAME=value. Its lines end at line feeds alone, as kustomize reads it."""

    __slots__ = ()

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = self.text.removeprefix("\ufeff").split("\n")
        return self._lines


RawMark = tuple[Source, int, int, int]
"""Source, line, column, length: a Position is made of it only when somebody asks."""


class Node:
    """A value and where it stands. Scalars are never changed once made; maps and lists are, by the replay."""

    __slots__ = ("key_raw", "raw", "style", "tag", "text", "value")

    def __init__(
        self,
        value: Any,
        raw: RawMark | None,
        key_raw: RawMark | None = None,
        style: str = "",
        text: str = "",
        tag: str = "",
    ) -> None:
        self.value = value
        """Scalar, dict[str, Node] or list[Node]."""
        self.raw = raw
        self.key_raw = key_raw
        self.style = style
        """How a scalar was written: "|", ">", "'", '"' or "" for plain; "file" for the text of a whole file; "{" for a
        flow map or list."""
        self.text = text
        """A scalar as written, unquoted: `2e-5` stays `2e-5`."""
        self.tag = tag
        """str, int, float, bool or null for scalars; map or seq."""

    def __repr__(self) -> str:
        return f"Node({self.plain()!r}, {self.mark})"

    @property
    def mark(self) -> Mark | None:
        """Where the value stands; None where nobody wrote it."""
        return _position(self.raw)

    @property
    def key_mark(self) -> Mark | None:
        """Where its key stands; None for list items and whole documents."""
        return _position(self.key_raw)

    def plain(self) -> Any:
        """The value as plain Python data, as `json.load` would give it."""
        value = self.value
        if type(value) is dict:
            return {key: child.plain() for key, child in value.items()}
        if type(value) is list:
            return [child.plain() for child in value]
        return value

    def at(self, path: Path) -> "Node | None":
        """The node at a path, which may go on into a JSON or YAML document in a string. None where there is none."""
        node: Node | None = self
        for step in path:
            if node is not None and type(node.value) is str:
                node = load_embedded(node)
            node = None if node is None else node.child(step)
            if node is None:
                return None
        return node

    def child(self, step: str | int) -> "Node | None":
        """The field or list item of that name, or None."""
        value = self.value
        if type(value) is dict:
            return value.get(step) if type(step) is str else None
        if type(value) is list and type(step) is int and -len(value) <= step < len(value):
            found: Node = value[step]
            return found
        return None

    def copy(self) -> "Node":
        """A copy that may be changed. Scalars are shared."""
        value = self.value
        if type(value) is dict:
            copied: Any = {
                key: child if type(child.value) is not dict and type(child.value) is not list else child.copy()
                for key, child in value.items()
            }
        elif type(value) is list:
            copied = [
                child if type(child.value) is not dict and type(child.value) is not list else child.copy()
                for child in value
            ]
        else:
            return self
        return Node(copied, self.raw, self.key_raw, self.style, "", self.tag)

    def under(self, key_raw: RawMark | None) -> "Node":
        """The same value under another key."""
        return Node(self.value, self.raw, key_raw, self.style, self.text, self.tag)


def load_documents(text: str, file: str, twice: list[InputError] | None = None) -> list[Node]:
    """Every document of a file that holds something.

    InputError, with line and column, for what cannot be read: broken YAML, a key that stands twice or is not a string,
    and what goes beyond `limits` in bytes, depth, or nodes once aliases are expanded. With `twice`, errors for keys
    that stand twice are put there, and the last value counts, as for kubectl.
    """
    if len(text) > limits.FILE_BYTES:
        raise InputError(f"file is larger than {limits.FILE_BYTES // 1024 // 1024} MiB", file)
    text = text.removeprefix("\ufeff")
    bad = control_character(text)
    if bad is not None:
        line, column, name = bad
        raise InputError(f"control character {name} may not stand in YAML", file, line, column)
    return _Builder(Source(file, text), None, twice).documents()


def load_embedded(node: Node, source_lines: Sequence[str] | None = None) -> Node | None:
    """The JSON or YAML document that a string holds, with positions in the outer file, or None where it holds none.

    Positions are exact in block scalars and in quoted or plain scalars of one line; elsewhere each is the string's.
    """
    text = node.value
    if type(text) is not str or not any(sign in text for sign in ":[{-"):
        return None
    if node.raw is None:
        return _embedded(node, None)
    source, line, column, _ = node.raw
    cache = source.embedded
    key = (line, column, text)
    if key not in cache:
        cache[key] = _embedded(node, source.lines if source_lines is None else source_lines)
    return cache[key]


def _embedded(node: Node, lines: Sequence[str] | None) -> Node | None:
    if len(node.value) > limits.FILE_BYTES or control_character(node.value) is not None:
        return None
    source = node.raw[0] if node.raw is not None else Source("", "")
    try:
        documents = _Builder(Source(source.file, node.value), Inside(node, lines)).documents()
    except InputError:
        return None
    if len(documents) != 1 or type(documents[0].value) not in (dict, list):
        return None
    return documents[0]


def _position(raw: RawMark | None) -> Mark | None:
    return None if raw is None else Position(raw[0].file, raw[1], raw[2], raw[3])


class _Frame:
    """A map or list that is being read."""

    __slots__ = ("anchor", "firsts", "key", "key_raw", "keys", "merges", "node", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.size = 1
        self.key: str | None = None
        self.key_raw: RawMark | None = None
        self.merges: list[Node] | None = None
        self.firsts: dict[str, RawMark | None] = {}
        """Where keys that stand twice stood first."""


_MERGE = "<<"


class _Builder:
    """Reads one text. `inside` places the marks where the text is a string in another file.

    Errors for keys that stand twice are put into `twice`, or raised where it is None.
    """

    def __init__(self, source: Source, inside: Inside | None, twice: list[InputError] | None = None) -> None:
        self.source = source
        self.inside = inside
        self.twice = twice
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.open_anchors: set[str] = set()
        self.stack: list[_Frame] = []
        self.found: list[Node] = []
        self.nodes = 0

    def documents(self) -> list[Node]:
        loader = _Loader(self.source.text)
        try:
            while True:
                event = loader.get_event()
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    self._scalar(event)
                elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                    self._open(event, kind is yaml.MappingStartEvent)
                elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                    self._close(event)
                elif kind is yaml.AliasEvent:
                    self._alias(event)
                elif kind is yaml.DocumentStartEvent:
                    self.anchors.clear()
                elif kind is yaml.StreamEndEvent:
                    return self.found
        except yaml.MarkedYAMLError as error:
            message, line, column = problem_words(error, self.source.lines)
            if line > len(self.source.lines):  # the parser ends a last line that nobody ended
                line, column = len(self.source.lines), len(self.source.lines[-1]) + 1
            raise InputError(message, self.source.file, line, column) from None
        except yaml.YAMLError as error:
            raise InputError(f"YAML that cannot be read: {error}", self.source.file) from None
        finally:
            loader.dispose()

    def _raw(self, start: Any, end: Any) -> RawMark | None:
        if self.inside is not None:
            return self.inside.place(start, end)
        if start.index >= len(self.source.text):  # behind a last line that nobody ended, the parser is on the next
            return (self.source, len(self.source.lines), len(self.source.lines[-1]) + 1, 1)
        length = end.column - start.column if end.line == start.line else 1
        return (self.source, start.line + 1, start.column + 1, length if length > 0 else 1)

    def _fail(self, message: str, mark: Any) -> InputError:
        return InputError(message, self.source.file, mark.line + 1, mark.column + 1)

    def _count(self, size: int, mark: Any) -> None:
        self.nodes += size
        if self.nodes > limits.NODES:
            raise self._fail(f"more than {limits.NODES} values once its aliases are expanded", mark)

    def _scalar(self, event: Any) -> None:
        text, tag = event.value, event.tag
        style = event.style or ""
        stack = self.stack
        frame = stack[-1] if stack else None
        if frame is not None and frame.key is None and frame.node.tag == "map":
            self._key(frame, event, text, tag, style)
            return
        self._count(1, event.start_mark)
        raw = self._raw(event.start_mark, event.end_mark)
        if style and tag is None:
            node = Node(text, raw, None, style, text, "str")
        else:
            kind, value = resolve(text, tag, plain=not style)
            node = Node(value, raw, None, style, text, kind)
        if event.anchor:
            self.anchors[event.anchor] = (node, 1)
        self._add(node, 1)

    def _key(self, frame: _Frame, event: Any, text: str, tag: str | None, style: str) -> None:
        if text == _MERGE and not style and tag is None:
            frame.key, frame.key_raw = _MERGE, None
            frame.merges = frame.merges if frame.merges is not None else []
            return
        kind = "str" if style and tag is None else resolve(text, tag, plain=not style)[0]
        if kind != "str":
            words = {"null": "empty", "bool": "true or false", "int": "a number", "float": "a number"}.get(kind, kind)
            hint = "" if kind == "null" and not text else f': write "{text}" in quotes'
            raise self._fail(f"a key is {words}; keys are strings{hint}", event.start_mark)
        raw = self._raw(event.start_mark, event.end_mark)
        seen = frame.node.value.get(text)
        if seen is not None:
            first = frame.firsts.setdefault(text, seen.key_raw)
            where = f"; the first stands on line {first[1]}" if first is not None else ""
            error = self._fail(f'key "{text}" stands twice in one map{where}', event.start_mark)
            if self.twice is None:
                raise error
            self.twice.append(error)
        if event.anchor:
            self.anchors[event.anchor] = (Node(text, raw, None, style, text, "str"), 1)
        frame.key, frame.key_raw = text, raw

    def _open(self, event: Any, is_map: bool) -> None:
        stack = self.stack
        self._count(1, event.start_mark)
        if stack and stack[-1].key is None and stack[-1].node.tag == "map":
            raise self._fail("a key is a map or a list; keys are strings", event.start_mark)
        if len(stack) >= limits.DOCUMENT_DEPTH:
            raise self._fail(f"nested deeper than {limits.DOCUMENT_DEPTH} levels", event.start_mark)
        raw = self._raw(event.start_mark, event.start_mark)
        flow = "{" if event.flow_style else ""
        node = Node({}, raw, None, flow, "", "map") if is_map else Node([], raw, None, flow, "", "seq")
        if event.anchor:
            self.anchors.pop(event.anchor, None)
            self.open_anchors.add(event.anchor)
        stack.append(_Frame(node, event.anchor))

    def _close(self, event: Any) -> None:
        frame = self.stack.pop()
        node = frame.node
        if node.style and node.raw is not None and self.inside is None:
            source, line, column, _ = node.raw
            if event.end_mark.line + 1 == line:
                node.raw = (source, line, column, event.end_mark.column + 1 - column)
        elif not node.style and node.tag == "map" and node.value:
            first = next(iter(node.value.values()))
            if first.key_raw is not None and node.raw is not None and first.key_raw[1:3] == node.raw[1:3]:
                node.raw = first.key_raw
        if frame.merges:
            for merged in frame.merges:
                for key, child in merged.value.items():
                    node.value.setdefault(key, child)
        if frame.anchor:
            self.open_anchors.discard(frame.anchor)
            self.anchors[frame.anchor] = (node, frame.size)
        self._add(node, frame.size)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name in self.open_anchors:
            raise self._fail(f"alias *{name} stands inside the value that it names", event.start_mark)
        if name not in self.anchors:
            raise self._fail(f"alias *{name} names no anchor above it", event.start_mark)
        node, size = self.anchors[name]
        self._count(size, event.start_mark)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.key is None and frame.node.tag == "map":
            if node.tag != "str":
                raise self._fail("a key is a map, a list or no string; keys are strings", event.start_mark)
            event.value, event.tag, event.style, event.anchor = node.value, None, '"', None
            self._key(frame, event, node.value, None, '"')
            return
        self._depth(node, event)
        self._add(node.under(None), size)

    def _depth(self, node: Node, event: Any) -> None:
        """Aliases add the depth of what they name: refuse what would be too deep once expanded."""
        level, nodes = len(self.stack), [node]
        seen: set[int] = set()
        while nodes:
            below: list[Node] = []
            for parent in nodes:
                if id(parent.value) in seen:
                    continue
                if type(parent.value) is dict:
                    seen.add(id(parent.value))
                    below.extend(parent.value.values())
                elif type(parent.value) is list:
                    seen.add(id(parent.value))
                    below.extend(parent.value)
            nodes, level = below, level + 1
            if nodes and level > limits.DOCUMENT_DEPTH:
                raise self._fail(f"nested deeper than {limits.DOCUMENT_DEPTH} levels", event.start_mark)

    def _add(self, node: Node, size: int) -> None:
        if not self.stack:
            if node.value is not None:
                self.found.append(node)
            return
        frame = self.stack[-1]
        frame.size += size
        if frame.node.tag == "seq":
            frame.node.value.append(node)
            return
        key, frame.key = frame.key, None
        if key == _MERGE and frame.key_raw is None:
            self._merge(frame, node)
            return
        node.key_raw = frame.key_raw
        frame.node.value[key] = node

    def _merge(self, frame: _Frame, node: Node) -> None:
        merged = node.value if node.tag == "seq" else [node]
        for part in merged:
            if part.tag != "map":
                line, column = (node.raw[1], node.raw[2]) if node.raw is not None else (0, 0)
                raise InputError("<< takes a map or a list of maps", self.source.file, line, column)
        assert frame.merges is not None
        frame.merges.extend(merged)
