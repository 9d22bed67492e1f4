"""Where the pods of a job are told to meet."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.rules.common.starts import Start, meets_others, nodes, starts
from trainyard.workload.model import Setting, Workload
from trainyard.workload.rendezvous import rendezvous
from trainyard.workload.services import Host, resolve


@dataclass(frozen=True, slots=True)
class Meeting:
    """The meeting point of one launch line, with a host that is known."""

    start: Start
    backend: str
    host: Setting
    """A host name or address, a string."""
    port: Setting
    """The port, an int; None where it is not known, implied where the launcher's default holds."""
    means: Host
    """What the host is to the pods."""


def meetings(workload: Workload) -> Iterator[Meeting]:
    """Where several pods meet. Left out: an etcd, which is not of the job, and launchers that know no other host."""
    if workload.pods == 1:
        return
    for start in starts(workload):
        count = nodes(start.launch)
        if (count is not None and count.implied) or not meets_others(start):
            continue
        found = rendezvous(start.launch)
        if found is None or not isinstance(found.host.value, str) or found.backend.startswith("etcd"):
            continue
        yield Meeting(start, found.backend, found.host, found.port, resolve(workload, found.host.value))
