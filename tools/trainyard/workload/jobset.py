"""jobset.x-k8s.io/v1alpha2 JobSet, as its controller runs it (read from v0.12.0)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.indexed_job import INDEX_ANNOTATION, INDEX_VARIABLE, failures_counted, jobs_pods, names_of_job
from trainyard.workload.made import MadeObject, made_object, part_of
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, entries, mapping, strings, text
from trainyard.workload.pods import indices, object_name, places, pod_set

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_LABELS = "jobset.sigs.k8s.io/"
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
_NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE = "alpha.jobset.sigs.k8s.io/no-schedule"

Inject = Mapping[tuple[str, str], Sequence[InjectedVariable]]
"""What another controller adds to the environment of a container, by the names of its replicatedJob and its own."""


@dataclass(frozen=True, slots=True)
class _Replicated:
    """One replicatedJob of a JobSet: a number of Jobs, one template."""

    name: str
    data: Mapping[Any, Any]
    spot: Spot
    replicas: int | None
    first: int | None
    """Number of the first of its Jobs among all Jobs of the JobSet."""
    first_of_group: int | None

    @property
    def group(self) -> str:
        return text(self.data.get("groupName")) or "default"

    @property
    def job(self) -> Mapping[Any, Any]:
        """The spec of each Job."""
        return mapping(mapping(self.data.get("template")).get("spec"))

    @property
    def indexed(self) -> bool:
        return bool(self.job.get("completionMode", "Indexed") == "Indexed")

    @property
    def pods(self) -> Setting:
        """Pods of each of the Jobs."""
        return jobs_pods(self.job, self.spot.below("template", "spec"))


def pod_sets(jobset: Object, objects: Sequence[Object], inject: Inject | None = None) -> tuple[PodSet, ...]:
    """One pod set a replicatedJob, with its name as role; their pods are counted through all of its Jobs."""
    every = tuple(_replicated(jobset))
    return tuple(_pod_set(jobset, objects, every, each, inject or {}) for each in every)


def services(jobset: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """One headless Service for all pods, named as their subdomain."""
    name = subdomain(jobset)
    if name is None:
        return ()
    field = "publishNotReadyAddresses"
    shows = _network(jobset).get(field) is not False
    pods = places((each.role, len(each.hostnames)) for each in pod_sets)
    return (MadeService(str(name.value), pods, publishes_unready=shows, spot=jobset.at("spec", "network", field)),)


def names(jobset: Object, _: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """Names that the webhook refuses where they are too long."""
    name, found = object_name(jobset), []
    if not name:
        return ()
    for each in _replicated(jobset):
        if not each.name or not each.replicas:
            continue
        last = f"{name}-{each.name}-{each.replicas - 1}"
        spot = each.spot.below("name")
        pods = each.pods.value
        if each.indexed and pods and each.job.get("completions") is not None:
            found.append(MadeName("the last pod", f"{last}-{pods - 1}-abcde", spot))
        else:
            found.append(MadeName("the last Job", last, spot))
    if (endpoint := _coordinator(jobset)) is not None:
        found.append(MadeName("the coordinator's label", endpoint, jobset.at("spec", "coordinator"), is_label=True))
    if (domain := subdomain(jobset)) is not None:
        found.append(MadeName("the subdomain", str(domain.value), domain.spot))
    return tuple(found)


def subdomain(jobset: Object) -> Setting | None:
    """The subdomain of all pods; None where they get no names. It is the controller that makes its Service."""
    network, name = _network(jobset), object_name(jobset)
    if network.get("enableDNSHostnames") is False:
        return None
    if given := text(network.get("subdomain")):
        return Setting(given, jobset.at("spec", "network", "subdomain"))
    return Setting(name, jobset.at("metadata", "name"), implied=True) if name else None


def _network(jobset: Object) -> Mapping[Any, Any]:
    return mapping(mapping(jobset.data.get("spec")).get("network"))


def _replicated(jobset: Object) -> Iterator[_Replicated]:
    first: int | None = 0
    groups: dict[str, int | None] = {}
    for index, data in entries(mapping(jobset.data.get("spec")).get("replicatedJobs")):
        replicas = 1 if data.get("replicas") is None else count(data["replicas"])
        group = text(data.get("groupName")) or "default"
        before = groups.setdefault(group, 0)
        spot = jobset.at("spec", "replicatedJobs", index)
        yield _Replicated(text(data.get("name")), data, spot, replicas, first, before)
        first = None if first is None or replicas is None else first + replicas
        groups[group] = None if before is None or replicas is None else before + replicas


def _pod_set(
    jobset: Object, objects: Sequence[Object], every: Sequence[_Replicated], each: _Replicated, inject: Inject
) -> PodSet:
    name, pods = object_name(jobset), each.pods
    template = mapping(each.job.get("template"))
    labels = dict(_labels(jobset, every, each))
    annotations = labels | dict(_placement(jobset, each))
    alone = pods.value == 1
    counted = ({INDEX_ANNOTATION: "0"} if each.indexed and alone else {}) | failures_counted(each.job)

    def injected(_: int, container: str) -> Sequence[InjectedVariable]:
        added = tuple(inject.get((each.name, container), ()))
        index = InjectedVariable(
            INDEX_VARIABLE, "0" if alone else None, each.spot.below("template", "spec"), yields=True
        )
        return (*added, index) if each.indexed else added

    return pod_set(
        role=each.name,
        count=_all_pods(each, pods),
        template=template,
        spot=each.spot.below("template", "spec", "template"),
        objects=objects,
        hostnames=_hostnames(name, each, pods.value),
        subdomain=subdomain(jobset),
        labels=labels | names_of_job(_only_job(name, each)),
        annotations=annotations | counted,
        overrides=_overrides(jobset, each, template, annotations),
        inject=injected,
        inject_init=injected,
    )


def _all_pods(each: _Replicated, pods: Setting) -> Setting:
    """The pods of all Jobs, at the count that is written: that of one Job's pods, else that of the Jobs."""
    number = None if pods.value is None or each.replicas is None else pods.value * each.replicas
    return Setting(number, each.spot.below("replicas")) if pods.implied else Setting(number, pods.spot)


