"""One finding for one cause."""

from collections.abc import Iterable, Iterator

from trainyard.objects.objects import Spot
from trainyard.objects.remedy import all_of
from trainyard.rules.registry import Problem
from trainyard.yaml.fieldpath import Path


def told_once(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Problems that say the same about several places as one, which shows the other places as related and matters as
    much as the worst of them.

    A PyTorchJob holds the launch line in its master and in its worker template: one mistake, written twice.
    """
    found = list(problems)
    return list(_joined(found)) if found else found


def _joined(problems: Iterable[Problem]) -> Iterator[Problem]:
    first: dict[str, Problem] = {}
    others: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.message in first:
            others[problem.message].append(problem)
        else:
            first[problem.message], others[problem.message] = problem, []
    for message, problem in first.items():
        places: dict[tuple[int, Path], Spot] = {}
        for spot in (*problem.related, *(spot for other in others[message] for spot in (other.spot, *other.related))):
            places.setdefault((spot.object.index, spot.path), spot)
        places.pop((problem.spot.object.index, problem.spot.path), None)
        same = [problem, *others[message]]
        fix = all_of([each.fix for each in same])
        softer = [each.severity for each in same if each.severity is not None]
        severity = max(softer) if len(softer) == len(same) else None
        yield Problem(message, problem.spot, tuple(places.values()), problem.help, fix, severity)
