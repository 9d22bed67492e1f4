"""Why a name does not resolve, in the words of the objects that would have to give it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trainyard.rehearse.network.endpoints import Service
from trainyard.rehearse.network.names import DOMAIN
from trainyard.rehearse.network.plan import Key, NetworkPlan, PodSpot

OUTSIDE = "no name of this cluster; names outside of it do not resolve in a rehearsal"


@dataclass(frozen=True, slots=True)
class Names:
    """What decides which names there are."""

    plan: NetworkPlan
    services: Sequence[Service]
    ready: Collection[Key]
    gone: Collection[Key]

    def why_not(self, name: str, asker: PodSpot) -> str:
        """Why `name`, as a pod's program gave it, does not resolve."""
        short = _without_domain(name)
        home = asker.key[0]
        labels = short.split(".")
        known = (
            {pod.key[0] for pod in self.plan.pods} | {s.namespace for s in self.services} | set(self.plan.namespaces)
        )
        full = short != name
        if len(labels) == 1:
            return self._no_service((home, labels[0]), labels[0])
        if len(labels) == 2 and (full or (labels[1] in known and self._find((home, labels[1])) is None)):
            return self._no_service((labels[1], labels[0]), "")
        if len(labels) == 2:
            return self._no_pod((home, labels[1]), labels[0]) if self._near(home, labels) else OUTSIDE
        if len(labels) == 3 and (full or labels[2] in known or self._near(home, labels)):
            return self._no_pod((labels[2], labels[1]), labels[0])
        return OUTSIDE

    def _find(self, key: Key) -> Service | None:
        return next((service for service in self.services if service.key == key), None)

    def _no_service(self, key: Key, host: str) -> str:
        service = self._find(key)
        if service is None:
            pod = next((p for p in self.plan.pods if host and p.hostname == host and p.key[0] == key[0]), None)
            hint = self._there(key)
            if pod is not None and pod.subdomain:
                hint = f"; pods are found as hostname.subdomain, and {pod.hostname}.{pod.subdomain} is one"
            return f"there is no Service {key[1]} in namespace {key[0]}{hint}"
        if not service.selects:
            return f"Service {service.name} has no selector, and so no pods"
        if not service.pods:
            return f"the selector of Service {service.name} finds no pod"
        return f"no pod of Service {service.name} is ready, and it does not set publishNotReadyAddresses"

    def _no_pod(self, key: Key, host: str) -> str:
        service = self._find(key)
        pods = [pod for pod in self.plan.pods if pod.key[0] == key[0] and pod.hostname == host]
        if service is None:
            named = [f"pod {pod.name} has subdomain {pod.subdomain or '(none)'}" for pod in pods[:1]]
            return "; ".join([f"there is no Service {key[1]} in namespace {key[0]}{self._there(key)}", *named])
        if not service.headless:
            return f"Service {service.name} is not headless (clusterIP: None), so it gives its pods no names"
        if not pods:
            return f"no pod of namespace {key[0]} has hostname {host}{self._hostnames(service)}"
        pod = pods[0]
        if pod.subdomain != service.name:
            return f"pod {pod.name} has subdomain {pod.subdomain or '(none)'}, not {service.name}"
        if pod not in service.pods:
            return f"the selector of Service {service.name} does not find pod {pod.name}"
        if pod.key in self.gone:
            return f"pod {pod.name} has ended"
        return f"pod {pod.name} is not ready, and Service {service.name} does not set publishNotReadyAddresses"

    def _near(self, namespace: str, labels: list[str]) -> bool:
        """Whether either word of a name means something in a namespace."""
        hosts = {pod.hostname for pod in self.plan.pods if pod.key[0] == namespace}
        return labels[0] in hosts or self._find((namespace, labels[1])) is not None

    def _there(self, key: Key) -> str:
        """Services that may have been meant."""
        elsewhere = sorted(service.namespace for service in self.services if service.name == key[1])
        if elsewhere:
            return f" (namespace {', '.join(elsewhere)} has one)"
        found = sorted(service.name for service in self.services if service.namespace == key[0])
        return f" (there are: {', '.join(found)})" if found else " (there is none)"

    def _hostnames(self, service: Service) -> str:
        found = [pod.hostname for pod in service.pods if pod.hostname]
        return f" (those of Service {service.name} have: {', '.join(found)})" if found else ""


def _without_domain(name: str) -> str:
    for end in (f".svc.{DOMAIN}", ".svc"):
        if name.endswith(end):
            return name.removesuffix(end)
    return name


def names_in_vain(failed: Collection[str], answered: Collection[str], searches: Sequence[str]) -> list[str]:
    """Names as programs gave them that do not resolve, of all those that a resolver asked for in one pod.

    It tries a name as it is and with each search domain behind it, and one success is enough.
    """
    found = []
    for name in failed:
        shorter = [name.removesuffix(f".{domain}") for domain in searches if name.endswith(f".{domain}")]
        if any(each in failed for each in shorter):
            continue
        spellings = {
            f"{each}{end}" for each in (name, *shorter) for end in ("", *(f".{domain}" for domain in searches))
        }
        if spellings.isdisjoint(answered):
            found.append(name)
    return found
