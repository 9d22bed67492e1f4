"""The pods and Services that controllers made, held against what a Workload predicts of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.controlplane import defaults
from tests.controlplane.defaults import TOKEN_VOLUME, covers
from tests.controlplane.kubelet import environment, files
from tests.controlplane.owned import owned, passing_names
from trainyard.controlplane import Client
from trainyard.controlplane.client import Refused
from trainyard.objects.quantity import quantity
from trainyard.workload.adapters import made_services
from trainyard.workload.made import MadeObject
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.services import service_named
from trainyard.workload.variables_of_files import ORIGIN as FILE

Json = dict[str, Any]
Maps = Mapping[str, Mapping[str, str]]

ROLE_LABELS: tuple[tuple[str, str], ...] = (
    ("jobset.sigs.k8s.io/replicatedjob-name", ""),
    ("training.kubeflow.org/replica-type", ""),
    ("training.kubeflow.org/job-role", ""),
    ("ray.io/group", "headgroup"),
    ("volcano.sh/task-spec", ""),
)
"""Labels that hold a pod's role, and the value that means Ray's head."""

INDEX_LABELS = (
    "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
)
"""Labels, and annotations, that order the pods of a role: what comes first weighs more."""

OF_THE_RUN = (
    "jobset.sigs.k8s.io/restart-attempt",
    "jobset.sigs.k8s.io/priority",
    "ray.io/kuberay-version",
    "ray.io/worker-group-replica-name",
    "ray.io/upgrade-strategy-recreate-hash",
)
"""Labels and annotations that no manifest decides: they count restarts, repeat the number that a priority class stands
for, or tell the operator's version."""

WRITTEN_BY_KUBERAY = ("command", "args", "livenessProbe", "readinessProbe")
"""Fields of its containers that KubeRay fills with scripts of its own."""
_KUBERAY = frozenset({"KUBERAY_GEN_RAY_START_CMD", "RAY_DASHBOARD_ADDRESS", "FQ_RAY_IP"})
"""Variables that mark a container as one of these."""


ABSENT = "nothing"
"""What stands for an entry that is not there."""


def differences(workload: Workload, pods: Sequence[Json], client: Client) -> list[str]:
    """Where what the controllers made differs from what the Workload predicts, in words.

    Pods are compared role by role: how many, their names, labels and annotations, and every field of their specs that
    the API server does not fill in by itself. Then the Services and other objects that the controllers made.
    """
    namespace = workload.object.namespace
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in client.list("v1", "ConfigMap", namespace)}
    found = []
    if workload.pods != len(pods):
        found.append(f"{workload.pods} pods are predicted, {len(pods)} are there")
    by_role: dict[str, list[Json]] = {}
    for pod in pods:
        by_role.setdefault(role_of(workload, pod), []).append(pod)
    found += _compare("roles", sorted(each.role for each in workload.pod_sets if each.count.value), sorted(by_role))
    for pod_set in workload.pod_sets:
        theirs = sorted(by_role.get(pod_set.role, []), key=_index)
        if pod_set.count.value != len(theirs):
            found.append(f"{pod_set.count.value} pods {pod_set.role} are predicted, {len(theirs)} are there")
        if theirs:
            found += _of_pod_set(pod_set, theirs, client, maps)
        found += _of_subdomain(workload, pod_set, theirs, client)
    found += _of_made_services(workload, by_role, client)
    found += _of_made_objects(workload, client)
    return found


def role_of(workload: Workload, pod: Json) -> str:
    """The role that its controller gave a pod, in the words of the model."""
    labels = pod["metadata"].get("labels", {})
    for label, head in ROLE_LABELS:
        if label in labels:
            return "head" if head and labels[label] == head else labels[label]
    return "submitter" if workload.object.kind == "RayJob" else "job"


def _index(pod: Json) -> tuple[Any, ...]:
    """What orders the pods of a role, their name last."""
    metadata = pod["metadata"]
    known = metadata.get("annotations", {}) | metadata.get("labels", {})
    return (*(int(known.get(label, -1)) for label in INDEX_LABELS), metadata["name"])


def _of_pod_set(pod_set: PodSet, pods: Sequence[Json], client: Client, maps: Maps) -> Iterator[str]:
    where = pod_set.role
    if pod_set.hostnames:
        hosts = [pod["spec"].get("hostname") or pod["metadata"]["name"] for pod in pods]
        yield from _compare(f"{where}: host names", list(pod_set.hostnames), hosts)
    for field, ours in (("labels", pod_set.labels), ("annotations", pod_set.annotations)):
        yield from _compare_each(f"{where}: {field}", _without_index(ours), common(field, pods, client))
    for pod in pods:
        yield from (f"{where}: {pod['metadata']['name']}: {text}" for text in _of_pod(pod_set, pod, maps))


