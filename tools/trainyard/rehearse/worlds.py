"""Which ranks met: the process groups of PyTorch that the ranks of a run joined."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JoinedRank:
    """A rank that joined a process group, as it tells."""

    pod: str
    """Host name of its pod."""
    rank: int
    world: int
    """Ranks of its group."""
    group: str
    """The same for all ranks of its group, and for no other; empty where that is not known."""
    at: float
    """When it had joined, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class World:
    """Ranks that are in one group."""

    size: int
    ranks: tuple[int, ...]
    pods: tuple[str, ...]


def worlds(joined: Sequence[JoinedRank]) -> tuple[World, ...]:
    """The groups that pods joined last: a run that starts over is in another one than before.

    Empty where nobody joined one, and where somebody's is not known.
    """
    newest = {each.pod: each.group for each in sorted(joined, key=lambda each: each.at)}
    if "" in newest.values():
        return ()
    found = []
    for group in dict.fromkeys(newest.values()):
        members = [each for each in joined if each.group == group]
        ranks, pods = sorted({each.rank for each in members}), sorted({each.pod for each in members})
        found.append(World(members[0].world, tuple(ranks), tuple(pods)))
    return tuple(found)
