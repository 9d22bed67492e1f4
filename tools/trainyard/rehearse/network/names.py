"""What the cluster's DNS answers: the records that CoreDNS serves by Kubernetes' specification of DNS names, 1.1.0."""

from collections.abc import Collection, Iterable
from typing import Any

from trainyard.rehearse.network.addresses import DNS_POD, Addresses
from trainyard.rehearse.network.endpoints import Service
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot

DOMAIN = "cluster.local"

Zone = dict[str, dict[str, list[Any]]]
"""Name without its last dot, record type, values: an address (A), a name (CNAME, PTR), priority to name (SRV)."""


def service_name(key: Key) -> str:
    """Full name of a Service."""
    return f"{key[1]}.{key[0]}.svc.{DOMAIN}"


def records(
    plan: NetworkPlan,
    services: Iterable[Service],
    addresses: Addresses,
    ready: Collection[Key],
    gone: Collection[Key],
) -> Zone:
    """The zone as it stands: it follows the pods as they become ready and go."""
    zone: Zone = {}
    _add(zone, f"dns-version.{DOMAIN}", "TXT", "1.1.0")
    for key, address in addresses.services.items():
        _add(zone, service_name(key), "A", address)
        _add(zone, _reverse(address), "PTR", service_name(key))
    for service in services:
        if service.external_name:
            _add(zone, service_name(service.key), "CNAME", service.external_name.rstrip("."))
        elif service.headless:
            _headless(zone, service, addresses, service.endpoints(ready, gone))
        else:
            for port in service.ports:
                _service_port(zone, service.key, port.name, port.protocol, port.number, service_name(service.key))
    for pod in (*plan.pods, DNS_POD):
        address = addresses.pods[pod.key]
        if pod.key not in gone:
            _add(zone, f"{address.replace('.', '-')}.{pod.key[0]}.pod.{DOMAIN}", "A", address)
    return zone


def _headless(zone: Zone, service: Service, addresses: Addresses, behind: tuple[PodSpot, ...]) -> None:
    for pod in behind:
        address = addresses.pods[pod.key]
        name = f"{endpoint_name(pod, service, address)}.{service_name(service.key)}"
        _add(zone, service_name(service.key), "A", address)
        _add(zone, name, "A", address)
        _add(zone, _reverse(address), "PTR", name)
        for port in service.ports:
            number = port.on(pod)
            if number is not None:
                _service_port(zone, service.key, port.name, port.protocol, number, name)


def endpoint_name(pod: PodSpot, service: Service, address: str) -> str:
    """A pod's own label under a headless Service: its host name if it names the Service as its subdomain."""
    named = pod.hostname and pod.subdomain == service.name and pod.key[0] == service.namespace
    return pod.hostname if named else address.replace(".", "-")


def _service_port(zone: Zone, key: Key, name: str, protocol: str, number: int, target: str) -> None:
    if name and _can_be(target):
        _add(zone, f"_{name}._{protocol.lower()}.{service_name(key)}", "SRV", [0, 100, number, target])


def _add(zone: Zone, name: str, kind: str, value: Any) -> None:
    if not _can_be(name) or (kind in ("CNAME", "PTR") and not _can_be(value)):
        return
    values = zone.setdefault(name.lower(), {}).setdefault(kind, [])
    if value not in values:
        values.append(value)


def _can_be(name: str) -> bool:
    """Whether DNS can carry a name. What no API server takes has none."""
    return len(name) < 254 and name.isascii() and all(0 < len(label) < 64 for label in name.split("."))


def _reverse(address: str) -> str:
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


def resolver_settings(pod: PodSpot, addresses: Addresses) -> str:
    """A pod's /etc/resolv.conf, as the kubelet makes it of `dnsPolicy` and `dnsConfig`."""
    near = _asks_cluster(pod)
    servers = [addresses.dns] if near else [addresses.node_resolver] if pod.dns_policy != "None" else []
    servers += _strings(pod.dns_config.get("nameservers"))
    options: dict[str, str | None] = {"ndots": "5"} if near else {}
    for option in pod.dns_config.get("options") or ():
        options[str(option.get("name"))] = option.get("value")
    lines = [f"search {' '.join(searches(pod))}"] if searches(pod) else []
    lines += [f"nameserver {each}" for each in dict.fromkeys(servers)][:3]
    if options:
        words = (name if value is None else f"{name}:{value}" for name, value in options.items())
        lines.append(f"options {' '.join(words)}")
    return "".join(f"{line}\n" for line in lines)


def searches(pod: PodSpot) -> tuple[str, ...]:
    """Domains in which a pod's resolver looks for a name with few dots."""
    cluster = (f"{pod.key[0]}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN) if _asks_cluster(pod) else ()
    return tuple(dict.fromkeys((*cluster, *_strings(pod.dns_config.get("searches")))))


def _asks_cluster(pod: PodSpot) -> bool:
    """Pods on the host's network ask the node's servers unless `dnsPolicy` names this case."""
    return pod.dns_policy == "ClusterFirstWithHostNet" or (pod.dns_policy == "ClusterFirst" and not pod.host_network)


def hosts_file(pod: PodSpot, addresses: Addresses) -> str:
    """A pod's /etc/hosts, as the kubelet writes it; on the host's network it is the node's."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    address = addresses.pods[pod.key]
    if pod.host_network:
        lines.append(f"{address}\t{pod.node}")
    else:
        host = pod.hostname or pod.name
        full = f"{host}.{pod.subdomain}.{pod.key[0]}.svc.{DOMAIN}\t" if pod.subdomain else ""
        lines.append(f"{address}\t{full}{host}")
    for alias in pod.host_aliases:
        names = _strings(alias.get("hostnames"))
        if names:
            lines.append(f"{alias.get('ip')}\t" + "\t".join(names))
    return "# Kubernetes-managed hosts file.\n" + "".join(f"{line}\n" for line in lines)


def link_variables(pod: PodSpot, services: Iterable[Service], addresses: Addresses) -> dict[str, str]:
    """What every container gets of the Services in its namespace, and of the API server's."""
    api = addresses.services["default", "kubernetes"]
    found = {"KUBERNETES_SERVICE_HOST": api, "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443"}
    for service in services if pod.service_links else ():
        address = addresses.services.get(service.key)
        if service.namespace != pod.key[0] or address is None or not service.ports:
            continue
        prefix = service.name.upper().replace("-", "_")
        found[f"{prefix}_SERVICE_HOST"] = address
        found[f"{prefix}_SERVICE_PORT"] = str(service.ports[0].number)
        for port in service.ports:
            if port.name:
                found[f"{prefix}_SERVICE_PORT_{port.name.upper().replace('-', '_')}"] = str(port.number)
    return found


def _strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else []
