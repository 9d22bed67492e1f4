"""The network of a rehearsal, as strict as the cluster's where this machine allows it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard.rehearse.network.plan import NetworkPlan, PodSpot, Waiting
from trainyard.rehearse.network.strict import StrictNetwork as Network

__all__ = ["Network", "NetworkPlan", "PodSpot", "Waiting", "open_network"]


@contextmanager
def open_network(plan: NetworkPlan) -> Iterator[Network]:
    """The network of these pods, until the block ends."""
    network = Network(plan, Path(tempfile.mkdtemp(prefix="trainyard-network-")))
    try:
        yield network
    finally:
        network.close()
