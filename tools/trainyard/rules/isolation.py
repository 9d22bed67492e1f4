"""What the pods of a job folder may not ask of their node, and what they ask for in vain."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from trainyard.finding import Severity
from trainyard.objects import Spot
from trainyard.remedy import Remedy, put
from trainyard.rules.registry import Problem, rule
from trainyard.rules.volumes import volumes
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, mapping, sequence, text

_MEMORY_PINNING = "IPC_LOCK"
_HOST_NAMESPACES = ("hostPID", "hostIPC")


@rule("SEC005", "takes-over-the-node", Severity.ERROR, needs=Workload, guarded=True)
def takes_over_the_node(workload: Workload) -> Iterator[Problem]:
    """A job folder asks for rights with which a pod can take over its node.

    Namespaces on RDMA clusters cannot enforce a Pod Security level, since pinning memory takes IPC_LOCK. So this is
    where privileged containers, root, host paths, the node's processes and further capabilities are refused.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, securityContext: {privileged: true, allowPrivilegeEscalation: true}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {capabilities: {add: [IPC_LOCK]}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {securityContext: {runAsNonRoot: true, runAsUser: 1000}}}}

    Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    if not workload.in_job_folder:
        return
    for pod_set in workload.pod_sets:
        for spot, what in _rights(pod_set):
            help = "leave it out; what a fabric needs stands in its fabric.yaml"
            yield Problem(f"the pods ask for {what}, which hands them the node", spot, help=help)


@rule("STO006", "mount-without-volume", Severity.ERROR, needs=Workload, fix="unsafe")
def mount_without_volume(workload: Workload) -> Iterator[Problem]:
    """A container mounts a volume that its pod does not have.

    The API server refuses such pods.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, volumeMounts: [{name: chekpoints, mountPath: /extra}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, volumeMounts: [{name: extra, mountPath: /extra}]}],
          volumes: [{name: extra, emptyDir: {}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {volumes: [{name: not-mounted, emptyDir: {}}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/volumes/
    """
    for pod_set in workload.pod_sets:
        known = {volume.name for volume in volumes(pod_set)}
        for container in _every(pod_set):
            for index, mount in entries(container.data.get("volumeMounts")):
                name = text(mount.get("name"))
                if name and name not in known:
                    yield Problem(
                        f"container {container.name} mounts volume {name}, but the pod has {_listed(known)}",
                        container.spot.below("volumeMounts", index, "name"),
                        help="add the volume, or correct the name",
                        fix=_correct_name(container.spot.below("volumeMounts", index, "name"), name, known),
                    )


def _correct_name(spot: Spot, name: str, known: set[str]) -> Remedy | None:
    near = get_close_matches(name, sorted(known), 1, 0.7)
    return put(spot, near[0]).saying(f"write {near[0]}").unsafe() if near else None


def _rights(pod_set: PodSet) -> Iterator[tuple[Spot, str]]:
    spec = pod_set.template.below("spec")
    for name in _HOST_NAMESPACES:
        if pod_set.spec.get(name) is True:
            yield spec.below(name), name
    for volume in volumes(pod_set):
        if volume.source == "hostPath":
            yield volume.spot.below("hostPath"), f"the node's folder {text(volume.data.get('path')) or '/'}"
    yield from _as_root(mapping(pod_set.spec.get("securityContext")), spec.below("securityContext"))
    for container in _every(pod_set):
        context, spot = mapping(container.data.get("securityContext")), container.spot.below("securityContext")
        yield from _as_root(context, spot)
        if context.get("privileged") is True:
            yield spot.below("privileged"), "a privileged container"
        for index, added in enumerate(sequence(mapping(context.get("capabilities")).get("add"))):
            if isinstance(added, str) and added.removeprefix("CAP_") != _MEMORY_PINNING:
                yield spot.below("capabilities", "add", index), f"capability {added}"


def _as_root(context: Mapping[str, Any], spot: Spot) -> Iterator[tuple[Spot, str]]:
    user = context.get("runAsUser")
    if user == 0 and not isinstance(user, bool):
        yield spot.below("runAsUser"), "root"


def _every(pod_set: PodSet) -> tuple[Container, ...]:
    return (*pod_set.init_containers, *pod_set.containers)


def _listed(names: set[str]) -> str:
    return f"only {', '.join(sorted(names))}" if names else "none"
