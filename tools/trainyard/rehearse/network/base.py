"""What every network of a rehearsal can do, whether it is strict or not."""

import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from trainyard.rehearse.network.addresses import Addresses
from trainyard.rehearse.network.endpoints import services_of
from trainyard.rehearse.network.held_namespaces import HeldNamespaces
from trainyard.rehearse.network.names import hosts_file, link_variables, resolver_settings
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, Waiting


class Network(ABC):
    """Pods that reach each other by address and name. Made by open_network; threads may share it."""

    strict: bool
    """Whether names, policies and addresses are enforced as in the cluster."""
    unchecked: tuple[str, ...]
    """What the cluster's network would do and this one does not, a sentence each."""

    def __init__(self, plan: NetworkPlan, addresses: Addresses, folder: Path, numbers: Mapping[Key, int]) -> None:
        """`numbers` has the namespace of each pod, from 0. NoRight where the kernel makes none."""
        self._numbers = numbers
        self._plan = plan
        self._addresses = addresses
        self._services = services_of(plan)
        self._changing = threading.Lock()
        self._ready: frozenset[Key] = frozenset()
        self._gone: frozenset[Key] = frozenset()
        self._folder = folder
        self._order = {pod.key: index for index, pod in enumerate(plan.pods)}
        for pod in plan.pods:
            self._file(pod, "").mkdir()
            self.resolv_conf(pod).write_text(resolver_settings(pod, addresses))
            self.hosts(pod).write_text(hosts_file(pod, addresses))
        self._held = HeldNamespaces(folder, 1 + max(numbers.values(), default=0))

    def argv(self, pod: PodSpot) -> list[str]:
        """What to put before a command so that it runs in the pod's network. It replaces itself by the command."""
        return self._held.prefix(self._numbers[pod.key])

    def sandboxed(self, pod: PodSpot) -> list[str]:
        """What to put before a sandbox's command, which is root in a namespace of users of the rehearsal's own."""
        return self._held.prefix(self._numbers[pod.key], with_users=True)

    @property
    def users(self) -> int:
        """How many users a container may have; 0 where all run as the user of this process."""
        return self._held.users

    def resolv_conf(self, pod: PodSpot) -> Path:
        """The file to mount over the pod's /etc/resolv.conf."""
        return self._file(pod, "resolv.conf")

    def hosts(self, pod: PodSpot) -> Path:
        """The file to mount over the pod's /etc/hosts."""
        return self._file(pod, "hosts")

    def address(self, pod: PodSpot) -> str:
        """The pod's address, its node's where it is on the host's network."""
        return self._addresses.pods[pod.key]

    def environment(self, pod: PodSpot) -> dict[str, str]:
        """Variables that the network gives every container.

        Where it is strict they are those of the Services, and what the container sets itself comes over them. On
        loopback they come over what the container sets.
        """
        return link_variables(pod, self._services, self._addresses)

    @abstractmethod
    def localise(self, pod: PodSpot, text: str) -> str:
        """A text that the pod's programs read, with names replaced by addresses where names do not resolve."""

    def set_ready(self, pod: PodSpot, ready: bool) -> None:
        """Say whether a pod is ready, which none is at first: Services and DNS follow at once."""
        with self._changing:
            self._ready = self._ready | {pod.key} if ready else self._ready - {pod.key}
            self._follow()

    def set_running(self, pod: PodSpot, running: bool) -> None:
        """Say whether a pod is there at all, as every one is at first: one that has ended leaves every Service."""
        with self._changing:
            self._gone = self._gone - {pod.key} if running else self._gone | {pod.key}
            self._follow()

    @abstractmethod
    def cut(self, a: PodSpot, b: PodSpot) -> None:
        """Drop every packet between two pods, those of connections that exist included.

        On the host's network it is the pods' nodes that are cut off from each other.
        """

    @abstractmethod
    def join(self, a: PodSpot, b: PodSpot) -> None:
        """Undo a cut, if there is one."""

    @abstractmethod
    def waiting(self) -> tuple[Waiting, ...]:
        """Connections that hang, ports that refuse and names that do not resolve, now or in the last two minutes."""

    def close(self) -> None:
        """End it: processes, namespaces, files."""
        self._held.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # still there where the holder was killed

    @abstractmethod
    def _follow(self) -> None:
        """Bring Services and names up to date with the pods."""

    def _file(self, pod: PodSpot, name: str) -> Path:
        return self._folder / str(self._order[pod.key]) / name
