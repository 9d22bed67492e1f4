"""Huge pages that a pod asks for, and the volumes that hand them out."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import Remedy, all_of, put
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Setting, Workload
from trainyard.workload.plain import text

_RESOURCE = re.compile(r"hugepages-(?P<size>\S+)\Z")


@rule("RES003", "hugepages-refused", Severity.ERROR, needs=Workload, fix="safe")
@once
def hugepages_refused(workload: Workload) -> Iterator[Problem]:
    """Huge pages are asked for in an amount or a way that Kubernetes refuses, or that is less than one page.

    The amount is in bytes and a multiple of the page size: `256` is 256 bytes, not 256 MiB. Request and limit are
    equal, as huge pages cannot be overcommitted, and the container also asks for CPU or memory.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {hugepages-2Mi: "256"}}}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {hugepages-2Mi: 128Mi}, limits: {hugepages-2Mi: 256Mi}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {hugepages-2Mi: 256Mi}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {hugepages-2Mi: "268435456"}}}]}}}

    Source: https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
    """
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            for name in sorted({*container.limits, *container.requests}):
                match = _RESOURCE.match(name)
                if match is not None:
                    yield from _refused(container, name, match["size"])


def _refused(container: Container, name: str, size: str) -> Iterator[Problem]:
    limit, request, page = container.limits.get(name), container.requests.get(name), quantity(size)
    asked = limit or request
    amount = None if asked is None else quantity(asked.value)
    if asked is None or amount is None or page is None or page <= 0:
        return
    if amount % page:
        yield Problem(
            f"{name} {asked.value} is {amount} bytes, which is not a multiple of a page of {size}",
            asked.spot.saying("bytes, as no unit is written" if _is_bare(asked) else f"not whole pages of {size}"),
            () if request is None or request is asked or request.implied else (request.spot,),
            f"write {asked.value}Mi" if _is_bare(asked) else f"ask for a multiple of {size}",
            _in_mebibytes(asked, limit, request),
        )
    elif limit is None:
        yield Problem(
            f"container {container.name} requests {name} {asked.value} but has no limit for it",
            asked.spot.saying("huge pages need a limit"),
            help="write the same amount under limits",
            fix=put(container.spot.below("resources", "limits", name), asked.value),
        )
    elif request is not None and quantity(request.value) != amount:
        yield Problem(
            f"container {container.name} requests {name} {request.value}, but its limit is {limit.value}",
            request.spot.saying("must equal the limit"),
            (limit.spot.saying("the limit"),),
            "write the same amount under requests and limits",
            put(request.spot, limit.value),
        )
    elif not {"cpu", "memory"}.intersection(container.requests):
        yield Problem(
            f"container {container.name} asks for {name}, but for no cpu and no memory",
            asked.spot.saying("refused without cpu or memory beside it"),
            help="ask for cpu or memory too",
        )


@rule("RES004", "hugepages-volume-without-pages", Severity.ERROR, needs=Workload)
@once
def hugepages_volume_without_pages(workload: Workload) -> Iterator[Problem]:
    """A volume of huge pages stands in a pod whose containers ask for no huge pages of that size.

    The kubelet cannot mount it: the pod stays in ContainerCreating.

    Bad:
        kind: Job
        spec: {template: {spec: {volumes: [{name: pages, emptyDir: {medium: HugePages-2Mi}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {
          volumes: [{name: pages, emptyDir: {medium: HugePages-2Mi}}],
          containers: [{name: trainer, resources: {limits: {hugepages-2Mi: 1Gi}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {
          volumes: [{name: pages, emptyDir: {medium: HugePages}}],
          containers: [{name: trainer, resources: {limits: {hugepages-1Gi: 2Gi}}}]}}}

    Source: https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
    """
    for pod_set in workload.pod_sets:
        containers = (*pod_set.init_containers, *pod_set.containers)
        sizes = {match["size"] for each in containers for name in each.limits if (match := _RESOURCE.match(name))}
        for volume in volumes(pod_set):
            medium, _, size = text(volume.data.get("medium")).partition("-")
            if volume.source != "emptyDir" or medium != "HugePages":
                continue
            if (size in sizes) if size else len(sizes) == 1:
                continue
            lacking = f"hugepages-{size}" if size else "exactly one size of huge pages" if sizes else "huge pages"
            yield Problem(
                f"volume {volume.name} is made of huge pages, but no container asks for {lacking}",
                volume.spot.below("emptyDir", "medium", label="cannot be mounted"),
                help=f"put {'hugepages-' + (size or '2Mi')} into a container's limits, or use medium Memory",
            )


def _in_mebibytes(asked: Setting, *settings: Setting | None) -> Remedy | None:
    """The unit that was probably meant, under limits and requests alike."""
    written = [each for each in settings if each is not None and not each.implied and each.value == asked.value]
    return all_of(put(each.spot, f"{each.value}Mi").unsafe() for each in written) if _is_bare(asked) else None


def _is_bare(setting: Setting) -> bool:
    return isinstance(setting.value, int) or (isinstance(setting.value, str) and setting.value.isdigit())
