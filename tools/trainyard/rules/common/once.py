"""A rule that tells one cause once, however many places hold it."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from trainyard.rules.common.causes import told_once
from trainyard.rules.registry import Problem

T = TypeVar("T")


def once(check: Callable[[T], Iterable[Problem]]) -> Callable[[T], Iterable[Problem]]:
    """The same check, with problems of the same message joined into one that shows the other places as related."""

    @wraps(check)
    def joined(subject: T) -> Iterable[Problem]:
        return told_once(check(subject))

    return joined
