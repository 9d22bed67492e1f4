"""What KubeRay v1.6.2 adds to the pods of a Ray cluster: environment, shared memory, ports, the ray start command."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.plain import entries, mapping, sequence, strings, text
from trainyard.workload.ray_start import METRICS_PORT, group_params, start_command

_VERSION = "v1.6.2"
_GCS_PORT = "6379"
_SHELL = ("/bin/bash", "-c", "--")
DASHBOARD_PORT = 8265
AUTOSCALER = "autoscaler"
WAITS = "wait-gcs-ready"
_NAME, _NAMESPACE = "$(RAY_CLUSTER_NAME)", "$(RAY_CLUSTER_NAMESPACE)"
_LOGS, _LOGS_MOUNT = {"name": "ray-logs", "emptyDir": {}}, {"name": "ray-logs", "mountPath": "/tmp/ray"}
STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
"""The annotation that tells where in Redis the head's state is kept."""
_REDIS = (
    ("redisUsername", "redis-username", "REDIS_USERNAME"),
    ("redisPassword", "redis-password", "REDIS_PASSWORD"),
)
"""Fields of gcsFaultToleranceOptions, the parameter of `ray start` that each sets, and the variable that holds it."""
_TAKEN_OVER = ("imagePullPolicy", "securityContext")
"""Fields of autoscalerOptions that its container has as they are."""
_TOKEN_SOURCE = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
_TOKEN = {"name": "ray-token", "projected": {"sources": [_TOKEN_SOURCE]}}
_TOKEN_MOUNT = {"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster, whoever makes it."""

    owner: Object
    spec: Mapping[Any, Any]
    spot: Spot
    name: str
    """Empty for that of a RayJob, whose name ends in random characters."""
    made_by: str = "RayCluster"

    @property
    def head_image(self) -> str:
        """Image of the head's Ray container."""
        template = mapping(mapping(self.spec.get("headGroupSpec")).get("template"))
        return text(_ray_container(template).get("image"))

    @property
    def port(self) -> str:
        """The port of the head that all others dial."""
        return strings(mapping(self.spec.get("headGroupSpec")).get("rayStartParams")).get("port", _GCS_PORT)

    @property
    def host(self) -> str | None:
        """The name of the head's Service, whole; None where the cluster's name is not known."""
        own = mapping(mapping(mapping(self.spec.get("headGroupSpec")).get("headService")).get("metadata"))
        service = text(own.get("name")) or (f"{self.name}-head-svc" if self.name else "")
        return f"{service}.{self.owner.namespace}.svc.cluster.local" if service and self.owner.namespace else None

    @property
    def scales(self) -> bool:
        """Whether Ray's own autoscaler runs beside the head."""
        return self.spec.get("enableInTreeAutoscaling") is True

    @property
    def scales_by_itself(self) -> bool:
        """Whether that is the second version of the autoscaler, which restarts no pod."""
        return self.scales and mapping(self.spec.get("autoscalerOptions")).get("version") == "v2"

    @property
    def survives(self) -> bool:
        """Whether the head's state is kept outside of it."""
        annotations = strings(mapping(self.owner.data.get("metadata")).get("annotations"))
        told = annotations.get("ray.io/ft-enabled", "").lower() == "true"
        return told or isinstance(self.spec.get("gcsFaultToleranceOptions"), dict)

    @property
    def storage_namespace(self) -> str | None:
        """Where in Redis the head's state is kept; None where that is the cluster's unique id."""
        options = mapping(self.spec.get("gcsFaultToleranceOptions"))
        annotations = strings(mapping(self.owner.data.get("metadata")).get("annotations"))
        return text(options.get("externalStorageNamespace")) or annotations.get(STORAGE_NAMESPACE)


@dataclass(frozen=True, slots=True)
class RayPod:
    """What a kind of pod gets."""

    labels: Mapping[str, str]
    spec: dict[str, Any]
    """Fields of the pod's spec that are set."""
    env: tuple[InjectedVariable, ...]
    """For the Ray container, which is the first."""
    init_env: tuple[InjectedVariable, ...]
    """For every init container."""
    wait_env: tuple[InjectedVariable, ...] = ()
    """For the init container that is added."""
    waits: tuple[Mapping[str, Any], ...] = ()
    """Init containers that are added."""


def head(cluster: Cluster, group: Mapping[Any, Any]) -> RayPod:
    """What the head gets."""
    params = strings(group.get("rayStartParams")) | group_params(group)
    params.setdefault("dashboard-host", "0.0.0.0")
    if cluster.scales:
        params["no-monitor"] = "true"
    options = mapping(cluster.spec.get("gcsFaultToleranceOptions"))
    for field, param, variable in _REDIS:
        if options.get(field) is not None:
            params[param] = f"${variable}"
    template = mapping(group.get("template"))
    command = start_command(_ray_container(template), params, "ray start --head ")
    spot = cluster.spot.below("headGroupSpec")
    env = tuple(_environment(cluster, "headgroup", command, "127.0.0.1", spot, is_head=True))
    labels = _labels(cluster, "head", "headgroup", group)
    filled = _filled(cluster, template, command, params, is_head=True)
    return RayPod(labels, filled, env, _addresses(cluster, spot))


def worker(cluster: Cluster, name: str, group: Mapping[Any, Any]) -> RayPod:
    """What the pods of a worker group get."""
    params: dict[str, str | None] = {**strings(group.get("rayStartParams")), **group_params(group)}
    if "address" not in params:
        params["address"] = f"{cluster.host}:{cluster.port}" if cluster.host else None
    template = mapping(group.get("template"))
    command = start_command(_ray_container(template), params, "ray start ")
    spot = cluster.spot.below("workerGroupSpecs")
    addresses = _addresses(cluster, spot)
    env = (*addresses, *_environment(cluster, name, command, cluster.host, spot, is_head=False))
    labels = _labels(cluster, "worker", name, group)
    filled = _filled(cluster, template, command, params)
    waits = (_wait(cluster, _ray_container(template)),)
    return RayPod(labels, filled, env, addresses, tuple(_authority(cluster.spec, spot)), waits)


def submitter(image: str) -> dict[str, Any]:
    """The container that submits a RayJob's entrypoint, where the RayJob has none of its own."""
    requests, limits = {"cpu": "500m", "memory": "200Mi"}, {"cpu": "1", "memory": "1Gi"}
    return {"name": "ray-job-submitter", "image": image, "resources": {"limits": limits, "requests": requests}}


def submitter_env(job: Object) -> tuple[InjectedVariable, ...]:
    """What the submitting container is told; where the dashboard is stands in the RayJob's status."""
    spot = job.at("spec", "submitterPodTemplate")
    cluster = mapping(mapping(job.data.get("spec")).get("rayClusterSpec"))
    return (
        InjectedVariable("PYTHONUNBUFFERED", "1", spot),
        InjectedVariable("RAY_DASHBOARD_ADDRESS", None, spot),
        InjectedVariable("RAY_JOB_SUBMISSION_ID", text(mapping(job.data.get("spec")).get("jobId")) or None, spot),
        *_authority(cluster, job.at("spec", "rayClusterSpec", "authOptions", "mode")),
    )


def autoscaler(cluster: Cluster) -> dict[str, Any]:
    """The container that scales the worker groups."""
    options = mapping(cluster.spec.get("autoscalerOptions"))
    fields = (("RAY_CLUSTER_NAMESPACE", "metadata.namespace"), ("RAY_HEAD_POD_NAME", "metadata.name"))
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields]
    label = {"name": "RAY_CLUSTER_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/cluster']"}}}
    amounts = {"cpu": "500m", "memory": "512Mi"}
    default = {"limits": amounts, "requests": amounts}
    found = {
        "name": AUTOSCALER,
        "image": text(options.get("image")) or cluster.head_image,
        "env": [label, *env, {"name": "KUBERAY_CRD_VER", "value": "v1"}, *sequence(options.get("env"))],
        "envFrom": sequence(options.get("envFrom")),
        "resources": mapping(given) if (given := options.get("resources")) is not None else default,
        "command": list(_SHELL),
        "args": [f"ray kuberay-autoscaler --cluster-name {_NAME} --cluster-namespace {_NAMESPACE}"],
        "volumeMounts": [*_mounts(cluster.spec, options), _LOGS_MOUNT],
    }
    return found | {field: options[field] for field in _TAKEN_OVER if options.get(field) is not None}


