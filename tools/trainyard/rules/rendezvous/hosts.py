"""Whether the host where ranks meet has a name that every pod can resolve."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.counts import number
from trainyard.rules.common.meetings import Meeting, meetings
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import made_services
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting, Workload
from trainyard.workload.plain import mapping
from trainyard.workload.services import (
    Means,
    headless,
    selects_pods,
    service_named,
    services_for,
    subdomain_service,
)


@rule("RDV003", "rendezvous-host-unknown", Severity.ERROR, needs=Workload, fix="safe")
@once
def rendezvous_host_unknown(workload: Workload) -> Iterator[Problem]:
    """The rendezvous host is not a pod of the job.

    Every rank dials this name. A name that no pod has is not resolved, `localhost` is each pod itself, and a Service in
    front of several pods leads to another one each time: the ranks never meet, and time out after minutes.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-4.llama-sft:29400
    Bad:
        kind: Job
        spec: {template: {spec: {subdomain: null}}}

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-3.llama-sft:29400

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-0.llama-sft.research.svc.cluster.local:29400

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pods
    """
    for meeting in meetings(workload):
        reason = _why_unknown(workload, meeting)
        if reason is None:
            continue
        first = next((pod_set for pod_set in workload.pod_sets if pod_set.hostnames), meeting.start.pod_set)
        names, subdomain = first.hostnames, first.subdomain
        remedy = "name a pod of the job"
        if names:
            host = names[0] if subdomain is None or subdomain.implied else f"{names[0]}.{subdomain.value}"
            remedy = f"the first pod is {host}"
        if meeting.means.means is Means.WRONG_SUBDOMAIN and (subdomain is None or _has_service(workload, meeting)):
            remedy = f"set subdomain: {meeting.means.subdomain} in the pod template"
        related = () if subdomain is None or subdomain.implied else (subdomain.spot.saying("the pods' subdomain"),)
        message = f"rendezvous host {meeting.host.value} is not a pod of the job: {reason}"
        fix = _with_subdomain(workload, meeting, subdomain)
        yield Problem(message, meeting.host.spot.saying("every rank dials this"), related, remedy, fix)


def _with_subdomain(workload: Workload, meeting: Meeting, subdomain: Setting | None) -> Remedy | None:
    """The subdomain that the dialled name holds, where the pods have none and a Service of that name gives it."""
    pods = meeting.start.pod_set
    if meeting.means.means is not Means.WRONG_SUBDOMAIN or subdomain is not None or not _has_service(workload, meeting):
        return None
    return put(pods.template.below("spec", "subdomain"), meeting.means.subdomain)


def _why_unknown(workload: Workload, meeting: Meeting) -> str | None:
    """What is wrong with the host; None where nothing is, or where it cannot be known."""
    means, pods = meeting.means, meeting.start.pod_set
    target = next((pod_set for pod_set in workload.pod_sets if pod_set.role == means.role), pods)
    subdomain = target.subdomain
    if means.means is Means.LOOPBACK:
        return "each pod dials itself"
    if means.means is Means.NO_SUCH_INDEX:
        return f"its index is {means.index}, but {number(len(target.hostnames), 'pod')} count from 0"
    if means.means is Means.BARE_HOSTNAME and not mapping(pods.spec.get("dnsConfig")).get("searches"):
        return "a host name resolves only with its subdomain" if subdomain else "its pod has no subdomain"
    if means.means is Means.WRONG_SUBDOMAIN:
        return f"the pods' subdomain is {subdomain.value}" if subdomain else "the pods have no subdomain"
    if means.means is Means.SERVICE and means.service is not None and headless(means.service):
        selected = [pod_set for pod_set in workload.pod_sets if selects_pods(means.service, pod_set)]
        count = sum(pod_set.count.value or 0 for pod_set in selected)
        return f"it is a Service of all {count} pods" if count > 1 else None
    if means.means is Means.SERVICE and means.service is None:
        count = next((len(made.pods) for made in made_services(workload) if made.name == meeting.host.value), 0)
        return f"it is the controller's Service of all {count} pods" if count > 1 else None
    if means.means is Means.ELSEWHERE:
        return _other_job(workload, meeting)
    return _no_such_name(workload, meeting) if means.means is Means.NOTHING else None


def _is_met_at(workload: Workload, made: MadeService) -> bool:
    """Whether ranks meet at a pod whose name only this Service of the controller gives."""
    return any(
        meeting.means.means is Means.POD
        and meeting.means.service is None
        and (meeting.means.role, meeting.means.index) in made.pods
        for meeting in meetings(workload)
    )


def _has_service(workload: Workload, meeting: Meeting) -> bool:
    return service_named(workload, meeting.means.subdomain) is not None


def _other_job(workload: Workload, meeting: Meeting) -> str | None:
    """A pod's name in another namespace, or one that looks like that of another job's pod."""
    parts = meeting.host.value.split(".")
    ours = any(parts[0] in pod_set.hostnames for pod_set in workload.pod_sets)
    namespace = workload.object.namespace
    if ours and len(parts) > 2 and namespace and parts[2] != namespace:
        return f"the job is in namespace {namespace}, not {parts[2]}"
    like_a_pod = re.search(r"-[0-9]+\Z", parts[0]) is not None and meeting.means.subdomain
    return "no pod or Service has this name" if like_a_pod and workload.in_job_folder else None


def _no_such_name(workload: Workload, meeting: Meeting) -> str | None:
    """A name of one part may be a Service that is rendered elsewhere."""
    rest = "." in meeting.host.value
    known = workload.in_job_folder or bool(workload.of_kind("Service"))
    if not any(pod_set.hostnames for pod_set in workload.pod_sets) or (not rest and not known):
        return None
    return "no pod or Service has this name"


@rule("RDV004", "headless-service-missing", Severity.ERROR, needs=Workload, fix="safe")
def headless_service_missing(workload: Workload) -> Iterator[Problem]:
    """The pods' subdomain has no headless Service that selects them.

    A pod gets the DNS name `host.subdomain` only through a headless Service whose name is the subdomain, in the pod's
    namespace, and whose selector matches the pod. Without it the rendezvous host does not resolve.

    Bad:

        kind: Service
        metadata:
          name: llama
    Bad:
        kind: Service
        metadata: {name: llama-sft}
        spec: {clusterIP: null}

    Good:

        kind: Service
        metadata:
          name: llama-sft

    Near miss:

        kind: Service
        spec:
          selector:
            $replace:
              batch.kubernetes.io/job-name: llama-sft

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pods
    """
    made = {service.name for service in made_services(workload)}
    for pod_set in workload.pod_sets:
        subdomain, pods = pod_set.subdomain, pod_set.count.value
        if subdomain is None or subdomain.implied or subdomain.value in made or pods is None or pods < 2:
            continue
        service = subdomain_service(workload, pod_set)
        if service is None:
            yield from _no_service(workload, pod_set, subdomain)
        elif not headless(service):
            yield Problem(
                f"Service {service.name} is not headless, so the pods have no names under it",
                service.at("spec", "clusterIP", label="must be None"),
                (subdomain.spot.saying("the pods' subdomain"),),
                "set clusterIP: None",
                put(service.at("spec", "clusterIP"), "None"),
            )
        elif mapping(service.data.get("spec")).get("selector") and selects_pods(service, pod_set) is False:
            yield Problem(
                f"Service {service.name} does not select the pods whose subdomain it is",
                service.at("spec", "selector", *_differing(service, pod_set), label="the pods have no such label"),
                (pod_set.template.below("metadata", "labels", label="the pods' labels"),),
                "make the selector match the labels of the pod template",
            )


def _differing(service: Object, pod_set: PodSet) -> tuple[str, ...]:
    """The key of the selector's first label that the pods do not have."""
    selector = mapping(mapping(service.data.get("spec")).get("selector"))
    return next(((key,) for key, value in selector.items() if pod_set.labels.get(key) != value), ())


