r"""Makes text from manifests, file names and messages harmless to whatever reads the report.

Characters that do not print (controls, bidirectional and zero-width marks, lone surrogates, spaces that are not the
space) are shown as \x.., \u.... or \U........; what a CI runner would take for a command loses its meaning and shows.
"""

import re

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Characters that count as printable and leave no mark: joiners, fillers and selectors of scripts."""

_BRACKET_COMMAND = re.compile(r"#(?=#[A-Za-z]*\[)")
"""`##[` of GitHub, `##vso[` of Azure, `##teamcity[`: found anywhere in a line by their runners."""

_LINE_COMMAND = re.compile(r"^( *):(?=:)", re.MULTILINE)
"""`::name::` of GitHub: found at the start of a line, after spaces."""


def cells(line: str) -> list[str]:
    """How each character of one line is shown. A tab and a line break are characters that do not print."""
    shown = [_show(character) for character in line]
    for command in _BRACKET_COMMAND.finditer(line):
        shown[command.start()] = r"\x23"
    return shown


def visible(text: str) -> str:
    """`text` as one line that neither a terminal nor a CI runner obeys. At the start of a line it needs `inert` too."""
    if text.isprintable() and "##" not in text and _INVISIBLE.isdisjoint(text):
        return text
    return "".join(cells(text))


def visible_lines(text: str) -> list[str]:
    """The lines of `text`, each of them harmless at the start of a line too."""
    return [inert(visible(line)) for line in text.splitlines()]


def inert(lines: str) -> str:
    """Lines of visible text, none of which starts as a command of GitHub does."""
    return _LINE_COMMAND.sub(r"\1\\x3a", lines)


def json_text(dumped: str) -> str:
    """What `json.dumps` made of ASCII, with the same meaning and without a raw DEL or a CI command."""
    return _BRACKET_COMMAND.sub(r"\\u0023", dumped).replace("\x7f", r"\u007f")


def whole(text: str) -> str:
    r"""`text` as JSON can carry it: the bytes of a file name that are not UTF-8 become \x.., lone surrogates \u....."""
    return text if _is_whole(text) else "".join(_show(c) if "\ud800" <= c <= "\udfff" else c for c in text)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
