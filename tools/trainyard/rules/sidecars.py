"""Containers beside the one that trains: those that a mesh adds, and those that never end."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import mapping, sequence, strings

_SERVERS = re.compile(
    r"(cloud_sql_proxy|cloud-sql-proxy|dcgm-exporter|envoy|filebeat|fluent-bit|fluentd|grafana-agent|node_exporter|"
    r"otelcol(-contrib)?|prometheus|promtail|pushgateway|redis-server|sshd|statsd_exporter|telegraf|tensorboard|vector)\Z"
)
_SERVES = re.compile(
    r"(\S*/)?(trl vllm-serve|vllm serve|tritonserver|text-generation-launcher|mlflow (server|ui)|"
    r"python[0-9.]* (-u )?-m (vllm\.entrypoints|sglang\.launch_server|http\.server))\b"
)
"""Servers of models, which have GPUs of their own."""
_IMAGES = re.compile(
    r"(^|/)(alloy|cloud-sql-proxy|dcgm-exporter|envoy|filebeat|fluent-bit|fluentd|grafana-agent|node-exporter|"
    r"opentelemetry-collector[a-z-]*|otel-collector|promtail|proxyv2|telegraf|vector)([:@]|$)"
)
_FOR_EVER = re.compile(
    r"while\s+(true|:|\[\s*1\s*\])[ \t]*(;|\n)\s*do\b|\bsleep\s+(infinity|inf)\b|\btail\s+(-\w+\s+)*-[fF]\b"
)
_JOBS = ("Job", "JobSet", "TrainJob", "PyTorchJob", "TFJob")
_MESHES = (
    ("Istio", "sidecar.istio.io/inject", "true", "false"),
    ("Linkerd", "linkerd.io/inject", "enabled", "disabled"),
)
"""Each mesh, the annotation that speaks to it, and what asks for its proxy and what keeps it out."""


@rule("SIC001", "mesh-proxy-in-training-pods", Severity.ERROR, needs=Workload)
@once
def mesh_proxy_in_training_pods(workload: Workload) -> Iterator[Problem]:
    """A service mesh puts its proxy into the pods of a training job.

    The proxy takes over the pod's connections: NCCL and Gloo dial pod addresses and ports that no Service names, and
    the rendezvous or the first collective fails. It also never ends, so that the pods of a finished job stay Running.
    Keep the mesh out with a label on the pod template; what stands on the job itself is not read.

    Bad:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {istio-injection: enabled}}
    Good:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {istio-injection: enabled}}
        ---
        kind: Job
        spec: {template: {metadata: {labels: {sidecar.istio.io/inject: "false"}}}}
    Near miss:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {istio-injection: disabled}}

    Source: https://istio.io/latest/docs/setup/additional-setup/sidecar-injection/
    """
    for pod_set in workload.pod_sets:
        for mesh, key, wanted, off in _MESHES:
            found = _injected(workload, pod_set, mesh, key, wanted)
            if found is None:
                continue
            spot = found.saying("asks for the proxy")
            related: tuple[Spot, ...] = ()
            if found.object is not pod_set.template.object:
                spot = pod_set.template.below("metadata", "annotations", key, label="nothing keeps the proxy out")
                related = (found.saying("asks for the proxy in every pod"),)
            yield Problem(
                f"{mesh} puts its proxy into the pods of {workload.object.kind} {workload.object.name}",
                spot,
                related,
                f'set {key}: "{off}" in the metadata of the pod template',
            )


@rule("SIC002", "sidecar-never-ends", Severity.ERROR, needs=Workload)
@once
def sidecar_never_ends(workload: Workload) -> Iterator[Problem]:
    """A container beside the one that trains runs for ever, so the pod never completes.

    A pod is done when all its containers are. A log shipper, an exporter or a loop keeps it Running when training has
    ended: the job holds its GPUs until somebody looks. An init container with `restartPolicy: Always` runs beside the
    others as well, and is stopped when they are done.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: logs, image: "fluent/fluent-bit:3.2"}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {initContainers: [
          {name: logs, image: "fluent/fluent-bit:3.2", restartPolicy: Always}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: upload, image: "amazon/aws-cli:2.17",
          command: [sh, -c, "until [ -f /checkpoints/done ]; do sleep 10; done; aws s3 sync /checkpoints s3://runs"]}]}}}

    Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    if workload.object.kind not in _JOBS:
        return
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        for container in pod_set.containers:
            if main is None or container is main or container.by_controller:
                continue
            if container.gpus and not _serves(container):
                continue
            spot = _endless(container)
            if spot is not None:
                yield Problem(
                    f"container {container.name} runs for ever beside {main.name}, so the pod never completes",
                    spot.saying("does not end"),
                    (main.spot.below("name", label="the pod is done only when both are"),),
                    "make it an init container with restartPolicy: Always",
                )


def _injected(workload: Workload, pod_set: PodSet, mesh: str, key: str, wanted: str) -> Spot | None:
    """What asks the mesh for its proxy: the pod template, else the namespace.

    None where nothing does, and where the job itself says what SNW003 tells.
    """
    job = mapping(workload.object.data.get("metadata"))
    if key in mapping(job.get("annotations")) or key in mapping(job.get("labels")):
        return None
    for field, said in (("labels", pod_set.labels), ("annotations", pod_set.annotations)):
        if key in said:
            return pod_set.template.below("metadata", field, key) if said[key] == wanted else None
    namespace = _namespace(workload)
    if namespace is None or pod_set.host_network:
        return None
    metadata = mapping(namespace.data.get("metadata"))
    labels, annotations = strings(metadata.get("labels")), strings(metadata.get("annotations"))
    if mesh == "Linkerd":
        return namespace.at("metadata", "annotations", key) if annotations.get(key) == wanted else None
    if labels.get("istio-injection") == "enabled":
        return namespace.at("metadata", "labels", "istio-injection")
    revision = "istio.io/rev" in labels and "istio-injection" not in labels
    return namespace.at("metadata", "labels", "istio.io/rev") if revision else None


def _namespace(workload: Workload) -> Object | None:
    found = (item for item in workload.of_cluster("Namespace") if item.name == workload.object.namespace)
    return next(found, None)


def _serves(container: Container) -> bool:
    """Whether a container ends as a server of models, which waits for requests."""
    last = container.lines[-1] if container.lines else ()
    return bool(_SERVES.match(" ".join(word.text for word in last)))


def _endless(container: Container) -> Spot | None:
    """The field that shows that a container does not end by itself."""
    for field in ("command", "args"):
        for index, item in enumerate(sequence(container.data.get(field))):
            if isinstance(item, str) and _FOR_EVER.search(item) and "break" not in item and "exit" not in item:
                return container.spot.below(field, index)
    if _serves(container):
        return container.lines[-1][0].spot
    words = container.words
    line = " ".join(word.text for word in words)
    if words and (_SERVERS.match(basename(words[0])) or _FOR_EVER.match(line)):
        return words[0].spot
    return container.spot.below("image") if not words and _IMAGES.search(container.image) else None
