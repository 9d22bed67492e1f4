"""Taking a shell script apart into the commands that it runs, without running anything.

It reads what people write into `sh -c`: quoting, line continuations, operators, assignments, exports, defaults.
What only a running shell can know (command substitution, an unset variable, a branch) makes a word not known.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainyard.objects.objects import Spot
from trainyard.workload.model import EnvVar, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)\Z", re.DOTALL)
_ASSIGNING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?)([-=+?])(.*))?\Z", re.DOTALL)
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|\(\(|[;&|()<>\n]")
_OPENING = frozenset({"then", "do", "case"})
_CLOSING = frozenset({"fi", "done", "esac"})
_KEYWORDS = (
    frozenset({"if", "while", "until", "for", "select", "else", "elif", "!", "{", "}", "time", "in"})
    | _OPENING
    | _CLOSING
)
_RUNTIME = frozenset({"HOSTNAME", "HOME", "PATH", "PWD", "RANDOM", "USER", "SHELL", "SECONDS", "UID", "LINENO", "PPID"})
_TESTS = frozenset({"[", "[[", "test"})

# A training command is a few hundred bytes. The bounds keep a script made to grow from eating the machine.
SCRIPT_CHARACTERS = 32 * 1024
_WORD_CHARACTERS = 64 * 1024
_WORDS = 10_000
_NESTING = 8
_COMMANDS = 1_000


class _TooMuchError(Exception):
    """The script is beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command and the environment that it is started in."""

    words: tuple[Word, ...]
    env: Mapping[str, EnvVar]
    complete: bool = True
    """False where more variables may be set than `env` holds."""
    certain: bool = True
    """False where a branch, a loop or the command before it decides whether it runs."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Variables that are set on a line of their own, as they are written: `code=$?`."""

    words: tuple[Word, ...]


Token = Command | Assignment | str
"""A part of a script: what it runs or sets, or the operator or keyword between: `|`, `&&`, a line break, `if`, `{`."""


def commands(
    script: str, spot: Spot, env: Mapping[str, EnvVar], *, complete: bool = True, arguments: Sequence[Word] = ()
) -> tuple[Command, ...]:
    """The simple commands of a script in the order they are written, those of every branch.

    `arguments` are $0, $1 and so on; `spot` is the field that holds the script. Empty for a script that is far larger
    than a command line, or grows to be.
    """
    found = tokens(script, spot, env, complete=complete, arguments=arguments) or ()
    return tuple(token for token in found if isinstance(token, Command))


def tokens(
    script: str, spot: Spot, env: Mapping[str, EnvVar], *, complete: bool = True, arguments: Sequence[Word] = ()
) -> tuple[Token, ...] | None:
    """The same with what stands between the commands; None for a script beyond the bounds."""
    if len(script) > SCRIPT_CHARACTERS:
        return None
    try:
        return tuple(_Reader(script, spot, dict(env), set(env), complete, tuple(arguments)).run())
    except _TooMuchError:
        return None


@dataclass(slots=True)
class _Field:
    """A word in the making. An unquoted variable may end it and start the next."""

    text: str = ""
    known: bool = True
    started: bool = False