def common(field: str, pods: Sequence[Json], client: Client) -> dict[str, str]:
    """The labels or annotations that all pods have alike, but for those that tell one run of a job from another."""
    every = [pod["metadata"].get(field, {}) for pod in pods]
    passing = passing_names(client, pods[0])
    return {
        key: value
        for key, value in _without_index(every[0]).items()
        if all(each.get(key) == value for each in every)
        and key not in OF_THE_RUN
        and not any(name in value for name in passing)
    }


def _without_index(entries: Mapping[str, str]) -> dict[str, str]:
    """What does not count the pods, which their names do already."""
    return {key: value for key, value in entries.items() if key not in INDEX_LABELS}


def _of_pod(pod_set: PodSet, pod: Json, maps: Maps) -> Iterator[str]:
    spec = pod["spec"]
    yield from _compare("subdomain", pod_set.subdomain and pod_set.subdomain.value, spec.get("subdomain"))
    yield from _compare_each("volumes", _volumes(pod_set.spec.get("volumes")), _volumes(spec.get("volumes")))
    apart = {"containers", "initContainers", "volumes", "hostname", "subdomain"}
    ours = {key: value for key, value in pod_set.spec.items() if key not in apart}
    theirs = {key: value for key, value in spec.items() if key not in apart}
    yield from _of_fields(ours, defaults.pod_fields(theirs), defaults.POD)
    for kind, predicted, real in (
        ("containers", pod_set.containers, spec["containers"]),
        ("init containers", pod_set.init_containers, spec.get("initContainers", [])),
    ):
        yield from _compare(kind, [each.name for each in predicted], [each["name"] for each in real])
        for ours_, theirs_ in zip(predicted, real, strict=False):
            yield from (f"container {ours_.name}: {text}" for text in _of_container(ours_, theirs_, pod, maps))


def _of_fields(predicted: Mapping[str, Any], real: Mapping[str, Any], implied: Mapping[str, Any]) -> Iterator[str]:
    """Fields of the prediction that the object lacks or has otherwise, and those that it has beside them."""
    for key, value in predicted.items():
        if not covers(value, real.get(key)):
            yield f"{key} is {value!r} in the prediction and {real.get(key)!r} in reality"
    for key in sorted(real.keys() - predicted.keys()):
        if not defaults.is_default(key, real[key], implied):
            yield f"{key} is not in the prediction and {real[key]!r} in reality"


def _of_container(predicted: Container, real: Json, pod: Json, maps: Maps) -> Iterator[str]:
    yield from _compare("image", predicted.image, real.get("image"))
    env = environment(real, pod, maps)
    yield from _of_variables(predicted, env, files(real, pod, maps))
    for field, ours in (("limits", predicted.limits), ("requests", predicted.requests)):
        theirs = real.get("resources", {}).get(field, {})
        amounts = {name: quantity(setting.value) for name, setting in ours.items()}
        yield from _compare_each(field, amounts, {name: quantity(value) for name, value in theirs.items()})
    apart = {"name", "image", "env", "envFrom", "resources"}
    if _KUBERAY & env.keys():
        apart |= set(WRITTEN_BY_KUBERAY)
    ours_ = {key: value for key, value in predicted.data.items() if key not in apart}
    theirs_ = {key: value for key, value in real.items() if key not in apart}
    if apart.isdisjoint(WRITTEN_BY_KUBERAY) and not {"command", "args"} & ours_.keys() and predicted.words:
        ours_["command"] = [word.text for word in predicted.words]
    yield from _of_fields(ours_, defaults.container_fields(theirs_), defaults.CONTAINER)


def _of_variables(
    predicted: Container, env: Mapping[str, str | None], mounted: Mapping[str, set[str]]
) -> Iterator[str]:
    """Variables by name and, where it is known, value; some a script makes of mounted files, the last to have a say."""
    from_files = {name: each for name, each in predicted.env.items() if each.origin == FILE}
    for name, each in from_files.items():
        if each.value not in mounted.get(name, ()):
            yield f"variables: {name} is {each.value!r} in the prediction and {mounted.get(name)!r} in mounted files"
    ours = {
        name: env.get(name, ABSENT) if each.value is None else each.value
        for name, each in predicted.env.items()
        if name not in from_files
    }
    yield from _compare_each("variables", ours, {name: each for name, each in env.items() if name not in from_files})


def _of_subdomain(workload: Workload, pod_set: PodSet, pods: Sequence[Json], client: Client) -> Iterator[str]:
    """The headless Service of the subdomain must give every rank its name, ready or not."""
    if pod_set.subdomain is None:
        return
    name, namespace = pod_set.subdomain.value, workload.object.namespace
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": name}}
    known = service_named(workload, name) is not None or name in {each.name for each in made_services(workload)}
    try:
        spec = client.get(service)["spec"]
    except Refused:
        if known:
            yield f"Service {name} is in the prediction and not there"
        return
    yield from _compare(f"Service {name}: clusterIP", "None", spec.get("clusterIP"))
    addresses = {pod["status"]["podIP"]: pod["spec"].get("hostname") for pod in pods if _has_address(pod)}
    if not addresses:
        return
    names = _soon(lambda: _endpoint_names(client, namespace, name), lambda found: addresses.items() <= found.items())
    named = sorted(str(names.get(address)) for address in addresses)
    predicted = sorted(pod_set.hostnames) if len(addresses) == pod_set.count.value else sorted(addresses.values())
    yield from _compare(f"Service {name}: names", predicted, named)