def _ray_container(template: Mapping[Any, Any]) -> Mapping[Any, Any]:
    containers = sequence(mapping(template.get("spec")).get("containers"))
    return mapping(containers[0]) if containers else {}


def _labels(cluster: Cluster, kind: str, name: str, group: Mapping[Any, Any]) -> dict[str, str]:
    """Labels that KubeRay adds; the template's own and the group's override all but three of them."""
    own = strings(mapping(mapping(group.get("template")).get("metadata")).get("labels")) | strings(group.get("labels"))
    found = {"ray.io/is-ray-node": "yes", "app.kubernetes.io/name": "kuberay"}
    found["app.kubernetes.io/created-by"] = "kuberay-operator"
    if cluster.name:
        found["ray.io/identifier"] = f"{cluster.name}-{kind}"[-63:]
    found |= own
    found |= {"ray.io/node-type": kind, "ray.io/group": name}
    return found | ({"ray.io/cluster": cluster.name} if cluster.name else {})


def _addresses(cluster: Cluster, spot: Spot) -> tuple[InjectedVariable, ...]:
    short = cluster.host.partition(".")[0] if cluster.host else None
    return InjectedVariable("FQ_RAY_IP", cluster.host, spot), InjectedVariable("RAY_IP", short, spot)


def _environment(
    cluster: Cluster, group: str, command: str | None, host: str | None, spot: Spot, *, is_head: bool
) -> Iterator[InjectedVariable]:
    yield InjectedVariable("RAY_CLUSTER_NAME", cluster.name or None, spot)
    yield InjectedVariable("RAY_CLUSTER_NAMESPACE", cluster.owner.namespace or None, spot)
    yield InjectedVariable("RAY_CLOUD_INSTANCE_ID", None, spot)
    yield InjectedVariable("RAY_NODE_TYPE_NAME", group, spot)
    yield InjectedVariable("KUBERAY_GEN_RAY_START_CMD", command, spot)
    yield InjectedVariable("RAY_PORT", cluster.port, spot, yields=True)
    yield InjectedVariable("RAY_ADDRESS", f"{host}:{cluster.port}" if host else None, spot, yields=True)
    yield InjectedVariable("RAY_USAGE_STATS_KUBERAY_IN_USE", "1", spot, yields=True)
    if is_head:
        tags = f"kuberay_version={_VERSION};kuberay_crd={cluster.made_by}"
        yield InjectedVariable("RAY_USAGE_STATS_EXTRA_TAGS", tags, spot)
    yield InjectedVariable("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1", spot, yields=True)
    yield from _survival(cluster, spot, is_head=is_head)
    if is_head and cluster.scales_by_itself:
        yield InjectedVariable("RAY_enable_autoscaler_v2", "true", spot)
    yield from _authority(cluster.spec, spot)