@dataclass(slots=True)
class _Reader:
    script: str
    spot: Spot
    variables: dict[str, EnvVar]
    exported: set[str]
    complete: bool
    arguments: tuple[Word, ...]
    position: int = 0
    depth: int = 0
    uncertain: bool = False
    all_exported: bool = False
    word_count: int = 0
    command_count: int = 0
    nesting: int = 0
    here_documents: list[str] = field(default_factory=list)

    def run(self) -> Iterator[Token]:
        words: list[Word] = []
        while True:
            operator = self._operator()
            if operator is None and self.position < len(self.script):
                words.extend(self._words())
                continue
            if (operator is not None and operator[0] in "<>") or operator in ("&>", "&>>"):
                self._redirect(operator or "", words)
                continue
            yield from self._finish(words)
            if operator is None:
                return
            yield operator
            tested = bool(words) and words[0].text in _TESTS
            self.uncertain = operator == "||" or (operator == "&&" and (tested or self.uncertain))
            words = []

    def _finish(self, words: list[Word]) -> Iterator[Token]:
        while words and words[0].text in _KEYWORDS:
            keyword = words.pop(0).text
            yield keyword
            self.depth += (keyword in _OPENING) - (keyword in _CLOSING)
            if keyword in ("for", "select") and words:
                self._assign(words[0].text, None)
                return
            if keyword == "case":
                return
        prefix = 0
        while prefix < len(words) and _ASSIGNMENT.match(words[prefix].text):
            prefix += 1
        if prefix == len(words):
            for word in words:
                self._assign_word(word)
            if words:
                yield Assignment(tuple(words))
            return
        self._builtin(words[prefix:])
        exported = {name: self.variables[name] for name in self.variables if name in self.exported}
        for word in words[:prefix]:
            name, _, value = word.text.partition("=")
            exported[name] = EnvVar(name, value if word.known else None, self.spot, raw=value)
        self.command_count += 1
        if self.command_count > _COMMANDS:  # each has its own environment
            raise _TooMuchError
        yield Command(tuple(words[prefix:]), exported, self.complete, self.depth == 0 and not self.uncertain)

    def _builtin(self, words: list[Word]) -> None:
        name, rest = words[0].text, words[1:]
        if name in ("export", "declare", "typeset", "readonly", "local"):
            exports = name == "export" or any(word.text == "-x" for word in rest)
            for word in rest:
                if _ASSIGNMENT.match(word.text):
                    self._assign_word(word)
                if exports and (match := _NAME.match(word.text)):
                    self.exported.add(match[0])
        elif name == "unset":
            for word in rest:
                self.variables.pop(word.text, None)
        elif name == "set":
            self.all_exported = self.all_exported or any(word.text in ("-a", "allexport") for word in rest)
        elif name == "read":
            for word in rest:
                self._assign(word.text, None)
        elif name in (".", "source", "eval"):
            self.complete = False

    def _assign_word(self, word: Word) -> None:
        match = _ASSIGNMENT.match(word.text)
        if match is not None:
            self._assign(match[1], match[3] if word.known and not match[2] else None)

    def _assign(self, name: str, value: str | None) -> None:
        certain = self.depth == 0 and not self.uncertain
        self.variables[name] = EnvVar(name, value if certain else None, self.spot, raw=value)
        if self.all_exported:
            self.exported.add(name)

    def _operator(self) -> str | None:
        """The operator at the position, which it passes; blanks, comments and continued lines before it are dropped."""
        while self.position < len(self.script):
            if self.script[self.position] in " \t\r":
                self.position += 1
            elif self.script.startswith("\\\n", self.position):
                self.position += 2
            elif self.script[self.position] == "#":
                self.position = self._until("\n", self.position)
            else:
                break
        match = _OPERATOR.match(self.script, self.position)
        if match is None:
            return None
        self.position = match.end()
        if match[0] == "\n" and self.here_documents:
            self._skip_here_documents()
        return match[0]

    def _redirect(self, operator: str, words: list[Word]) -> None:
        end = self.position - len(operator)
        if words and words[-1].text.isdigit() and self.script.endswith(words[-1].text, 0, end):
            words.pop()
        if operator in ("<", ">") and self.script.startswith("(", self.position):
            self.position = self._closing("(", ")")  # a process, whose name is a word: diff <(a) <(b)
            words.append(Word(operator, self.spot, known=False))
            return
        self._operator_blanks()
        if self.script.startswith((">(", "<("), self.position):
            self.position += 1
            self.position = self._closing("(", ")")
            return
        target = self._words() if self.position < len(self.script) else []
        if operator in ("<<", "<<-") and target:
            self.here_documents.append(target[0].text)

    def _operator_blanks(self) -> None:
        while self.position < len(self.script) and self.script[self.position] in " \t":
            self.position += 1

    def _skip_here_documents(self) -> None:
        for delimiter in self.here_documents:
            while self.position < len(self.script):
                end = self._until("\n", self.position)
                line = self.script[self.position : end]
                self.position = end + 1
                if line.strip("\t") == delimiter:
                    break
        self.here_documents.clear()

    def _words(self) -> list[Word]:
        """The word at the position: several where an unquoted variable is split, none where it is empty."""
        fields, start = [_Field()], self.position
        while self.position < len(self.script):
            character = self.script[self.position]
            if character == "(" and _ARRAY.match(fields[-1].text):
                begin, self.position = self.position, self._closing("(", ")")
                self._add(fields, self.script[begin : self.position], known=False)
                continue
            if character in " \t\r" or _OPERATOR.match(self.script, self.position):
                break
            self.position += 1
            if character == "'":
                end = self._until("'", self.position)
                self._add(fields, self.script[self.position : end])
                self.position = end + 1
            elif character == '"':
                self._double_quoted(fields)
            elif character == "\\":
                if self.position < len(self.script) and self.script[self.position] != "\n":
                    self._add(fields, self.script[self.position])
                self.position += 1
            elif character in "$`":
                self._expansion(fields, character, quoted=False)
            else:
                self._add(fields, character)
        written = self.script[start : self.position]
        return [Word(item.text, self.spot, item.known, written) for item in fields if item.started]

    def _double_quoted(self, fields: list[_Field]) -> None:
        if self.script.startswith('$@"', self.position):
            self.position += 3
            self._split(fields, [(word.text, word.known) for word in self.arguments[1:]])
            return
        self._add(fields, "")
        while self.position < len(self.script) and self.script[self.position] != '"':
            character = self.script[self.position]
            self.position += 1
            if character == "\\" and self.position < len(self.script):
                following = self.script[self.position]
                self.position += 1
                self._add(fields, "" if following == "\n" else following if following in '$`"\\' else "\\" + following)
            elif character in "$`":
                self._expansion(fields, character, quoted=True)
            else:
                self._add(fields, character)
        self.position += 1

    def _expansion(self, fields: list[_Field], character: str, *, quoted: bool) -> None:
        start = self.position - 1
        value: str | None = None
        if character == "`":
            self.position = self._until("`", self.position) + 1
        elif self.script.startswith("(", self.position):
            self.position = self._closing("(", ")")
        elif self.script.startswith("{", self.position):
            self.position = self._closing("{", "}")
            value = self._braced(self.script[start + 2 : self.position - 1])
        elif match := _NAME.match(self.script, self.position):
            self.position = match.end()
            value = self._value(match[0])
        elif self.position < len(self.script) and self.script[self.position] in "@*#?$!-0123456789":
            parameter = self.script[self.position]
            self.position += 1
            if parameter in "@*" and not quoted:
                parts = [(part, word.known) for word in self.arguments[1:] for part in word.text.split()]
                self._split(fields, parts)
                return
            if parameter.isdigit() and int(parameter) < len(self.arguments):
                word = self.arguments[int(parameter)]
                value = word.text if word.known else None
        else:
            value = "$"
        if value is None:
            self._add(fields, self.script[start : self.position], known=False)
        elif quoted or _ASSIGNING.match(fields[-1].text):
            self._add(fields, value)
        else:
            self._split_text(fields, value)

    def _value(self, name: str) -> str | None:
        variable = self.variables.get(name)
        return None if variable is None else variable.value

    def _braced(self, inside: str) -> str | None:
        match = _BRACED.match(inside)
        if match is None:
            return None
        name, colon, operator, other = match.groups()
        value = self._value(name)
        if operator is None:
            return value
        unset = name not in self.variables
        if (unset and (not self.complete or name in _RUNTIME)) or (not unset and value is None):
            return None
        missing = unset or (colon and value == "")
        if operator == "+":
            return "" if missing else self._quoted_text(other)
        return self._quoted_text(other) if missing and operator in "-=" else value

    def _quoted_text(self, text: str) -> str | None:
        if self.nesting >= _NESTING:
            raise _TooMuchError
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
        inner = replace(self, script=text, position=0, nesting=self.nesting + 1)
        fields = [_Field(started=True)]
        while inner.position < len(inner.script):
            character = inner.script[inner.position]
            inner.position += 1
            if character in "$`":
                inner._expansion(fields, character, quoted=True)
            else:
                self._add(fields, character)
        return fields[0].text if fields[0].known else None

    def _add(self, fields: list[_Field], text: str, *, known: bool = True) -> None:
        last = fields[-1]
        if len(last.text) + len(text) > _WORD_CHARACTERS:
            raise _TooMuchError
        last.text += text
        last.known = last.known and known
        last.started = True

    def _split(self, fields: list[_Field], values: list[tuple[str, bool]]) -> None:
        self.word_count += len(values)
        if self.word_count > _WORDS:
            raise _TooMuchError
        for index, (text, known) in enumerate(values):
            if index:
                fields.append(_Field())
            self._add(fields, text, known=known)

    def _split_text(self, fields: list[_Field], value: str) -> None:
        parts = value.split()
        if value[:1].isspace() and fields[-1].started and parts:
            fields.append(_Field())
        self._split(fields, [(part, True) for part in parts])
        if value[-1:].isspace() and parts:
            fields.append(_Field())

    def _until(self, mark: str, start: int) -> int:
        end = self.script.find(mark, start)
        return len(self.script) if end < 0 else end

    def _closing(self, opening: str, closing: str) -> int:
        """The position after the bracket that closes the one at the position."""
        depth = 0
        for position in range(self.position, len(self.script)):
            depth += (self.script[position] == opening) - (self.script[position] == closing)
            if depth == 0:
                return position + 1
        return len(self.script)
