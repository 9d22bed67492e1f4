"""What `[ ... ]` and `[[ ... ]]` come to, where all of their words are known."""

import operator
from collections.abc import Callable, Sequence

_OF_TEXTS: dict[str, Callable[[str, str], bool]] = {"=": operator.eq, "==": operator.eq, "!=": operator.ne}
_OF_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_OF_ONE: dict[str, Callable[[str], bool]] = {"-z": operator.not_, "-n": bool}


def outcome(words: Sequence[str | None]) -> bool | None:
    """Whether the test holds, given the words behind its name; None where that is not known.

    None among the words stands for one whose value is not known.
    """
    kept = [word for word in words if word not in ("]", "]]")]
    if kept[:1] == ["!"]:
        found = outcome(kept[1:])
        return None if found is None else not found
    if None in kept or not 1 <= len(kept) <= 3:
        return None
    known = [str(word) for word in kept]
    if len(known) == 1:
        return bool(known[0])
    if len(known) == 2:
        return _OF_ONE[known[0]](known[1]) if known[0] in _OF_ONE else None
    left, compares, right = known
    if compares in _OF_TEXTS:
        return _OF_TEXTS[compares](left, right)
    if compares in _OF_NUMBERS and left.isdigit() and right.isdigit():
        return _OF_NUMBERS[compares](int(left), int(right))
    return None
