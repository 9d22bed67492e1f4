"""A network as strict as the cluster's: a namespace for each pod, a router between them that enforces the policies.

The router has a link to each pod and to each node that pods share, and the only route from one to the other leads
through it, as with Calico. Nothing of this is visible to the host's own network.
"""

from pathlib import Path

from trainyard.rehearse.network.addresses import DNS_POD, GATEWAY, allocate
from trainyard.rehearse.network.endpoints import services_of
from trainyard.rehearse.network.firewall import policy_table, service_table
from trainyard.rehearse.network.held import Held
from trainyard.rehearse.network.names import hosts_file, link_variables, records, resolver_settings
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, Waiting
from trainyard.rehearse.network.policies import isolations

_ROUTER = 0


class StrictNetwork:
    """Namespaces, policies and DNS. Made by open_network."""

    strict = True

    def __init__(self, plan: NetworkPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._addresses = allocate(plan)
        self._services = services_of(plan)
        self._isolations = isolations(plan, self._addresses)
        self._ready: set[Key] = set()
        self._gone: set[Key] = set()
        self._numbers = _numbers(plan)
        self._held = Held(folder, 1 + len(set(self._numbers.values())))
        try:
            self._build()
            self._write_files()
            self._follow()
        except BaseException:
            self._held.close()
            raise

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What the cluster's network would do and this one does not."""
        return ()

    def argv(self, pod: PodSpot) -> list[str]:
        """What to put before a command so that it runs in the pod's network."""
        return self._held.prefix(self._numbers[pod.key])

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
        """Variables that every container gets of the Services; what the container sets itself comes over them."""
        return dict(link_variables(pod, self._services, self._addresses))

    def localise(self, text: str) -> str:
        """The text itself: names resolve here."""
        return text

    def set_ready(self, pod: PodSpot, ready: bool) -> None:
        """Say whether a pod is ready: Services and DNS follow at once."""
        self._ready = self._ready | {pod.key} if ready else self._ready - {pod.key}
        self._follow()

    def set_running(self, pod: PodSpot, running: bool) -> None:
        """Say whether a pod is there at all: one that has ended leaves every Service."""
        self._gone = self._gone - {pod.key} if running else self._gone | {pod.key}
        self._follow()

    def cut(self, a: PodSpot, b: PodSpot) -> None:
        """Drop every packet between two pods, those of connections that exist included."""
        self._partition("add", a, b)

    def join(self, a: PodSpot, b: PodSpot) -> None:
        """Undo a cut."""
        self._partition("delete", a, b)

    def waiting(self) -> tuple[Waiting, ...]:
        """Connections that hang, ports that refuse and names that do not resolve, now."""
        return ()

    def close(self) -> None:
        """End it: processes, namespaces, files."""
        self._held.close()

    def _partition(self, verb: str, a: PodSpot, b: PodSpot) -> None:
        one, other = self.address(a), self.address(b)
        self._rules(f"{verb} element ip policies cut {{ {one} . {other}, {other} . {one} }}\n")

    def _follow(self) -> None:
        zone = records(self._plan, self._services, self._addresses, self._ready, self._gone)
        self._held.order("zone", zone=zone)
        self._rules(service_table(self._services, self._addresses, self._ready, self._gone))

    def _rules(self, text: str) -> None:
        self._held.run(_ROUTER, ["nft", "-f", "-"], text)

    def _build(self) -> None:
        self._held.order("write", namespace=_ROUTER, file="/proc/sys/net/ipv4/ip_forward", text="1")
        links = {number: key for key, number in self._numbers.items()}
        router = ["link set lo up"]
        for number, key in links.items():
            end = self._held.path(number)
            router += [
                f"link add v{number} type veth peer name {self._plan.interface} netns {end}",
                f"link set v{number} addrgenmode none up",
                f"address add {GATEWAY}/32 dev v{number}",
                f"route add {self._addresses.pods[key]}/32 dev v{number}",
            ]
            if key == DNS_POD.key:
                router.append(f"route add {self._addresses.node_resolver}/32 dev v{number}")
        self._held.run(_ROUTER, ["ip", "-batch", "-"], _lines(router))
        for number, key in links.items():
            self._held.run(number, ["ip", "-batch", "-"], _lines(self._inside(key)))
        self._rules(policy_table(self._plan, self._addresses, self._isolations))
        number = self._numbers[DNS_POD.key]
        here = self._addresses
        self._held.order("listen", namespace=number, cluster=here.pods[DNS_POD.key], node=here.node_resolver)

    def _inside(self, key: Key) -> list[str]:
        link = self._plan.interface
        addresses = [self._addresses.pods[key]]
        if key == DNS_POD.key:
            addresses.append(self._addresses.node_resolver)
        return [
            "link set lo up",
            f"link set {link} addrgenmode none up",
            *(f"address add {each}/32 dev {link}" for each in addresses),
            f"route add {GATEWAY}/32 dev {link}",
            f"route add default via {GATEWAY} dev {link} src {addresses[0]}",
        ]

    def _write_files(self) -> None:
        for pod in self._plan.pods:
            self._file(pod, "").mkdir()
            self.resolv_conf(pod).write_text(resolver_settings(pod, self._addresses))
            self.hosts(pod).write_text(hosts_file(pod, self._addresses))

    def _file(self, pod: PodSpot, name: str) -> Path:
        return self._folder / "_".join(pod.key) / name


def _numbers(plan: NetworkPlan) -> dict[Key, int]:
    """Which namespace each pod is in: its own, or its node's."""
    numbers: dict[Key, int] = {}
    of_node: dict[str, int] = {}
    following = _ROUTER + 1
    for pod in (*plan.pods, DNS_POD):
        if pod.host_network and pod.node in of_node:
            numbers[pod.key] = of_node[pod.node]
            continue
        if pod.host_network:
            of_node[pod.node] = following
        numbers[pod.key] = following
        following += 1
    return numbers


def _lines(commands: list[str]) -> str:
    return "".join(f"{command}\n" for command in commands)