def _authority(cluster: Mapping[Any, Any], spot: Spot) -> Iterator[InjectedVariable]:
    """What tells a container to show a token, and the token, which a Secret holds, or a volume of Kubernetes."""
    if mapping(cluster.get("authOptions")).get("mode") != "token":
        return
    yield InjectedVariable("RAY_AUTH_MODE", "token", spot, yields=True)
    if _takes_kubernetes_tokens(cluster):
        yield InjectedVariable("RAY_ENABLE_K8S_TOKEN_AUTH", "true", spot, yields=True)
    else:
        yield InjectedVariable("RAY_AUTH_TOKEN", None, spot, yields=True)


def autoscaler_env(cluster: Cluster) -> tuple[InjectedVariable, ...]:
    """What the container that scales is told beside its own variables."""
    return tuple(_authority(cluster.spec, cluster.spot.below("autoscalerOptions")))


def _takes_kubernetes_tokens(cluster: Mapping[Any, Any]) -> bool:
    options = mapping(cluster.get("authOptions"))
    return options.get("mode") == "token" and options.get("enableK8sTokenAuth") is True


def _volumes(cluster: Mapping[Any, Any], written: Sequence[Any]) -> list[Any]:
    """Volumes as they are written, and the token of Kubernetes where the cluster takes those."""
    named = [volume.get("name") for _, volume in entries(written)]
    adds = _takes_kubernetes_tokens(cluster) and _TOKEN["name"] not in named
    return [*written, *((_TOKEN,) if adds else ())]


def _mounts(cluster: Mapping[Any, Any], container: Mapping[Any, Any]) -> list[Any]:
    """The mounts of a container, and that of the token."""
    written = sequence(container.get("volumeMounts"))
    named = [mount.get("name") for _, mount in entries(written)]
    adds = _takes_kubernetes_tokens(cluster) and _TOKEN["name"] not in named
    return [*written, *((_TOKEN_MOUNT,) if adds else ())]


