"""A remedy as edits of the files that hold its fields, or the reason why there are none."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from trainyard.cache import text_digest
from trainyard.findings.finding import Edit, Fix, Position
from trainyard.fixes import editing
from trainyard.fixes.canvas import Canvas, canvas_of, check_breaks, within
from trainyard.fixes.editing import Stretch
from trainyard.fixes.layout import Piece
from trainyard.fixes.refusal import Refusal
from trainyard.objects.manifests import way_to
from trainyard.objects.origin import Origin
from trainyard.objects.remedy import Act, Change, Remedy
from trainyard.workload.made import written
from trainyard.yaml.nodes import Node, RawMark, Settings, load_embedded
from trainyard.yaml.sources import Sources

_MADE = "kustomize makes it, and no file holds it as it is"
_OF_ONE_JOB = "TrainingJob"
_DEPTH = 4
"""How many documents in texts of documents are looked into."""


def plan(remedy: Remedy, help: str, origin: Origin, sources: Sources, folder: str = "") -> Fix:
    """The edits that make all changes of a remedy. `help` says what they do where the remedy does not.

    `folder` is the job folder that the remedy is for. What its TrainingJob has from elsewhere is a default of other
    jobs too, so the value goes into the job's own job.yaml.
    """
    says = remedy.says or help
    try:
        edits = list(dict.fromkeys(e for change in remedy.changes for e in _edits(change, origin, sources, folder)))
        if _overlap(edits):
            raise Refusal("its changes touch one another: edit it by hand")
    except Refusal as refusal:
        return Fix(says, remedy.safe, refused=refusal.reason)
    return Fix(says, remedy.safe, tuple(sorted(edits, key=lambda edit: (edit.file, edit.line, edit.column))))


def plan_at(node: Node, act: Act, value: Any, says: str, sources: Sources, *, safe: bool = True) -> Fix:
    """The same for a node of a source file itself. ADD and SET are about what it holds, the others about itself.

    To SET something is to give a map a key: `value` is the pair.
    """
    try:
        if act is Act.SET:
            edits = [_insert(node, value[0], value[1], sources)]
        elif act is Act.ADD:
            canvas, piece = _find(node.raw, sources, key=False)
            edits = [_edit(canvas, editing.appended(canvas, _plain(canvas, piece, "seq"), value), sources)]
        else:
            canvas, piece = _find(node.key_raw or node.raw, sources, key=node.key_raw is not None)
            edits = [_edit(canvas, _one(canvas, piece, act, value), sources)]
    except Refusal as refusal:
        return Fix(says, safe, refused=refusal.reason)
    return Fix(says, safe, tuple(edits))


def _one(canvas: Canvas, piece: Piece, act: Act, value: Any) -> Stretch:
    if piece.shared or piece.marked:
        raise _has_anchor(canvas, piece)
    holder = piece.parent
    if act is Act.RENAME and holder is not None:
        return editing.renamed(piece, holder, value)
    return editing.removed(canvas, next((v for k, v in holder.entries if k is piece), piece) if holder else piece)


def _edits(change: Change, origin: Origin, sources: Sources, folder: str) -> Iterator[Edit]:
    spot = written(change.spot)
    trace = origin.trace(spot.object, spot.path)
    if trace is None:
        raise Refusal("it is not known where it was written")
    nodes = trace.nodes
    if folder and spot.object.kind == _OF_ONE_JOB and not _lies_in(folder, nodes[-1]):
        yield _in_job_file(change, f"{folder}/job.yaml", sources)
        return
    missing = spot.path[len(nodes) - 1 :]
    if missing:
        yield _absent(change, nodes[-1], missing, sources)
        return
    node = nodes[-1]
    if trace.copied_from is not None and change.act is not Act.ADD and not isinstance(node.value, dict | list):
        source, meant = trace.copied_from, "change it there"
        if folder and not source.file.startswith(f"{folder}/"):
            meant = f"set it in {folder}/job.yaml" if source.file.startswith("base/") else meant
        raise Refusal(f"the wiring copies it from {_where(source)}: {meant}")
    if change.act in (Act.RENAME, Act.REMOVE):
        canvas, piece = _find(node.key_raw or node.raw, sources, key=node.key_raw is not None)
        step = spot.path[-1] if spot.path else ""
        if node.key_raw is not None and piece.value != step:
            raise Refusal(_MADE)
        if node.key_raw is None and not _is_of(piece, node):
            raise Refusal(_MADE)
        yield _edit(canvas, _one(canvas, piece, change.act, change.value), sources)
        return
    found = _of_pair(node, change, sources) if isinstance(node.value, str) else None
    if found is not None:
        yield found
        return
    canvas, piece = _find(node.raw, sources, key=False)
    if change.act is Act.ADD:
        yield _edit(canvas, editing.appended(canvas, _plain(canvas, piece, "seq"), change.value), sources)
        return
    if not _is_of(piece, node):
        raise Refusal(_MADE)
    if piece.shared or piece.marked or piece.kind == "alias":
        raise _has_anchor(canvas, piece)
    if change.act is Act.WORD:
        yield _edit(
            canvas, editing.reworded(canvas, _plain(canvas, piece, "scalar"), change.old, change.value), sources
        )
    elif change.act is Act.BEGIN:
        yield _edit(canvas, editing.begun(canvas, _plain(canvas, piece, "scalar"), change.value), sources)
    else:
        yield _edit(canvas, editing.replaced(canvas, piece, change.value), sources)


def _lies_in(folder: str, node: Node) -> bool:
    return node.mark is None or node.mark.file.startswith(f"{folder}/")


def _in_job_file(change: Change, file: str, sources: Sources) -> Edit:
    """The value that a job sets for itself where a default would stand."""
    if change.act is not Act.SET:
        raise Refusal("it is a default of other jobs, too: edit it by hand")
    way = way_to(sources.documents(file)[0], change.spot.path)
    missing = change.spot.path[len(way) - 1 :]
    if not missing:
        raise Refusal(_MADE)
    return _absent(change, way[-1], missing, sources)


def _absent(change: Change, above: Node, missing: tuple[str | int, ...], sources: Sources) -> Edit:
    """What is not there yet, in the nearest map above that is."""
    value = [change.value] if change.act is Act.ADD else change.value
    if change.act not in (Act.SET, Act.ADD):
        raise Refusal("it is not there")
    for step in reversed(missing[1:]):
        if not isinstance(step, str):
            raise Refusal("the list that it belongs to is not there")
        value = {step: value}
    if not isinstance(missing[0], str):
        raise Refusal("the item that it belongs to is not there")
    if isinstance(above.value, str):
        above = load_embedded(above) or above
    return _insert(above, missing[0], value, sources)


def _insert(above: Node, key: str, value: Any, sources: Sources) -> Edit:
    if not isinstance(above.value, dict):
        raise Refusal("what it belongs to is not a map")
    canvas, piece = _find(above.raw, sources, key=False)
    return _edit(canvas, editing.inserted(canvas, _plain(canvas, piece, "map"), key, value), sources)


def _of_pair(node: Node, change: Change, sources: Sources) -> Edit | None:
    """The value of NAME=value, in a literal of a generator or in a file of such lines; None where it is none."""
    if node.raw is None or change.act is not Act.SET:
        return None
    source, line, column, _ = node.raw
    whole = sources.text(source.file).removeprefix("\ufeff")
    if not isinstance(source, Settings):
        check_breaks(whole)
    lines = whole.split("\n")
    text = lines[line - 1].removesuffix("\r") if 0 < line <= len(lines) else ""
    end = column - 1 + len(node.value)
    if not 2 <= column <= len(text) + 1 or text[column - 2] != "=" or text[column - 1 : end] != node.value:
        return None
    if text[end:].lstrip("'\"").lstrip().partition("#")[0].strip():
        return None
    new = str(change.value)
    if not new.replace("_", "").replace(".", "").replace("-", "").isalnum():
        raise Refusal("it is written as NAME=value, where the new value would need quotes: edit it by hand")
    return Edit(source.file, line, column, line, end + 1, new, text_digest(sources.text(source.file)))


def _find(raw: RawMark | None, sources: Sources, *, key: bool) -> tuple[Canvas, Piece]:
    """The piece that begins at a mark, in its file or in a document in one of its texts."""
    if raw is None or not raw[0].file:
        raise Refusal(_MADE)
    source, line, column, _ = raw
    canvas = canvas_of(sources, source.file)
    if sources.text(source.file).removeprefix("\ufeff") != source.text.removeprefix("\ufeff"):
        raise Refusal("the text that it stands in is made from another")
    offset = canvas.layout.offset(line, column)
    for _ in range(_DEPTH):
        start = canvas.inner(offset)
        piece = (canvas.layout.keys if key else canvas.layout.values).get(-1 if start is None else start)
        if piece is not None:
            return canvas, piece
        around = None if start is None else canvas.layout.covering(start)
        if around is None:
            break
        canvas = within(canvas, around)
    raise Refusal(_MADE)


def _is_of(piece: Piece, node: Node) -> bool:
    """False where the text at a node's mark is not its own: all that a folded text holds has the mark of the whole."""
    return piece.kind != "scalar" or (not isinstance(node.value, dict | list) and piece.value == node.text)


