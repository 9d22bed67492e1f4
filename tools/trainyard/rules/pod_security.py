"""The Pod Security level of a job's namespace against its pods, and the user that they run as."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping, sequence, strings, text

_ENFORCE = "pod-security.kubernetes.io/enforce"
_BASELINE_CAPABILITY = re.compile(
    r"(CAP_)?(AUDIT_WRITE|CHOWN|DAC_OVERRIDE|FOWNER|FSETID|KILL|MKNOD|NET_BIND_SERVICE|SETFCAP|SETGID|SETPCAP|SETUID|"
    r"SYS_CHROOT)\Z"
)
_RESTRICTED_VOLUME = re.compile(
    r"(configMap|csi|downwardAPI|emptyDir|ephemeral|image|persistentVolumeClaim|projected|secret)\Z"
)
_SAFE_SYSCTL = re.compile(
    r"(kernel\.shm_rmid_forced|net\.ipv4\.(ip_local_port_range|ip_local_reserved_ports|ip_unprivileged_port_start|"
    r"ping_group_range|tcp_fin_timeout|tcp_keepalive_intvl|tcp_keepalive_probes|tcp_keepalive_time|tcp_rmem|"
    r"tcp_syncookies|tcp_wmem))\Z"
)
_NUMBERED_USER = re.compile(
    r"non-?root|distroless|chainguard|bitnami|rootless|(^|/)(rayproject|jupyter|kubeflownotebookswg|prom)/",
    re.IGNORECASE,
)
"""Images whose USER is a number that is not 0, as their names or their projects tell."""

Refusal = tuple[str, Spot]
"""What a level forbids or demands, and the field that is wrong."""


@rule("PSA001", "pod-security-refuses", Severity.ERROR, needs=Workload, every_pod=True)
@once
def pod_security_refuses(workload: Workload) -> Iterator[Problem]:
    """The namespace of a job enforces a Pod Security level that its pods do not meet.

    The API server takes the job and refuses every pod that its controller makes: the job stays without pods, and only
    events say why. `baseline` forbids the node's network and namespaces, host paths and ports, privileged containers
    and capabilities such as IPC_LOCK; `restricted` also demands settings of every container, those that an operator
    adds included.

    Bad:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {pod-security.kubernetes.io/enforce: baseline}}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Good:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {pod-security.kubernetes.io/enforce: privileged}}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Near miss:
        kind: Namespace
        apiVersion: v1
        metadata: {name: research, labels: {pod-security.kubernetes.io/warn: restricted}}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}

    Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    namespace = _namespace(workload)
    labels = {} if namespace is None else strings(mapping(namespace.data.get("metadata")).get("labels"))
    level = labels.get(_ENFORCE)
    if namespace is None or level not in ("baseline", "restricted"):
        return
    for pod_set in workload.pod_sets:
        refusals = list(_against_baseline(pod_set))
        if level == "restricted":
            refusals += _against_restricted(pod_set)
        for what, spot in refusals:
            yield Problem(
                f"namespace {namespace.name} enforces {level}, which {what}",
                spot.saying("every pod is refused"),
                (namespace.at("metadata", "labels", _ENFORCE, label="the level"),),
                "change the pods, or run the job in a namespace whose level allows it",
            )


@rule("PSA002", "non-root-without-user", Severity.WARNING, needs=Workload)
@once
def non_root_without_user(workload: Workload) -> Iterator[Problem]:
    """A container must not run as root, but nothing says as which user it runs.

    With `runAsNonRoot` the kubelet starts a container only if it sees a number that is not 0: `runAsUser`, or a numeric
    USER in the image. Images of frameworks start as root, and others name their user by a word, which it cannot check.
    The container stays in CreateContainerConfigError.

    Bad:
        kind: Job
        spec: {template: {spec: {securityContext: {runAsUser: null}}}}
    Good:
        kind: Job
        spec: {template: {spec: {securityContext: {runAsUser: 1000}}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {securityContext: {runAsUser: null}, containers: [
          {name: trainer, securityContext: {runAsUser: 1000}}]}}}

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    """
    for pod_set in workload.pod_sets:
        for container in _own(pod_set):
            non_root, user = _effective(pod_set, container, "runAsNonRoot"), _effective(pod_set, container, "runAsUser")
            if non_root is None or non_root[0] is not True or user is not None:
                continue
            if not _NUMBERED_USER.search(container.image):
                yield Problem(
                    f"container {container.name} must not run as root, but no runAsUser says who it runs as",
                    non_root[1].saying("refused where the image starts as root or names its user by a word"),
                    help="set a runAsUser other than 0",
                )