def _survival(cluster: Cluster, spot: Spot, *, is_head: bool) -> Iterator[InjectedVariable]:
    if not cluster.survives:
        return
    if not is_head:
        yield InjectedVariable("RAY_gcs_rpc_server_reconnect_timeout_s", "600", spot, yields=True)
        return
    options = mapping(cluster.spec.get("gcsFaultToleranceOptions"))
    yield InjectedVariable("RAY_external_storage_namespace", cluster.storage_namespace, spot, yields=True)
    if options:
        yield InjectedVariable("RAY_REDIS_ADDRESS", text(options.get("redisAddress")) or None, spot)
    for field, _, name in _REDIS:
        if isinstance(options.get(field), dict):
            yield InjectedVariable(name, text(options[field].get("value")) or None, spot)


def _wait(cluster: Cluster, container: Mapping[Any, Any]) -> dict[str, Any]:
    """The init container that waits for the head, with the environment and mounts of the Ray container."""
    address = f"{cluster.host}:{cluster.port}" if cluster.host else "$(FQ_RAY_IP)"
    amounts = {"cpu": "200m", "memory": "256Mi"}
    kept = {field: container[field] for field in ("env", "volumeMounts", "securityContext") if field in container}
    if mounts := _mounts(cluster.spec, container):
        kept["volumeMounts"] = mounts
    return {
        "name": WAITS,
        "image": text(container.get("image")),
        "command": list(_SHELL),
        "args": [f"until ray health-check --address {address}; do sleep 5; done"],
        "resources": {"limits": amounts, "requests": amounts},
        **kept,
    }


def _filled(
    cluster: Cluster,
    template: Mapping[Any, Any],
    command: str | None,
    params: Mapping[str, str | None],
    *,
    is_head: bool = False,
) -> dict[str, Any]:
    """The pod's containers and volumes with what the Ray container gets: command, shared memory, the metrics port."""
    containers, volumes = (sequence(mapping(template.get("spec")).get(field)) for field in ("containers", "volumes"))
    container = dict(_ray_container(template))
    if not container:
        return {}
    written = [
        item for field in ("command", "args") for item in sequence(container.get(field)) if isinstance(item, str)
    ]
    own = "".join(f" {item} " for item in written)
    annotations = strings(mapping(cluster.owner.data.get("metadata")).get("annotations"))
    keeps = annotations.get("ray.io/overwrite-container-cmd", "").lower() == "true" or "ray start" in own
    if not keeps:
        start = f"ulimit -n 65536; {command or '$(KUBERAY_GEN_RAY_START_CMD)'}"
        container |= {"command": list(_SHELL), "args": [f"{own} && {start}" if own else start]}
    if not any(port.get("name") == "metrics" for _, port in entries(container.get("ports"))):
        port = {"name": "metrics", "containerPort": METRICS_PORT}
        container["ports"] = [*sequence(container.get("ports")), port]
    container["volumeMounts"], volumes = _mounts(cluster.spec, container), _volumes(cluster.spec, volumes)
    mounts = [mount for _, mount in entries(container["volumeMounts"])]
    if "plasma-directory" not in params and not any(mount.get("mountPath") == "/dev/shm" for mount in mounts):
        mount = {"name": "shared-mem", "mountPath": "/dev/shm"}
        container["volumeMounts"] = [*container["volumeMounts"], mount]
        if not any(volume.get("name") == "shared-mem" for _, volume in entries(volumes)):
            volumes = [*volumes, {"name": "shared-mem", "emptyDir": _shared_memory(container)}]
    if is_head and cluster.scales:
        container["volumeMounts"] = [*container["volumeMounts"], _LOGS_MOUNT]
        volumes = [*volumes, _LOGS]
    filled = {"containers": [container, *containers[1:]], "volumes": volumes}
    return filled | ({"restartPolicy": "Never"} if cluster.scales_by_itself else {})


def _shared_memory(container: Mapping[Any, Any]) -> dict[str, Any]:
    resources = mapping(container.get("resources"))
    for kind in ("limits", "requests"):
        memory = mapping(resources.get(kind)).get("memory")
        if memory is not None:
            return {"medium": "Memory", "sizeLimit": memory}
    return {"medium": "Memory"}
