"""Remedies for variables, wherever they are set."""

from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, add, all_of, put, remove, rename, reword
from trainyard.rules.common.remedies import held
from trainyard.rules.common.settings import Assignment

_DATA = "data"


def unsafely(remedy: Remedy | None) -> Remedy | None:
    """The same, to be made only where unsafe fixes are asked for."""
    return None if remedy is None else remedy.unsafe()


def assigned(found: Assignment, value: str) -> Remedy | None:
    """Another value for a variable, wherever it is set; None where its text is made from others."""
    text = held(found.spot)
    if found.value is None or not isinstance(text, str):
        return None
    if text == found.value:
        return put(found.spot, value)
    old = f"{found.name}={found.value}"
    return reword(found.spot, old, f"{found.name}={value}") if old in text else None


def unset(found: Assignment) -> Remedy | None:
    """A variable that is set no more; None where a command line sets it."""
    path = found.spot.path
    if path[-2:] == (_DATA, found.name):
        return remove(found.spot)
    if path[-1:] == ("value",) and path[-3:-2] == ("env",):
        return remove(Spot(found.spot.object, path[:-1]))
    return None


def all_unset(*found: Assignment) -> Remedy | None:
    """Several variables that are set no more."""
    return all_of(unset(each) for each in found)


def renamed(found: Assignment, name: str) -> Remedy | None:
    """A variable under another name."""
    path = found.spot.path
    if path[-2:] == (_DATA, found.name):
        return rename(found.spot, name)
    if path[-1:] == ("value",) and path[-3:-2] == ("env",):
        return put(Spot(found.spot.object, (*path[:-1], "name")), name)
    old = f"{found.name}={found.value}"
    text = held(found.spot)
    return reword(found.spot, old, f"{name}={found.value}") if isinstance(text, str) and old in text else None


def beside(found: Assignment, name: str, value: str) -> Remedy | None:
    """One more variable, where another is set: in the same ConfigMap, or in the same list."""
    path = found.spot.path
    if path[-2:] == (_DATA, found.name):
        return put(Spot(found.spot.object, (*path[:-1], name)), value)
    if path[-1:] == ("value",) and path[-3:-2] == ("env",):
        return add(Spot(found.spot.object, path[:-2]), {"name": name, "value": value})
    return None