@rule("PSA003", "non-root-as-root", Severity.ERROR, needs=Workload)
@once
def non_root_as_root(workload: Workload) -> Iterator[Problem]:
    """A container is told to run as root and not to run as root.

    The kubelet never starts it. Often one of the two stands on the pod and the other on the container. In a job folder
    SEC005 refuses root altogether.

    Bad:
        # on: job
        spec:
          template:
            spec:
              securityContext: {runAsNonRoot: true}
              containers: [{name: trainer, securityContext: {runAsUser: 0}}]
    Good:
        # on: job
        spec:
          template:
            spec:
              securityContext: {runAsNonRoot: true}
              containers: [{name: trainer, securityContext: {runAsUser: 1001}}]
    Near miss:
        # on: job
        spec:
          template:
            spec:
              securityContext: {runAsNonRoot: true}
              containers: [{name: trainer, securityContext: {runAsUser: 0, runAsNonRoot: false}}]

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    """
    for pod_set in workload.pod_sets if not workload.in_job_folder else ():
        for container in _own(pod_set):
            non_root, user = _effective(pod_set, container, "runAsNonRoot"), _effective(pod_set, container, "runAsUser")
            if non_root is not None and non_root[0] is True and user is not None and _is_root(user[0]):
                yield Problem(
                    f"container {container.name} runs as user 0, but runAsNonRoot forbids that",
                    user[1].saying("root"),
                    (non_root[1].saying("forbids root"),),
                    "use another user, or drop runAsNonRoot",
                )


def _against_baseline(pod_set: PodSet) -> Iterator[Refusal]:
    spec = pod_set.template.below("spec")
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod_set.spec.get(name) is True:
            yield f"forbids {name}", spec.below(name)
    for volume in volumes(pod_set):
        if volume.source == "hostPath":
            yield "forbids volumes of hostPath", volume.spot.below("hostPath")
    context = mapping(pod_set.spec.get("securityContext"))
    for index, sysctl in entries(context.get("sysctls")):
        if not _SAFE_SYSCTL.match(text(sysctl.get("name"))):
            spot = spec.below("securityContext", "sysctls", index, "name")
            yield f"forbids sysctl {text(sysctl.get('name'))}", spot
    if mapping(context.get("seccompProfile")).get("type") == "Unconfined":
        yield "forbids seccomp profile Unconfined", spec.below("securityContext", "seccompProfile", "type")
    for container in (*pod_set.init_containers, *pod_set.containers):
        yield from _container_against_baseline(container)


def _container_against_baseline(container: Container) -> Iterator[Refusal]:
    context, spot = _security(container)
    if context.get("privileged") is True:
        yield "forbids privileged containers", spot.below("privileged")
    if mapping(context.get("seccompProfile")).get("type") == "Unconfined":
        yield "forbids seccomp profile Unconfined", spot.below("seccompProfile", "type")
    for index, name in enumerate(sequence(mapping(context.get("capabilities")).get("add"))):
        if isinstance(name, str) and not _BASELINE_CAPABILITY.match(name):
            yield f"forbids capability {name}", spot.below("capabilities", "add", index)
    for index, port in entries(container.data.get("ports")):
        if port.get("hostPort"):
            yield "forbids ports of the node", container.spot.below("ports", index, "hostPort")


def _against_restricted(pod_set: PodSet) -> Iterator[Refusal]:
    for volume in volumes(pod_set):
        if volume.source not in ("", "hostPath") and not _RESTRICTED_VOLUME.match(volume.source):
            yield f"forbids volumes of {volume.source}", volume.spot.below(volume.source)
    pod = pod_set.template.below("spec", "securityContext")
    for container in (*pod_set.init_containers, *pod_set.containers):
        context, own = _security(container)
        whose = f"container {container.name}" + (", which the operator adds" if container.by_controller else "")
        if container.by_controller:
            own = pod
        non_root = _effective(pod_set, container, "runAsNonRoot")
        if non_root is None or non_root[0] is not True:
            yield f"demands runAsNonRoot of {whose}", (own if non_root else pod).below("runAsNonRoot")
        if _effective(pod_set, container, "seccompProfile") is None:
            yield f"demands a seccompProfile of {whose}", pod.below("seccompProfile")
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"demands allowPrivilegeEscalation: false of {whose}", own.below("allowPrivilegeEscalation")
        capabilities = mapping(context.get("capabilities"))
        if "ALL" not in sequence(capabilities.get("drop")):
            yield f"demands capabilities drop: [ALL] of {whose}", own.below("capabilities", "drop")
        for index, name in enumerate(sequence(capabilities.get("add"))):
            if isinstance(name, str) and _BASELINE_CAPABILITY.match(name) and "NET_BIND_SERVICE" not in name:
                yield f"forbids capability {name}", own.below("capabilities", "add", index)
        user = _effective(pod_set, container, "runAsUser")
        if user is not None and _is_root(user[0]):
            yield f"forbids root in {whose}", user[1]


def _namespace(workload: Workload) -> Object | None:
    name = workload.object.namespace
    found = (item for item in workload.of_cluster("Namespace") if item.api_version == "v1" and item.name == name)
    return next(found, None) if name else None


def _own(pod_set: PodSet) -> Iterator[Container]:
    """The containers that manifests hold."""
    yield from (each for each in (*pod_set.init_containers, *pod_set.containers) if not each.by_controller)


def _security(container: Container) -> tuple[Mapping[str, Any], Spot]:
    return mapping(container.data.get("securityContext")), container.spot.below("securityContext")


def _effective(pod_set: PodSet, container: Container, field: str) -> tuple[Any, Spot] | None:
    """A setting of the container, else of its pod, and where it stands; None where neither has it."""
    context, spot = _security(container)
    if context.get(field) is not None:
        return context[field], spot.below(field)
    pod = mapping(pod_set.spec.get("securityContext"))
    here = pod_set.template.below("spec", "securityContext", field)
    return None if pod.get(field) is None else (pod[field], here)


def _is_root(user: Any) -> bool:
    return user == 0 and not isinstance(user, bool)