def _no_service(workload: Workload, pod_set: PodSet, subdomain: Setting) -> Iterator[Problem]:
    others = [service for service in services_for(workload, pod_set) if headless(service)]
    dialled = {meeting.means.subdomain for meeting in meetings(workload)}
    if any(service.name in dialled for service in others):
        return
    yield Problem(
        f"no headless Service is named {subdomain.value}, the pods' subdomain",
        subdomain.spot.saying("no Service of this name"),
        tuple(service.at("metadata", "name", label="selects the pods, but under this name") for service in others),
        f"add a Service {subdomain.value} with clusterIP: None, publishNotReadyAddresses: true and the pods' labels",
    )


@rule("RDV005", "unready-peers-hidden", Severity.ERROR, needs=Workload, fix="safe")
def unready_peers_hidden(workload: Workload) -> Iterator[Problem]:
    """The Service that rendezvous needs hides pods that are not ready.

    Ranks meet before any of them is ready. Unless the Service publishes addresses that are not ready, the name of the
    first pod does not resolve while the others dial it, and a pod that waits for its peers may never become ready. A
    pod without a readiness probe is ready as soon as it runs: the others then only wait, which is a warning.

    Bad:

        kind: Service
        spec:
          publishNotReadyAddresses: false

    Good:

        kind: Service
        spec:
          publishNotReadyAddresses: true

    Near miss:

        # whole
        apiVersion: v1
        kind: Service
        metadata:
          name: dashboard
        spec:
          selector:
            app: dashboard
          ports:
          - port: 80

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pods
    """
    needed: dict[int, tuple[Object, Meeting]] = {}
    for meeting in meetings(workload):
        if meeting.means.means is Means.POD and meeting.means.service is not None:
            needed.setdefault(meeting.means.service.index, (meeting.means.service, meeting))
    for made in made_services(workload):
        if not made.publishes_unready and made.spot is not None and _is_met_at(workload, made):
            yield Problem(
                f"the controller's Service {made.name} hides pods that are not ready, but ranks meet before they are",
                made.spot.saying("must be true"),
                help="set publishNotReadyAddresses: true, or leave it out",
                fix=put(made.spot, True),
                severity=None if _has_probe(workload) else Severity.WARNING,
            )
    for service, meeting in needed.values():
        if mapping(service.data.get("spec")).get("publishNotReadyAddresses") is True:
            continue
        yield Problem(
            f"Service {service.name} hides pods that are not ready, but ranks meet before they are",
            service.at("spec", "publishNotReadyAddresses", label="must be true"),
            (meeting.host.spot.saying("every rank dials this while it starts"),),
            "set publishNotReadyAddresses: true",
            put(service.at("spec", "publishNotReadyAddresses"), True),
            severity=None if _has_probe(workload) else Severity.WARNING,
        )


def _has_probe(workload: Workload) -> bool:
    """Whether pods of the job are ready only when a probe says so."""
    containers = (container for pod_set in workload.pod_sets for container in pod_set.containers)
    return any(mapping(container.data.get("readinessProbe")) for container in containers)
