"""What several rules work out of one job, worked out once."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from trainyard.workload.model import Workload

T = TypeVar("T")


def once_a_workload(make: Callable[[Workload], T]) -> Callable[[Workload], T]:
    """The same function, which remembers what it made of a workload as long as that is there."""

    @wraps(make)
    def made(workload: Workload) -> T:
        if make not in workload.worked_out:
            workload.worked_out[make] = make(workload)
        found: T = workload.worked_out[make]
        return found

    return made
