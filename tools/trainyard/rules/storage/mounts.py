"""What pods ask for in vain."""

from collections.abc import Iterator
from difflib import get_close_matches

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.volumes import volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import entries, text


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


def _every(pod_set: PodSet) -> tuple[Container, ...]:
    return (*pod_set.init_containers, *pod_set.containers)


def _listed(names: set[str]) -> str:
    return f"only {', '.join(sorted(names))}" if names else "none"