def _hostnames(name: str, each: _Replicated, pods: int | None) -> tuple[str, ...]:
    replicas = each.replicas
    if not each.indexed or not name or not each.name or pods is None or replicas is None:
        return ()
    return tuple(f"{name}-{each.name}-{job}-{pod}" for job, pod in indices(replicas, pods))


def _only_job(name: str, each: _Replicated) -> str:
    """The name of its Job, where it has one Job and the name is known."""
    return f"{name}-{each.name}-0" if name and each.name and each.replicas == 1 else ""


def _labels(jobset: Object, every: Sequence[_Replicated], each: _Replicated) -> Iterator[tuple[str, str]]:
    """Labels that all pods of a replicatedJob get, and which are annotations too."""
    name = object_name(jobset)
    if name:
        yield JOBSET_NAME, name
    yield f"{_LABELS}replicatedjob-name", each.name
    if each.replicas is not None:
        yield f"{_LABELS}replicatedjob-replicas", str(each.replicas)
    if (total := _total(every)) is not None:
        yield f"{_LABELS}global-replicas", str(total)
    yield f"{_LABELS}group-name", each.group
    if (total := _total([other for other in every if other.group == each.group])) is not None:
        yield f"{_LABELS}group-replicas", str(total)
    if only := _only_job(name, each):
        yield f"{_LABELS}job-index", "0"
        if jobset.namespace:
            yield f"{_LABELS}job-key", hashlib.sha1(f"{jobset.namespace}/{only}".encode()).hexdigest()
        if each.first is not None:
            yield f"{_LABELS}job-global-index", str(each.first)
        if each.first_of_group is not None:
            yield f"{_LABELS}job-group-index", str(each.first_of_group)
    if (endpoint := _coordinator(jobset)) is not None:
        yield f"{_LABELS}coordinator", endpoint


