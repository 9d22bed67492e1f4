"""Services of a job, and which pod a host name means."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainyard.objects.objects import Object
from trainyard.workload.adapters import made_services
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import digits, mapping, sequence
from trainyard.workload.selectors import equals, pod_labels

_INDEX_LABELS = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index")
_INDEXED_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")


class Means(Enum):
    """What a host name means to a pod of the job."""

    POD = "a pod of the job"
    SERVICE = "a Service, so one of several pods or another program"
    LOOPBACK = "the pod itself"
    ELSEWHERE = "an address, another namespace or another domain"
    BARE_HOSTNAME = "a pod's host name without its subdomain"
    WRONG_SUBDOMAIN = "a pod's host name under a subdomain that is not the job's"
    NO_SUCH_INDEX = "a pod with an index beyond the job's count"
    NOTHING = "no pod of the job and no Service beside it"


@dataclass(frozen=True, slots=True)
class Host:
    """What a host name resolves to, as far as manifests tell."""

    means: Means
    role: str = ""
    """The pod set of the pod that is meant, also where the name is wrong in another way."""
    index: int | None = None
    service: Object | None = None
    """The rendered Service of that name."""
    subdomain: str = ""
    """What the name gives as subdomain."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`host:port`, taken apart."""

    host: str
    port: int | None
    """None where no port is written, or no number."""


def endpoint(text: str) -> Endpoint:
    """Take `host:port`, `host` or `[address]:port` apart."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, colon, port = text.rpartition(":")
        if not colon or ":" in host:
            host, port = text, ""
    return Endpoint(host, int(port) if _PORT.match(port) else None)


def headless(service: Object) -> bool:
    """Whether a Service has no address of its own, so that DNS gives those of its pods."""
    return mapping(service.data.get("spec")).get("clusterIP") == "None"


def service_named(workload: Workload, name: str) -> Object | None:
    """The rendered Service of a name in the job's namespace."""
    return next((item for item in workload.of_kind("Service") if item.name == name), None)


def subdomain_service(workload: Workload, pod_set: PodSet) -> Object | None:
    """The rendered Service that the pods' subdomain names, headless or not."""
    if pod_set.subdomain is None or not isinstance(pod_set.subdomain.value, str):
        return None
    return service_named(workload, pod_set.subdomain.value)


def selects_pods(service: Object, pod_set: PodSet) -> bool | None:
    """Whether a Service selects the pods of a set; None where labels are not known. Without a selector it does not."""
    selector = mapping(service.data.get("spec")).get("selector")
    if not isinstance(selector, dict) or not selector:
        return False
    return equals({key: value for key, value in selector.items() if key not in _INDEX_LABELS}, pod_labels(pod_set))


def services_for(workload: Workload, pod_set: PodSet) -> tuple[Object, ...]:
    """The rendered Services that select pods of a set, those with an index label too."""
    return tuple(item for item in workload.of_kind("Service") if selects_pods(item, pod_set))


def resolve(workload: Workload, host: str) -> Host:
    """What a host name means to a pod of the job, by the names that the cluster's DNS would hold.

    Forms with the namespace, with `.svc` and with the cluster's domain are understood. The headless Service that a
    subdomain needs is not looked for: see `subdomain_service`.
    """
    name = host.strip().rstrip(".").lower()
    if _is_loopback(name):
        return Host(Means.LOOPBACK)
    if not name or _is_address(name):
        return Host(Means.ELSEWHERE)
    parts = _without_domain(name.split("."), workload.object.namespace)
    if len(parts) == 1:
        return _single(workload, parts[0])
    if len(parts) != 2:
        return Host(Means.ELSEWHERE)
    found = _double(workload, parts[0], parts[1])
    if found.means is not Means.POD and parts[1] == workload.object.namespace:
        service = _single(workload, parts[0])
        return service if service.means in (Means.POD, Means.SERVICE) else found
    return found


