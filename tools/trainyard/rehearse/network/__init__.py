"""The network of a rehearsal, as strict as the cluster's where this machine allows it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from trainyard.errors import Fault
from trainyard.rehearse.network import leftovers
from trainyard.rehearse.network.base import Network
from trainyard.rehearse.network.held_namespaces import NoRight, program_path
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
        return _loopback(plan, "the rehearsal was asked for it")
    missing = {
        program: package for program, package in _PROGRAMS.items() if shutil.which(program, path=program_path()) is None
    }
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        raise Fault(f"{', '.join(missing)} not on PATH: apt-get install {packages}, or rehearse on loopback")
    try:
        return _in_new_folder(partial(StrictNetwork, plan))
    except NoRight as reason:
        if strict:
            raise Fault(f"no router can be made here: {reason}") from None
        return _loopback(plan, f"no router can be made here: {reason}")


def _loopback(plan: NetworkPlan, reason: str) -> Network:
    try:
        return _in_new_folder(lambda folder: LoopbackNetwork(plan, folder, reason))
    except NoRight as refused:
        raise Fault(f"no network namespace can be made here: {refused}") from None


def _in_new_folder(made: Callable[[Path], Network]) -> Network:
    folder = leftovers.new_folder()
    try:
        return made(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
