"""A YAML text that can be edited: a whole file, or a document in a string of one, with its offsets in the file."""

from collections.abc import Callable
from dataclasses import dataclass

from trainyard.errors import InputError
from trainyard.fixes.layout import Layout, Piece
from trainyard.fixes.refusal import Refusal
from trainyard.yaml.sources import Sources

_OTHER_BREAKS = ("\x85", "\u2028", "\u2029")


@dataclass(frozen=True, slots=True)
class Canvas:
    """A text, its layout, and how it stands in its file."""

    file: str
    layout: Layout
    whole: Layout
    """The layout of the file."""
    outer: Callable[[int], int]
    """From an offset in this text to one in the file."""
    indent: str = ""
    """Blanks before each further line."""
    one_line: bool = False
    """True where no line may be added."""
    escape: Callable[[str], str] = str
    """How text is written where the document stands in quotes."""
    newline: str = "\n"

    def inner(self, offset: int) -> int | None:
        """The offset in this text of one in the file; None for a character that is not of this text."""
        if self.layout is self.whole:
            return offset
        return next((each for each in range(len(self.layout.text) + 1) if self.outer(each) == offset), None)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column in the file, of an offset in this text."""
        return self.whole.place(self.outer(offset))


def canvas_of(sources: Sources, file: str) -> Canvas:
    """The text of a file. Refusal for one that is not YAML, or whose lines cannot be counted."""
    found = sources.kept.get(("canvas", file))
    if isinstance(found, Canvas):
        return found
    try:
        text = sources.text(file).removeprefix("\ufeff")
        if sources.twice(file):
            raise Refusal("a key of the file stands twice: remove one of the two first")
    except InputError:
        raise Refusal("its file cannot be read") from None
    check_breaks(text)
    try:
        layout = Layout(text)
    except ValueError:
        raise Refusal("the file is not YAML") from None
    canvas = Canvas(file, layout, layout, lambda offset: offset, newline="\r\n" if "\r\n" in text else "\n")
    sources.kept["canvas", file] = canvas
    return canvas


def check_breaks(text: str) -> None:
    """Refusal where the YAML parser counts other lines than an edit does, which ends them at line feeds alone."""
    if any(sign in text for sign in _OTHER_BREAKS) or "\r" in text.replace("\r\n", ""):
        raise Refusal("the file ends its lines in an unusual way")


def within(canvas: Canvas, piece: Piece) -> Canvas:
    """The document in a scalar. Refusal where its characters cannot be told from those of the file."""
    if piece.shared or piece.marked:
        raise Refusal("the text that it stands in has an anchor or a tag: edit it by hand")
    written = canvas.layout.text[piece.start : piece.end]
    if piece.style == "|":
        return _in_block(canvas, piece, written)
    quoted = piece.style in ("'", '"')
    inner = written[1:-1] if quoted else written
    if "\n" in written or piece.style == ">":
        raise Refusal("it stands in a text that is folded over several lines: edit it by hand")
    if piece.style == '"' and "\\" in inner:
        inner, places = _unescaped(inner, '\\"', '"')
    elif piece.style == "'":
        inner, places = _unescaped(inner, "''", "'")
    else:
        places = list(range(len(inner) + 1))
    if inner != piece.value:
        raise Refusal("it stands in a text that is written with escapes: edit it by hand")
    first = piece.start + quoted
    escapes: dict[str, Callable[[str], str]] = {
        "'": lambda text: text.replace("'", "''"),
        '"': lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
    }
    outer = canvas.outer
    return Canvas(
        canvas.file,
        _layout(inner),
        canvas.whole,
        lambda offset: outer(first + places[offset]),
        one_line=True,
        escape=escapes.get(piece.style, str),
    )


def _in_block(canvas: Canvas, piece: Piece, written: str) -> Canvas:
    header, _, body = written.partition("\n")
    lines, inner = body.split("\n"), piece.value.rstrip("\n").split("\n")
    first = next((row for row, line in enumerate(inner) if line.strip()), None)
    if first is None or first >= len(lines):
        raise Refusal("the text that it stands in is empty")
    indent = len(lines[first].rstrip("\r")) - len(inner[first])
    same = all(
        line.rstrip("\r") == " " * indent + text or not text.strip() for line, text in zip(lines, inner, strict=False)
    )
    if indent < 0 or not same or len(lines) != len(inner):
        raise Refusal("the lines of the text that it stands in cannot be told apart: edit it by hand")
    layout = _layout(piece.value.rstrip("\n") + "\n")
    begin = piece.start + len(header) + 1
    begins = [begin]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    outer = canvas.outer

    def out(offset: int) -> int:
        row, column = layout.place(offset)
        if row > len(lines):
            return outer(piece.end)
        return outer(begins[row - 1] + min(indent, len(lines[row - 1].rstrip("\r"))) + column - 1)

    return Canvas(canvas.file, layout, canvas.whole, out, indent=canvas.indent + " " * indent, newline=canvas.newline)


def _layout(text: str) -> Layout:
    try:
        return Layout(text)
    except ValueError:
        raise Refusal("the text that it stands in is not YAML") from None


def _unescaped(text: str, escaped: str, sign: str) -> tuple[str, list[int]]:
    """A text without one kind of escape, and where each character and the end stood."""
    places: list[int] = []
    plain = ""
    index = 0
    while index < len(text):
        places.append(index)
        step = len(escaped) if text.startswith(escaped, index) else 1
        plain += sign if step > 1 else text[index]
        index += step
    return plain, [*places, index]