def _single(workload: Workload, name: str) -> Host:
    if (found := _service(workload, name)) is not None:
        return found
    pod = _pod(workload, name)
    if pod is None:
        return Host(Means.NOTHING)
    if pod.means is Means.NO_SUCH_INDEX or _searches_subdomain(workload):
        return pod
    return Host(Means.BARE_HOSTNAME, pod.role, pod.index)


def _searches_subdomain(workload: Workload) -> bool:
    """Whether a pod's `dnsConfig` completes host names with the pods' own subdomain."""
    for pod_set in workload.pod_sets:
        searches = sequence(mapping(pod_set.spec.get("dnsConfig")).get("searches"))
        if pod_set.subdomain is not None and any(
            isinstance(search, str) and search.startswith(f"{pod_set.subdomain.value}.") for search in searches
        ):
            return True
    return False


def _double(workload: Workload, name: str, subdomain: str) -> Host:
    pod = _pod(workload, name)
    if pod is None:
        ours = any(each.subdomain is not None and each.subdomain.value == subdomain for each in workload.pod_sets)
        service = service_named(workload, subdomain)
        if service is not None and not ours and not any(selects_pods(service, each) for each in workload.pod_sets):
            return Host(Means.ELSEWHERE, service=service, subdomain=subdomain)
        means = Means.NOTHING if ours or service is not None else Means.ELSEWHERE
        return Host(means, service=service, subdomain=subdomain)
    pod_set = next(each for each in workload.pod_sets if each.role == pod.role)
    if pod_set.subdomain is None or pod_set.subdomain.value != subdomain:
        return Host(Means.WRONG_SUBDOMAIN, pod.role, pod.index, subdomain=subdomain)
    return Host(pod.means, pod.role, pod.index, service_named(workload, subdomain), subdomain)


def _pod(workload: Workload, hostname: str) -> Host | None:
    """The pod of this host name, or the set it would belong to if it had more pods."""
    for pod_set in workload.pod_sets:
        if hostname in pod_set.hostnames:
            return Host(Means.POD, pod_set.role, pod_set.hostnames.index(hostname))
    match = _INDEXED_NAME.match(hostname)
    if match is None:
        return None
    for pod_set in workload.pod_sets:
        if pod_set.hostnames and pod_set.hostnames[0] == f"{match[1]}-0":
            return Host(Means.NO_SUCH_INDEX, pod_set.role, int(match[2]))
    return None


def _service(workload: Workload, name: str) -> Host | None:
    for made in made_services(workload):
        if made.name == name:
            if len(made.pods) != 1:
                return Host(Means.SERVICE)
            role, index = made.pods[0]
            return Host(Means.POD, role, index)
    service = service_named(workload, name)
    if service is None:
        return None
    selector = mapping(mapping(service.data.get("spec")).get("selector"))
    for pod_set in workload.pod_sets:
        only = _selected_index(selector, pod_set)
        if only is not None and selects_pods(service, pod_set):
            return Host(Means.POD, pod_set.role, only, service)
    return Host(Means.SERVICE, service=service)


def _selected_index(selector: Mapping[Any, Any], pod_set: PodSet) -> int | None:
    """The only pod of the set that a selector leaves."""
    if pod_set.count.value == 1:
        return 0
    for label in _INDEX_LABELS:
        if (index := digits(selector.get(label))) is not None:
            return index
    return None


def _without_domain(parts: list[str], namespace: str) -> list[str]:
    """`service` or `pod.subdomain`, without the job's namespace and the cluster's domain behind it.

    A pod's search list ends a name with `{namespace}.svc.{domain}`, `svc.{domain}` or `{domain}`, so that it may stop
    after any of them. What is not the job's comes back whole, in three parts or more.
    """
    end = parts.index("svc", 1) if "svc" in parts[1:] else len(parts)
    whole = end < len(parts)
    if (end == 3 or (whole and end == 2)) and (not namespace or parts[end - 1] == namespace):
        return parts[: end - 1]
    return parts


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
