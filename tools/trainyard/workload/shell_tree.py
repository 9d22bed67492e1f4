"""The grammar of a shell script: its commands, in the pipelines, lists and compound commands that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.workload.model import Word
from trainyard.workload.shell import Assignment, Command, Token

_SEPARATORS = frozenset({";", "\n", "&"})
_ENDINGS = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}", ")", ";;"})
_LOOPS = frozenset({"while", "until"})
_COUNTED = frozenset({"for", "select"})
_NESTING = 100
"""Compound commands in one another; bash itself allows more, a script that a person reads has few."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`a | b`: all run at once."""

    parts: tuple["Tree", ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """`first && b || c`, from left to right."""

    first: "Tree"
    rest: tuple[tuple[str, "Tree"], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Commands one after another, each with True where nobody waits for it (`&`)."""

    items: tuple[tuple["Tree", bool], ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    """`( ... )`: what it sets, and where it exits, holds inside alone."""

    body: Block


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with what each leads to, in order, and what runs where none holds."""

    branches: tuple[tuple[Block, Block], ...]
    otherwise: Block | None


@dataclass(frozen=True, slots=True)
class Loop:
    """`while` and `until`; `for` has no condition, and how often it runs is not known."""

    condition: Block | None
    body: Block
    until: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The arms of `case`, and whether one of them takes whatever no other takes."""

    arms: tuple[Block, ...]
    has_default: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A function, which runs where it is called."""

    name: str
    body: "Tree"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`(( ... ))`, which is not followed."""


Tree = Command | Assignment | Pipeline | Chain | Block | Subshell | If | Loop | Case | Function | Arithmetic


class _SyntaxError(Exception):
    """The script is not understood."""


def parse(tokens: Sequence[Token]) -> Block | None:
    """The script whose tokens these are; None where it is not understood."""
    parser = _Parser(tokens)
    try:
        found = parser.block()
    except _SyntaxError:
        return None
    return found if parser.index == len(tokens) else None


def parts(tree: Tree) -> tuple[Tree, ...]:
    """What a part of a script is made of, in its order; the body of a function is none of it until it is called."""
    if isinstance(tree, Pipeline):
        return tree.parts
    if isinstance(tree, Chain):
        return (tree.first, *(part for _, part in tree.rest))
    if isinstance(tree, Block):
        return tuple(item for item, _ in tree.items)
    if isinstance(tree, Subshell):
        return (tree.body,)
    if isinstance(tree, If):
        branches = tuple(part for branch in tree.branches for part in branch)
        return branches if tree.otherwise is None else (*branches, tree.otherwise)
    if isinstance(tree, Loop):
        return (tree.body,) if tree.condition is None else (tree.condition, tree.body)
    return tree.arms if isinstance(tree, Case) else ()


def functions(tree: Tree) -> dict[str, Tree | None]:
    """The functions of a script by name; None for one that is defined twice."""
    found: dict[str, Tree | None] = {}
    for part in (tree.body,) if isinstance(tree, Function) else parts(tree):
        for name, body in functions(part).items():
            found[name] = body if found.get(name, body) == body else None
    if isinstance(tree, Function):
        found[tree.name] = None if tree.name in found else tree.body
    return found


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.index = 0
        self.nesting = 0

    def block(self) -> Block:
        """Commands up to a keyword that ends them, or to the end."""
        self.nesting += 1
        if self.nesting > _NESTING:
            raise _SyntaxError
        items: list[tuple[Tree, bool]] = []
        self._skip(*_SEPARATORS)
        while self._next() not in (None, *_ENDINGS):
            chain = self._chain()
            items.append((chain, self._next() == "&"))
            if self._next() not in (None, *_SEPARATORS, *_ENDINGS):
                raise _SyntaxError
            self._skip(*_SEPARATORS)
        self.nesting -= 1
        return Block(tuple(items))

    def _next(self) -> str | None:
        """The operator or keyword that comes next, empty for a command, None at the end."""
        if self.index >= len(self.tokens):
            return None
        token = self.tokens[self.index]
        return token if isinstance(token, str) else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if token is None or token not in wanted:
            raise _SyntaxError
        self.index += 1
        return token

    def _skip(self, *unwanted: str) -> None:
        while self._next() in unwanted and self._next() is not None:
            self.index += 1

    def _chain(self) -> Tree:
        first = self._pipeline()
        rest = []
        while self._next() in ("&&", "||"):
            operator = self._take("&&", "||")
            self._skip("\n")
            rest.append((operator, self._pipeline()))
        return Chain(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Tree:
        negated = False
        while self._next() in ("!", "time"):
            negated ^= self._take("!", "time") == "!"
        parts = [self._command()]
        while self._next() in ("|", "|&"):
            self._take("|", "|&")
            self._skip("\n")
            parts.append(self._command())
        return Pipeline(tuple(parts), negated) if negated or len(parts) > 1 else parts[0]

    def _command(self) -> Tree:
        if self.index >= len(self.tokens):
            raise _SyntaxError
        token = self.tokens[self.index]
        self.index += 1
        if isinstance(token, Assignment):
            return token
        if isinstance(token, Command):
            return self._simple(token)
        if token == "((":
            return self._arithmetic()
        if token == "(":
            return Subshell(self._closed(")"))
        if token == "{":
            return self._closed("}")
        if token == "if":
            return self._if()
        if token in _LOOPS:
            condition = self.block()
            self._take("do")
            return Loop(condition, self._closed("done"), until=token == "until")
        if token in _COUNTED:
            while self._next() not in ("do", None):
                self.index += 1
            self._take("do")
            return Loop(None, self._closed("done"))
        if token == "case":
            return self._case()
        raise _SyntaxError

    def _arithmetic(self) -> Tree:
        depth = 2
        while depth and (token := self._next()) is not None:
            depth += token.count("(") - token.count(")")
            self.index += 1
        if depth:
            raise _SyntaxError
        return Arithmetic()

    def _closed(self, end: str) -> Block:
        found = self.block()
        self._take(end)
        return found

    def _if(self) -> Tree:
        branches, otherwise = [], None
        while True:
            condition = self.block()
            self._take("then")
            branches.append((condition, self.block()))
            follows = self._take("elif", "else", "fi")
            if follows == "else":
                otherwise = self._closed("fi")
            if follows != "elif":
                return If(tuple(branches), otherwise)

    def _case(self) -> Tree:
        arms, has_default = [], False
        self._skip("\n")
        while self._next() != "esac":
            patterns = self._patterns()
            has_default = has_default or "*" in patterns
            arms.append(self.block())
            if self._next() != "esac":
                self._take(";;")
            self._skip("\n")
        self._take("esac")
        return Case(tuple(arms), has_default)

    def _patterns(self) -> list[str]:
        """What stands before the bracket of an arm. A pattern on the line of `case` itself is no token."""
        found = []
        while (token := self._next()) != ")":
            if token not in ("", "|", "("):
                raise _SyntaxError
            read = self.tokens[self.index]
            if isinstance(read, Command):
                found.append(read.words[0].text)
            self.index += 1
        self._take(")")
        return found

    def _simple(self, command: Command) -> Tree:
        """A command, or what begins like one: a function, or a test with `&&` inside."""
        first, last = command.words[0].text, command.words[-1].text
        named = first == "function" and len(command.words) > 1
        if named and last == "{":
            return Function(command.words[1].text, self._closed("}"))
        if named or self._next() == "(":
            if self._next() == "(":
                self._take("(")
                self._take(")")
            self._skip("\n")
            return Function(command.words[named].text, self._command())
        if first == "[[" and last != "]]":
            return self._test(command)
        return command

    def _test(self, command: Command) -> Tree:
        """`[[ a && b ]]` as one command, whose words are those of all of it."""
        words: list[Word] = list(command.words)
        while words[-1].text != "]]":
            token = self.tokens[self.index] if self.index < len(self.tokens) else "then"
            if isinstance(token, Command):
                words += token.words
            elif token not in ("&&", "||", "(", ")", "\n", "!"):
                raise _SyntaxError
            self.index += 1
        return Command(tuple(words), command.env, command.complete, command.certain)