def _total(every: Sequence[_Replicated]) -> int | None:
    replicas = [each.replicas for each in every]
    return None if None in replicas else sum(filter(None, replicas))


def _coordinator(jobset: Object) -> str | None:
    """Host name and subdomain of the pod that the JobSet calls its coordinator."""
    named, name = mapping(jobset.data.get("spec")).get("coordinator"), object_name(jobset)
    if not isinstance(named, dict) or not name:
        return None
    job, pod = count(named.get("jobIndex", 0)), count(named.get("podIndex", 0))
    domain = text(_network(jobset).get("subdomain")) or name
    return f"{name}-{text(named.get('replicatedJob'))}-{job}-{pod}.{domain}"


def _placement(jobset: Object, each: _Replicated) -> Iterator[tuple[str, str]]:
    """Annotations that ask for a topology domain for each Job alone, of the JobSet and then of the replicatedJob."""
    for owner in (jobset.data, mapping(each.data.get("template"))):
        given = strings(mapping(mapping(owner).get("metadata")).get("annotations"))
        if _EXCLUSIVE in given:
            yield _EXCLUSIVE, given[_EXCLUSIVE]
            if _NODE_SELECTOR in given:
                yield _NODE_SELECTOR, given[_NODE_SELECTOR]


def _overrides(
    jobset: Object, each: _Replicated, template: Mapping[Any, Any], annotations: Mapping[str, str]
) -> dict[str, Any]:
    spec = mapping(template.get("spec"))
    found: dict[str, Any] = {}
    if not spec.get("restartPolicy"):
        found["restartPolicy"] = "OnFailure"
    if (domain := subdomain(jobset)) is not None:
        found["subdomain"] = domain.value
    only = _only_job(object_name(jobset), each)
    if _EXCLUSIVE in annotations and _NODE_SELECTOR in annotations:
        if only:
            selector = mapping(spec.get("nodeSelector"))
            found["nodeSelector"] = {**selector, _NAMESPACED_JOB: f"{jobset.namespace}_{only}"}
        toleration = {"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
        found["tolerations"] = [*_list(spec.get("tolerations")), toleration]
    if claims := list(_claims(jobset, spec)):
        found["volumes"] = [*_list(spec.get("volumes")), *claims]
    return found


def _claims(jobset: Object, spec: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    """Volumes for the claims that the JobSet makes, where a container mounts them."""
    mounted = {
        mount.get("name")
        for field in ("containers", "initContainers")
        for _, container in entries(spec.get(field))
        for _, mount in entries(container.get("volumeMounts"))
        if isinstance(mount.get("name"), str)
    }
    for _, policy in entries(mapping(jobset.data.get("spec")).get("volumeClaimPolicies")):
        for _, template in entries(policy.get("templates")):
            name = text(mapping(template.get("metadata")).get("name"))
            if name in mounted:
                yield {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{object_name(jobset)}"}}


def made(jobset: Object, _: Sequence[Object]) -> tuple[MadeObject, ...]:
    """The claims that the JobSet makes."""
    name, found = object_name(jobset), []
    for number, policy in entries(mapping(jobset.data.get("spec")).get("volumeClaimPolicies")):
        for index, template in entries(policy.get("templates")):
            own = text(mapping(template.get("metadata")).get("name"))
            if not own or not name:
                continue
            spot = jobset.at("spec", "volumeClaimPolicies", number, "templates", index)
            claim = part_of({**template, "apiVersion": "v1", "kind": "PersistentVolumeClaim"}, spot)
            claim.value["metadata"] = part_of({"name": f"{own}-{name}", "namespace": jobset.namespace}, spot)
            found.append(made_object(claim, jobset))
    return tuple(found)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
