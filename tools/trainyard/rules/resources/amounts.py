"""Amounts of CPU, memory and storage that mean something else than they seem to."""

import re
from collections.abc import Iterator
from fractions import Fraction

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Workload
from trainyard.workload.plain import mapping, text

_MIB = Fraction(2**20)
_BYTES = ("memory", "ephemeral-storage")
_MEANT = {"g": "Gi", "gb": "Gi", "gib": "Gi", "m": "Mi", "mb": "Mi", "mib": "Mi", "t": "Ti", "tb": "Ti", "tib": "Ti"}
_NUMBER = re.compile(r"\s*+(?P<number>[0-9.]++)\s*+(?P<unit>[A-Za-z]*+)\s*+\Z")

Amount = tuple[str, str, object, Spot]
"""What it is; whose it is, as text; the value; its field."""


@rule("RES005", "amount-misread", Severity.ERROR, needs=Workload, fix="safe")
@once
def amount_misread(workload: Workload) -> Iterator[Problem]:
    """Memory or storage is given in a unit that Kubernetes does not know, or comes to less than a mebibyte.

    Kubernetes knows `Ki Mi Gi Ti` and `k M G T`, and `m` is a thousandth: `512` is 512 bytes, `64m` is less than one
    byte. `GB`, `gb`, `g` and `GiB` are refused. A container with a few bytes of memory does not start.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {memory: "900"}, limits: {memory: "900"}}}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {memory: 900GB}, limits: {memory: 900GB}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {memory: 900Gi}, limits: {memory: 900Gi}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {memory: "966367641600"}, limits: {memory: "966367641600"}}}]}}}

    Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#meaning-of-memory
    """
    for what, whose, value, spot in _amounts(workload):
        if not isinstance(value, str | int | float) or isinstance(value, bool) or value == "":
            continue
        amount = quantity(value)
        if amount is None:
            yield Problem(
                f"{what} {value} of {whose} is not a quantity",
                spot.saying("refused"),
                (),
                _remedy(value),
                _with_unit(value, spot),
            )
        elif 0 < amount < _MIB:
            size = "less than a byte" if amount < 1 else f"{int(amount)} bytes"
            yield Problem(
                f"{what} {value} of {whose} is {size}", spot.saying(size), (), _remedy(value), _with_unit(value, spot)
            )


@rule("RES006", "request-over-limit", Severity.ERROR, needs=Workload, fix="safe")
@once
def request_over_limit(workload: Workload) -> Iterator[Problem]:
    """A container requests more CPU, memory or storage than its limit allows.

    The API server refuses such pods.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {cpu: "96"}, limits: {cpu: "88"}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {cpu: "88"}, limits: {cpu: "88"}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {
          requests: {cpu: 88000m}, limits: {cpu: "88"}}}]}}}

    Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#requests-and-limits
    """
    for container in _containers(workload):
        for name in ("cpu", "memory", "ephemeral-storage"):
            request, limit = container.requests.get(name), container.limits.get(name)
            if request is None or limit is None:
                continue
            asked, allowed = quantity(request.value), quantity(limit.value)
            if asked is not None and allowed is not None and asked > allowed:
                yield Problem(
                    f"container {container.name} requests {name} {request.value}, but may use only {limit.value}",
                    request.spot.saying("more than the limit"),
                    (limit.spot.saying("the limit"),),
                    f"request at most {limit.value}, or raise the limit",
                    put(request.spot, limit.value).saying(f"request {limit.value}"),
                )


@rule("RES010", "scratch-over-storage-limit", Severity.ERROR, needs=Workload)
@once
def scratch_over_storage_limit(workload: Workload) -> Iterator[Problem]:
    """A volume on the node's disk may grow past the pod's limit of ephemeral storage.

    What is written to an emptyDir on disk counts against the limits of ephemeral storage of the pod's containers
    together. The kubelet evicts the pod at that limit, long before the volume is full, and one lost pod stops every
    rank of the job.

    Bad:
        kind: Job
        spec: {template: {spec: {
          volumes: [{name: cache, emptyDir: {sizeLimit: 500Gi}}],
          containers: [{name: trainer, resources: {limits: {ephemeral-storage: 50Gi}}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {
          volumes: [{name: cache, emptyDir: {sizeLimit: 500Gi}}],
          containers: [{name: trainer, resources: {limits: {ephemeral-storage: 600Gi}}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {
          volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}],
          containers: [{name: trainer, resources: {limits: {ephemeral-storage: 50Gi}}}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/ephemeral-storage/
    """
    for pod_set in workload.pod_sets:
        limits = [container.limits.get("ephemeral-storage") for container in pod_set.containers]
        known = [limit for limit in limits if limit is not None]
        amounts = [quantity(limit.value) for limit in known]
        if not known or len(known) < len(limits) or None in amounts:
            continue
        allowed = sum(amount for amount in amounts if amount is not None)
        for volume in volumes(pod_set):
            size = quantity(volume.data.get("sizeLimit"))
            if volume.source != "emptyDir" or text(volume.data.get("medium")) or size is None or size <= allowed:
                continue
            yield Problem(
                f"volume {volume.name} may grow to {volume.data['sizeLimit']}, but the pod is evicted at "
                + " + ".join(str(limit.value) for limit in known),
                volume.spot.below("emptyDir", "sizeLimit", label="more than the pod may hold"),
                tuple(limit.spot.saying("ephemeral storage of the pod") for limit in known),
                "raise the limit of ephemeral-storage, or make the volume smaller",
            )


def _amounts(workload: Workload) -> Iterator[Amount]:
    """Memory and storage that the job asks for, each with its field."""
    for container in _containers(workload):
        for name in _BYTES:
            for setting in (container.limits.get(name), container.requests.get(name)):
                if setting is not None and not setting.implied:
                    yield name, f"container {container.name}", setting.value, setting.spot
    for pod_set in workload.pod_sets:
        for volume in volumes(pod_set):
            if volume.source == "emptyDir":
                spot = volume.spot.below("emptyDir", "sizeLimit")
                yield "sizeLimit", f"volume {volume.name}", volume.data.get("sizeLimit"), spot
    for claim in workload.of_kind("PersistentVolumeClaim"):
        requests = mapping(mapping(mapping(claim.data.get("spec")).get("resources")).get("requests"))
        spot = claim.at("spec", "resources", "requests", "storage")
        yield "storage", f"claim {claim.name}", requests.get("storage"), spot


def _containers(workload: Workload) -> Iterator[Container]:
    for pod_set in workload.pod_sets:
        yield from (each for each in (*pod_set.init_containers, *pod_set.containers) if not each.by_controller)


def _with_unit(value: str | int | float, spot: Spot) -> Remedy | None:
    """The unit that was certainly meant: GB and Gb are read as nothing, m as a thousandth."""
    match = _NUMBER.match(str(value))
    unit = _MEANT.get(match["unit"].lower()) if match is not None else None
    return put(spot, f"{match['number']}{unit}") if match is not None and unit else None


def _remedy(value: str | int | float) -> str:
    match = _NUMBER.match(str(value))
    if match is None:
        return "write a number with Ki, Mi, Gi or Ti"
    unit = _MEANT.get(match["unit"].lower())
    return f"write {match['number']}{unit}" if unit else f"write {match['number']}Gi or {match['number']}Mi"
