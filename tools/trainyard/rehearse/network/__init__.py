"""The network of a rehearsal, as strict as the cluster's where this machine allows it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from trainyard.errors import Fault
from trainyard.rehearse.network import leftovers
from trainyard.rehearse.network.base import Network
from trainyard.rehearse.network.held import NoRight, program_path
from trainyard.rehearse.network.loopback import LoopbackNetwork
from trainyard.rehearse.network.plan import NetworkPlan, PodSpot, Waiting
from trainyard.rehearse.network.strict import StrictNetwork

__all__ = ["Network", "NetworkPlan", "PodSpot", "Waiting", "open_network"]

_PROGRAMS = {"nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2", "nft": "nftables"}


@contextmanager
def open_network(plan: NetworkPlan, *, strict: bool | None = None) -> Iterator[Network]:
    """The network of these pods until the block ends, however it ends.

    `strict` demands namespaces or forbids them; None takes them where this process may make them. Raises Fault where
    a program is missing that the strict network needs, and where it is demanded and cannot be.
    """
    network = _open(plan, strict)
    try:
        yield network
    finally:
        network.close()


def _open(plan: NetworkPlan, strict: bool | None) -> Network:
    leftovers.sweep()
    if strict is False:
        return LoopbackNetwork(plan, leftovers.new_folder(), "the rehearsal was asked for it")
    missing = {
        program: package for program, package in _PROGRAMS.items() if shutil.which(program, path=program_path()) is None
    }
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        raise Fault(f"{', '.join(missing)} not on PATH: apt-get install {packages}, or rehearse on loopback")
    folder = leftovers.new_folder()
    try:
        return StrictNetwork(plan, folder)
    except NoRight as reason:
        if strict:
            raise Fault(f"no network namespace can be made here: {reason}") from None
        shutil.rmtree(folder, ignore_errors=True)
        return LoopbackNetwork(plan, leftovers.new_folder(), f"no network namespace can be made here: {reason}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
