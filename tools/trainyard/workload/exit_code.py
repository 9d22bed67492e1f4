"""What a container ends with when its launcher fails: the exit code of the script around it, as a shell works it out.

The launcher is taken to fail and every other command to succeed. Where a command decides what runs (`if`, `&&`), both
ways are followed. bash(1) and dash(1) are the source; what they do not make certain is not known.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TypeVar

from trainyard.workload.command import Script, basename
from trainyard.workload.model import HiddenFailure, Word
from trainyard.workload.shell import Assignment, Command, Token, tokens
from trainyard.workload.shell_state import (
    State,
    Status,
    UnknownError,
    assigned,
    status_of,
    text_of,
    trapped,
    value_of,
    waited,
    with_options,
)
from trainyard.workload.shell_test import outcome
from trainyard.workload.shell_tree import (
    Arithmetic,
    Block,
    Case,
    Chain,
    If,
    Loop,
    Pipeline,
    Subshell,
    Tree,
    functions,
    parse,
    parts,
)

T = TypeVar("T")
_STATES = 64
"""States that are followed at once. A script with more branches than that is not judged."""
_DEPTH = 16
"""Functions and scripts in one another."""
_ROUNDS = 2
"""How often a loop is followed round."""
_SHOWN = 40
"""Characters of a command in a message."""
_MENDS = ("-o pipefail", "-e", "-eo pipefail")
"""Options of a shell, in the order in which they change less."""
_SHELLS = frozenset({"ash", "bash", "dash", "sh"})
_OF_BASH = re.compile(r"\|&|&>|[<>]\(|\[\[|PIPESTATUS|pipefail|\bfunction\b")
"""What sh may or may not know, since in one image it is bash and in another dash."""
_SUCCEED = frozenset({"echo", "printf", "true", ":", "date", "sleep", "tee", "export", "unset", "sync", "hostname"})
"""Programs whose success does not depend on what the launcher left."""
_FILTERS = frozenset({"awk", "cat", "head", "sed", "tail", "tee", "tr", "ts"})
"""Programs that succeed with any input from a pipe."""
_DECLARE = frozenset({"declare", "export", "local", "readonly", "typeset"})


def hidden(
    whole: Command, script_of: Callable[[Command], Script | None], launches: Callable[[Command], bool]
) -> HiddenFailure | None:
    """How a container ends with 0 though its launcher failed; None where it does not, or where nobody can tell.

    `whole` is its command line, `script_of` gives the script that a command runs, `launches` knows a launcher.
    """
    ends = _ends(whole, _Shell(script_of, launches))
    if not ends or any(end.status.code != 0 for end in ends):
        return None
    mended_by = ""
    for options in _MENDS:
        then = _ends(whole, _Shell(script_of, launches, begins_with=options))
        if then and not any(end.status.code in (0, None) for end in then):
            mended_by = f"set {options}"
            break
    last = min((end.status for end in ends), key=lambda status: status.sure)
    sure = all(end.status.sure for end in ends)
    return HiddenFailure(last.way, last.by, sure, any(end.followed for end in ends), mended_by)


def _ends(whole: Command, shell: "_Shell") -> list[State]:
    """How the container may end once its launcher failed; none where that is not known."""
    try:
        return [state for state in shell.run(whole, State()) if state.failed]
    except UnknownError:
        return []


class _Shell:
    """Follows a script. What a method returns are the states in which its part may end."""

    def __init__(
        self,
        script_of: Callable[[Command], Script | None],
        launches: Callable[[Command], bool],
        depth: int = 0,
        begins_with: str = "",
    ) -> None:
        """`begins_with` are options that the outermost script sets first."""
        self.begins_with = begins_with
        self.script_of = script_of
        self.launches = launches
        self.functions: dict[str, Tree | None] = {}
        self.depth = depth

    def run(self, tree: Tree, state: State, *, tested: bool = False) -> list[State]:
        """`tested` where the exit code of what runs is asked for, so that `set -e` does not act on it."""
        if state.ended:
            return [state]
        return _few(self._each(tree, state, tested))

    def _each(self, tree: Tree, state: State, tested: bool) -> Iterable[State]:
        if isinstance(tree, Command):
            return self._checked(self._simple(tree, state, tested), tested)
        if isinstance(tree, Assignment):
            return [assigned(state, tree.words).having(0, "after", _text(tree.words))]
        if isinstance(tree, Pipeline):
            return self._checked(self._pipeline(tree, state, tested), tested or tree.negated)
        if isinstance(tree, Chain):
            return self._chain(tree, state, tested)
        if isinstance(tree, Block):
            return self._block(tree, state, tested)
        if isinstance(tree, Subshell):
            return self._checked((self._back(state, end) for end in self._apart(tree.body, state, tested)), tested)
        if isinstance(tree, If):
            return self._if(tree, state, tested)
        if isinstance(tree, Loop):
            return self._loop(tree, state, tested)
        if isinstance(tree, Case):
            ways = [end for arm in tree.arms for end in self.run(arm, state, tested=tested)]
            return ways if tree.has_default else [*ways, state.having(0, "condition", "case")]
        if isinstance(tree, Arithmetic):
            return [replace(state, variables=()).having(code, "condition", "((") for code in (0, 1)]
        return [state.having(0, "after", f"{tree.name}()")]

    def _checked(self, states: Iterable[State], tested: bool) -> Iterator[State]:
        """What `set -e` makes of a failure that nobody asks for."""
        for state in states:
            if not state.errexit or tested or state.ended or state.status.code == 0:
                yield state
                continue
            yield replace(state, ended="exit")
            if state.status.code is None:
                yield state

    def _block(self, block: Block, state: State, tested: bool) -> list[State]:
        states = [state]
        for tree, in_background in block.items:
            if in_background:
                states = [end for each in states for end in self._in_background(tree, each)]
            else:
                states = _few(end for each in states for end in self.run(tree, each, tested=tested))
        return states

    def _in_background(self, tree: Tree, state: State) -> Iterator[State]:
        if state.ended:
            yield state
            return
        if isinstance(tree, Pipeline) and tree.negated:
            raise UnknownError  # bash does not negate what it does not wait for, dash does
        for end in self._apart(tree, state, tested=False):
            after = replace(state, jobs=(*state.jobs, end.status), failed=end.failed, followed=end.followed)
            yield after.having(0, "background", _shown(tree))

    def _apart(self, tree: Tree, state: State, tested: bool) -> list[State]:
        """The ends of a shell of its own, which leaves nothing behind but its exit code."""
        return [self._left(end) for end in self.run(tree, replace(state, at_exit=None, jobs=()), tested=tested)]

    def _back(self, state: State, end: State) -> State:
        return replace(state, status=end.status, pipe=(end.status,), failed=end.failed, followed=end.followed)

    def _left(self, state: State) -> State:
        """The end of a shell, behind its trap on EXIT."""
        ended = replace(state, ended="")
        if state.at_exit is None:
            return ended
        tree = _parsed(tokens(state.at_exit.text, state.at_exit.spot, {}, complete=False))
        ends = self.run(tree, replace(ended, at_exit=None))
        codes = {(end.ended == "exit", end.status.code) for end in ends}
        if len(codes) != 1:
            raise UnknownError
        ((exits, code),) = codes
        return (
            ended.having(code, "trap", state.at_exit.text, sure=all(end.status.sure for end in ends))
            if exits
            else ended
        )

    def _pipeline(self, pipeline: Pipeline, state: State, tested: bool) -> Iterator[State]:
        if len(pipeline.parts) == 1:
            ends: Iterable[State] = self.run(pipeline.parts[0], state, tested=True)
        else:
            ways = product(*(self._apart(part, state, tested and not _filters(part)) for part in pipeline.parts))
            ends = (self._joined(pipeline, state, parts) for parts in _few(ways))
        for end in ends:
            if pipeline.negated and not end.ended:
                code = None if end.status.code is None else int(end.status.code == 0)
                end = end.having(code, "not", _shown(pipeline.parts[-1]), sure=end.status.sure)
            yield end

    def _joined(self, pipeline: Pipeline, state: State, parts: Sequence[State]) -> State:
        statuses = tuple(part.status for part in parts)
        last = pipeline.parts[-1]
        own = replace(statuses[-1], sure=statuses[-1].sure or _filters(last), way="pipe", by=_shown(last))
        if state.pipefail:
            own = next((status for status in reversed(statuses) if status.code != 0), own)
        failed, followed = any(part.failed for part in parts), any(part.followed for part in parts)
        return replace(state, status=own, pipe=statuses, failed=failed, followed=followed)

    def _chain(self, chain: Chain, state: State, tested: bool) -> list[State]:
        states = self.run(chain.first, state, tested=True)
        for index, (operator, tree) in enumerate(chain.rest):
            asked = tested or index + 1 < len(chain.rest)
            after: list[State] = []
            for each in states:
                goes_on = None if each.status.code is None else (each.status.code == 0) == (operator == "&&")
                if each.ended or goes_on is not True:
                    after.append(each)
                if not each.ended and goes_on is not False:
                    ends = self.run(tree, each, tested=asked)
                    after += [_by_way_of("or", tree, end) for end in ends] if operator == "||" else ends
            states = _few(after)
        return states

    def _if(self, tree: If, state: State, tested: bool) -> list[State]:
        ends: list[State] = []
        states, asked = [state], ""
        for condition, body in tree.branches:
            asked = asked or _shown(condition)
            decided = [end for each in states for end in self.run(condition, each, tested=True)]
            states = []
            for each in decided:
                if each.ended:
                    ends.append(each)
                    continue
                if each.status.code in (0, None):
                    ends += self.run(body, each, tested=tested)
                if each.status.code != 0:
                    states.append(each)
        for each in states:
            nothing = [each.having(0, "condition", asked)]
            ends += nothing if tree.otherwise is None else self.run(tree.otherwise, each, tested=tested)
        return ends

    def _loop(self, loop: Loop, state: State, tested: bool) -> list[State]:
        ends: list[State] = []
        rounds = [(state, Status(0, way="condition", by=_shown(loop.condition or loop.body)))]
        for _ in range(_ROUNDS + 1):
            entered: list[State] = []
            for each, last in rounds:
                for decided in self._decided(loop, each):
                    if decided.ended:
                        ends.append(decided)
                        continue
                    goes_on = None if decided.status.code is None else (decided.status.code == 0) != loop.until
                    if goes_on is not True:
                        ends.append(replace(decided, status=last, pipe=(last,)))
                    if goes_on is not False:
                        entered.append(decided)
            rounds = []
            for end in _few(end for each in entered for end in self.run(loop.body, each, tested=tested)):
                if end.ended in ("break", "exit", "return"):
                    ends.append(replace(end, ended="" if end.ended == "break" else end.ended))
                else:
                    rounds.append((replace(end, ended=""), end.status))
        return ends

    def _decided(self, loop: Loop, state: State) -> list[State]:
        if loop.condition is None:
            return [state.having(None)]
        return self.run(loop.condition, state, tested=True)

    def _simple(self, command: Command, state: State, tested: bool) -> Iterable[State]:
        name, words = basename(command.words[0]), command.words[1:]
        if name == "exec" and words:
            rest = Command(words, command.env, command.complete)
            ends = self._simple(rest, replace(state, at_exit=None), tested)
            return [replace(end, ended="exit") for end in ends]
        if self.launches(command):
            return [replace(state, failed=True).having(1)]
        if command.words[0].text in self.functions:
            return self._called(self.functions[command.words[0].text], state, tested)
        script = self.script_of(command)
        if script is not None:
            return self._script(script, state)
        if name in ("exit", "return"):
            status = status_of(state, words[0]) if words else state.status
            end = state.having(status.code, "exit", _text(command.words), sure=status.sure)
            return [replace(end, ended=name)]
        if name in ("break", "continue"):
            if words:
                raise UnknownError
            return [replace(state.having(0, "after", name), ended=name)]
        if name == "set":
            return [with_options(state, [word.text for word in words]).having(0, "after", name)]
        if name == "trap":
            return [trapped(state, words).having(0, "after", name)]
        if name == "wait":
            return [replace(state, status=waited(state, words), pipe=())]
        if name in ("[", "[[", "test"):
            found = outcome([text_of(value_of(state, word)) for word in words])
            codes = (0, 1) if found is None else (int(not found),)
            return [state.having(code, "after", _text(command.words), sure=found is not None) for code in codes]
        if name == "false":
            return [state.having(1)]
        return self._other(command, state, tested)

    def _other(self, command: Command, state: State, tested: bool) -> Iterator[State]:
        """A command that nothing is known of but its name."""
        name, words = basename(command.words[0]), command.words[1:]
        if name in _DECLARE:
            state = assigned(state, words)
        elif name in ("eval", "let", ".", "source"):
            state = replace(state, variables=())
        elif name in ("read", "mapfile", "readarray", "getopts"):
            for word in words:
                state = state.assigned(word.text, None)
        sure = name in (*_SUCCEED, *_DECLARE) or (name == "rm" and any(word.text.startswith("-") for word in words))
        state = replace(state, followed=state.followed or (state.failed and not sure))
        yield state.having(0, "after", _text(command.words), sure=sure)
        if tested and not sure:
            yield state.having(1)

    def _called(self, body: Tree | None, state: State, tested: bool) -> list[State]:
        if body is None or self.depth >= _DEPTH:
            raise UnknownError
        self.depth += 1
        ends = self.run(body, state, tested=tested)
        self.depth -= 1
        return [replace(end, ended="" if end.ended == "return" else end.ended) for end in ends]

    def _script(self, script: Script, state: State) -> Iterator[State]:
        """What a shell of its own comes to."""
        if script.shell not in _SHELLS or (script.shell != "bash" and _OF_BASH.search(script.text + self.begins_with)):
            raise UnknownError
        if self.depth >= _DEPTH:
            raise UnknownError
        inner = _Shell(self.script_of, self.launches, self.depth + 1)
        options = (*script.options, *self.begins_with.split())
        fresh = with_options(State(failed=state.failed, followed=state.followed), options)
        read = tokens(script.text, script.spot, script.env, complete=script.complete, arguments=script.arguments)
        tree = _parsed(read)
        inner.functions = functions(tree)
        for end in inner.run(tree, fresh):
            yield self._back(state, inner._left(end))


def _parsed(read: Sequence[Token] | None) -> Block:
    tree = None if read is None else parse(read)
    if tree is None:
        raise UnknownError
    return tree


def _few(states: Iterable[T]) -> list[T]:
    """The states that differ."""
    found = list(islice(dict.fromkeys(states), _STATES + 1))
    if len(found) > _STATES:
        raise UnknownError
    return found


def _filters(tree: Tree) -> bool:
    return isinstance(tree, Command) and basename(tree.words[0]) in _FILTERS


def _by_way_of(way: str, tree: Tree, end: State) -> State:
    """An end whose code is that of what ran in the place of something else."""
    status = replace(end.status, way=way, by=_shown(tree)) if end.status.way == "after" else end.status
    return replace(end, status=status)


def _shown(tree: Tree) -> str:
    """A part of a script in a few words."""
    while not isinstance(tree, Command | Assignment):
        first = next(iter(parts(tree)), None)
        if first is None:
            return "..."
        tree = first
    return _text(tree.words)


def _text(words: Sequence[Word]) -> str:
    text = " ".join((word.written or word.text) for word in words)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
