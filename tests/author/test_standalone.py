"""Functions of a notebook as programs, run where nothing of the notebook is."""

import __future__

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from trainyard.author.standalone import program

STEPS = 5


def ran(function: Callable[..., Any], **arguments: Any) -> str:
    """What the program of a function prints."""
    code = program(function, arguments)
    return subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=True).stdout


def registered(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*arguments: Any) -> Any:
        return function(*arguments)

    return inner


def with_default(steps: int = STEPS) -> None:
    print(steps)


def with_annotation(decoder: json.JSONDecoder | None = None) -> None:
    print(decoder)


def with_local_annotation() -> None:
    decoder: json.JSONDecoder | None = None
    print(decoder)


def with_global() -> None:
    global COUNT
    COUNT = 3  # type: ignore[name-defined]
    print(COUNT)  # type: ignore[name-defined]


def of_a_notebook() -> None:
    get_ipython().system("pip install einops")  # type: ignore[name-defined] # noqa: F821


@registered
def with_decorator() -> None:
    print("registered")


@wrapped
def with_wrapper() -> None:
    print("wrapped")


async def awaited() -> None:
    print("awaited")


def yielding() -> Iterator[int]:
    yield 1


def needing(steps: int, rate: float = 1.0, **more: int) -> None:
    print(steps, rate, more)


class Trainer:
    def run(self) -> None:
        print("run")

    def __call__(self) -> None:
        print("called")


def test_a_function_does_the_same_alone() -> None:
    def inner() -> None:
        print("""text
    that keeps its blanks""")

    def plain() -> None:
        print("text\n  that keeps its blanks")

    assert ran(inner) == "text\n    that keeps its blanks\n"
    assert ran(plain) == "text\n  that keeps its blanks\n"
    assert program(plain, {}).startswith("def plain() -> None:\n    print(")
    assert ran(with_local_annotation) == "None\n"
    assert ran(with_global) == "3\n"
    assert ran(needing, steps=2, decay=3) == "2 1.0 {'decay': 3}\n"


def test_annotations_stay_unread_where_they_were() -> None:
    code = with_annotation.__code__
    flags = code.co_flags | __future__.annotations.compiler_flag
    future = FunctionType(code.replace(co_flags=flags), with_annotation.__globals__)

    with pytest.raises(ValueError, match="with_annotation uses json from outside itself"):
        program(with_annotation, {})
    assert ran(future, decoder=None) == "None\n"


@pytest.mark.claim("notebook-refuses")
def test_what_cannot_stand_alone_is_told() -> None:
    rate = 3e-4

    def closure() -> float:
        return rate

    refused: list[tuple[Any, str]] = [
        (closure, "closure uses rate from outside itself"),
        (with_default, "with_default uses STEPS from outside itself"),
        (of_a_notebook, "of_a_notebook uses get_ipython from outside itself"),
        (with_decorator, "with_decorator is decorated"),
        (with_wrapper, "with_wrapper is decorated"),
        (awaited, "awaited does nothing when it is called"),
        (yielding, "yielding does nothing when it is called"),
        (Trainer, "give a plain function"),
        (Trainer(), "give a plain function"),
        (Trainer().run, "give a plain function"),
        (functools.partial(needing, 1), "give a plain function"),
        (print, "give a plain function"),
    ]
    for function, reason in refused:
        with pytest.raises(ValueError, match=reason):
            program(function, {})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "needing missing a required argument: 'steps'"),
        ({1: 2}, "needing keywords must be strings"),
        ([1], "func_args can hold numbers"),
        ({"steps": float("nan")}, "func_args can hold numbers"),
    ],
)
def test_arguments_that_the_function_does_not_take_are_told(arguments: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        program(needing, arguments)