def _plain(canvas: Canvas, piece: Piece, kind: str) -> Piece:
    if piece.shared or piece.marked or piece.kind == "alias":
        raise _has_anchor(canvas, piece)
    if piece.kind != kind:
        raise Refusal(_MADE)
    return piece


def _has_anchor(canvas: Canvas, piece: Piece) -> Refusal:
    line, column = canvas.place(piece.start)
    return Refusal(f"an anchor, an alias or a tag is written at {canvas.file}:{line}:{column}: edit it there by hand")


def _edit(canvas: Canvas, stretch: Stretch, sources: Sources) -> Edit:
    if canvas.one_line and "\n" in stretch.text:
        raise Refusal("it stands in a text of one line: edit it by hand")
    text = canvas.escape(stretch.text).replace("\n", canvas.newline + canvas.indent)
    digest = text_digest(sources.text(canvas.file))
    return Edit(canvas.file, *canvas.place(stretch.start), *canvas.place(stretch.end), text, digest)


def _overlap(edits: list[Edit]) -> bool:
    placed = sorted((edit.file, edit.line, edit.column, edit.end_line, edit.end_column) for edit in edits)
    return any(one[0] == other[0] and other[1:3] < one[3:5] for one, other in pairwise(placed))


def _where(position: Position) -> str:
    return f"{position.file}:{position.line}:{position.column}"
