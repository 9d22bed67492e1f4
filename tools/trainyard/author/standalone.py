"""The source of one function as a program that runs it, where nothing is of what stood around it."""

import __future__

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_NOTEBOOKS = {"get_ipython", "display"}
"""What IPython puts among Python's builtins."""

_ALWAYS_THERE = set(dir(builtins)) - _NOTEBOOKS | {"__file__"}

_LOOKS_UP = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_SETS = {"STORE_NAME", "STORE_GLOBAL"}

_FUTURE = "from __future__ import annotations\n\n\n"

_INDENTED = "if True:  # the function keeps its indentation, for its strings\n"

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def program(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """A file that runs a function with its arguments. ValueError where the function cannot stand alone."""
    if not isinstance(function, FunctionType):
        raise ValueError(f"give a plain function: no file runs {function!r:.80}")
    if not function.__name__.isidentifier():
        raise ValueError("give a function with a name: the source of a lambda is not a file")
    source, definition = _defined(function)
    name = definition.name
    if definition.decorator_list or inspect.unwrap(function) is not function:
        raise ValueError(f"{name} is decorated, and the pods have no decorator: decorate a function inside it")
    if not isinstance(definition, ast.FunctionDef) or inspect.isgeneratorfunction(function):
        raise ValueError(f"{name} does nothing when it is called, since it is async or yields: give a plain function")
    around = {*function.__globals__, *function.__code__.co_freevars, *_NOTEBOOKS}
    if outside := sorted(around.intersection(_taken(compile(source, name, "exec", dont_inherit=True)))):
        raise ValueError(
            f"{name} uses {', '.join(outside)} from outside itself, which the pods do not have: "
            "import or define it inside the function, or hand it over in func_args"
        )
    _check(function, arguments)
    call = f"{name}(**{arguments!r})" if arguments else f"{name}()"
    return f'{source.rstrip()}\n\n\nif __name__ == "__main__":\n    {call}\n'


def _defined(function: FunctionType) -> tuple[str, Definition]:
    """Lines that define a function as it was defined, and what they parse to. ValueError where there are none."""
    try:
        written = inspect.getsource(function)
        source = textwrap.dedent(written)
        if written[:1].isspace():
            indented = _INDENTED + written
            meant = ast.parse(indented).body[0]
            assert isinstance(meant, ast.If)
            definition = meant.body[0]
            if not _parses_to(source, definition):
                source = indented
        else:
            definition = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise ValueError(f"the source of {function.__name__} cannot be had: {error}") from None
    if not isinstance(definition, Definition):
        raise ValueError("give a function with a name: the source of a lambda is not a file")
    is_future = function.__code__.co_flags & __future__.annotations.compiler_flag
    return (_FUTURE if is_future else "") + source, definition


def _parses_to(source: str, definition: ast.stmt) -> bool:
    try:
        return ast.dump(ast.parse(source).body[0]) == ast.dump(definition)
    except SyntaxError:
        return False


def _taken(program: CodeType) -> set[str]:
    """Names that a program looks up and never sets, Python's own aside."""
    waiting, used, given = [program], set[str](), set[str]()
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for instruction in dis.get_instructions(code):
            if instruction.opname in _LOOKS_UP:
                used.add(instruction.argval)
            elif instruction.opname in _SETS:
                given.add(instruction.argval)
    return used - given - _ALWAYS_THERE


def _check(function: FunctionType, arguments: dict[str, Any]) -> None:
    """ValueError where a function cannot be called with arguments, or a file cannot hold them."""
    try:
        same = isinstance(arguments, dict) and ast.literal_eval(repr(arguments)) == arguments
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise ValueError("func_args can hold numbers, strings, booleans, None, and lists and maps of them")
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise ValueError(f"func_args: {function.__name__} {error}") from None