def _has_address(pod: Json) -> bool:
    return bool(pod["status"].get("podIP")) and pod["status"].get("phase") == "Running"


def _of_made_services(workload: Workload, by_role: Mapping[str, Sequence[Json]], client: Client) -> Iterator[str]:
    """The Services that the job's controllers made, and the pods that each selects."""
    predicted = {each.name: each for each in made_services(workload)}

    def made() -> dict[str, Json]:
        return {
            each["metadata"]["name"]: each
            for each in owned(client, workload.object.data, "v1", "Service")
            if not any(name in each["metadata"]["name"] for name in passing_names(client, each))
        }

    real = _soon(made, lambda found: predicted.keys() <= found.keys())  # some are made after the pods
    yield from _compare("Services", sorted(predicted), sorted(real))
    for name in predicted.keys() & real.keys():
        yield from (f"Service {name}: {text}" for text in _of_service(predicted[name], real[name], by_role))


def _of_service(predicted: MadeService, real: Json, by_role: Mapping[str, Sequence[Json]]) -> Iterator[str]:
    spec = real["spec"]
    yield from _compare("clusterIP", "None", spec.get("clusterIP"))
    published = spec.get("publishNotReadyAddresses", False)
    yield from _compare("publishNotReadyAddresses", predicted.publishes_unready, published)
    selector = spec.get("selector", {}).items()
    selected = [
        (role, index)
        for role, pods in by_role.items()
        for index, pod in enumerate(sorted(pods, key=_index))
        if selector <= pod["metadata"].get("labels", {}).items()
    ]
    yield from _compare("pods", sorted(predicted.pods), sorted(selected))


def _of_made_objects(workload: Workload, client: Client) -> Iterator[str]:
    """The ConfigMaps, Secrets and claims that the job's controllers made and its pods name."""
    for predicted in (each for each in workload.objects if isinstance(each, MadeObject)):
        what = f"{predicted.kind} {predicted.name}"
        try:
            real = client.get(predicted.data)
        except Refused:
            yield f"{what} is in the prediction and not there"
            continue
        for field in ("data", "spec", "type", "immutable"):
            ours, theirs = predicted.data.get(field), real.get(field)
            if ours is not None and not covers(ours, theirs):
                yield f"{what}: {field} is {ours!r} in the prediction and {theirs!r} in reality"


def _soon(ask: Callable[[], Any], enough: Callable[[Any], bool], seconds: float = 10) -> Any:
    """What is asked for, as soon as it is enough, or when time is up."""
    deadline = time.monotonic() + seconds
    while not enough(found := ask()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _endpoint_names(client: Client, namespace: str, service: str) -> dict[str, str | None]:
    slices = client.list("discovery.k8s.io/v1", "EndpointSlice", namespace, f"kubernetes.io/service-name={service}")
    return {
        address: endpoint.get("hostname")
        for each in slices
        for endpoint in each.get("endpoints") or []
        for address in endpoint["addresses"]
    }


def _compare(what: str, predicted: Any, real: Any) -> Iterator[str]:
    if predicted != real:
        yield f"{what} is {predicted!r} in the prediction and {real!r} in reality"


def _compare_each(what: str, predicted: Mapping[str, Any], real: Mapping[str, Any]) -> Iterator[str]:
    """Entry by entry: labels, variables, amounts."""
    for key in sorted(predicted.keys() | real.keys()):
        yield from _compare(f"{what}: {key}", predicted.get(key, ABSENT), real.get(key, ABSENT))


def _volumes(volumes: Sequence[Json] | None) -> dict[str, Any]:
    """Volumes by name, as far as the API server changes nothing about them, without that of the ServiceAccount."""
    found = {}
    for volume in volumes or ():
        kinds = {key: value for key, value in volume.items() if key != "name"}
        for key, value in kinds.items():
            if isinstance(value, dict) and "defaultMode" in value:
                kinds[key] = {name: each for name, each in value.items() if name != "defaultMode"}
        if "sizeLimit" in kinds.get("emptyDir", {}):
            kinds["emptyDir"] = {**kinds["emptyDir"], "sizeLimit": quantity(kinds["emptyDir"]["sizeLimit"])}
        if not volume["name"].startswith(TOKEN_VOLUME):
            found[volume["name"]] = kinds
    return found
