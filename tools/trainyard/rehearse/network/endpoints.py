"""Which pods stand behind a Service, as the EndpointSlice controller decides it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot, name_of, namespace_of
from trainyard.workload.plain import entries, mapping, text
from trainyard.workload.selectors import Labels, equals

PROTOCOLS = ("TCP", "UDP", "SCTP")


def is_port(number: int) -> bool:
    """Whether a number can be a port; what no API server takes is left out, not handed on."""
    return 0 < number < 65536


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a Service."""

    name: str
    protocol: str
    number: int
    target: int | str
    """The pods' port: its number, or the name of a container port."""

    def on(self, pod: PodSpot) -> int | None:
        """The port's number on a pod; None where the pod names no such port."""
        return self.target if isinstance(self.target, int) else pod.ports.get((self.protocol, self.target))


@dataclass(frozen=True, slots=True)
class Service:
    """A Service and the pods that its selector finds."""

    namespace: str
    name: str
    headless: bool
    external_name: str
    publishes_unready: bool
    sticky: bool
    """Whether a client stays with one pod: `sessionAffinity: ClientIP`."""
    ports: tuple[Port, ...]
    selects: bool
    """False where it has no selector."""
    pods: tuple[PodSpot, ...]

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return self.namespace, self.name

    def endpoints(self, ready: Collection[Key], gone: Collection[Key]) -> tuple[PodSpot, ...]:
        """The pods that it leads to: those that are ready, or all that run where it publishes those that are not."""
        return tuple(pod for pod in self.pods if pod.key not in gone and (self.publishes_unready or pod.key in ready))


def services_of(plan: NetworkPlan) -> tuple[Service, ...]:
    """Services of a plan."""
    return tuple(_service(service, plan) for service in plan.services)


def _service(item: Mapping[str, Any], plan: NetworkPlan) -> Service:
    spec = mapping(item.get("spec"))
    selector = mapping(spec.get("selector"))
    external = text(spec.get("externalName")) if spec.get("type") == "ExternalName" else ""
    namespace = namespace_of(item)
    found = [
        pod
        for pod in plan.pods
        if selector and not external and pod.key[0] == namespace and equals(dict(selector), Labels(pod.labels))
    ]
    return Service(
        namespace=namespace,
        name=name_of(item),
        headless=spec.get("clusterIP") == "None",
        external_name=external,
        publishes_unready=spec.get("publishNotReadyAddresses") is True,
        sticky=spec.get("sessionAffinity") == "ClientIP",
        ports=tuple(_port(port) for _, port in entries(spec.get("ports"))),
        selects=bool(selector),
        pods=tuple(found),
    )


def _port(port: Mapping[Any, Any]) -> Port:
    number = port.get("port")
    number = number if isinstance(number, int) else 0
    target = port.get("targetPort")
    return Port(
        name=text(port.get("name")),
        protocol=text(port.get("protocol")) or "TCP",
        number=number,
        target=target if isinstance(target, (int, str)) and target else number,
    )
