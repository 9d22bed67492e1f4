"""The pods of a job, created on a throwaway server as its controller would: quotas, limits, Pod Security decide."""

import copy
import time
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.controlplane.client import Client, Refused, User
from trainyard.objects.unit import Unit
from trainyard.rules.registry import Problem
from trainyard.verify.answers import brief, problems
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.of_unit import workloads
from trainyard.workload.plain import mapping
from trainyard.yaml.fieldpath import lookup

CONTROLLER = User.service_account("kube-system", "job-controller")
MOST_PODS = 2000
"""Of a job with more pods, so many are created: quotas of that size are no longer a mistake of one job."""
EXCEEDED = "exceeded quota"
_SETTLE_SECONDS = 0.5
"""How long the API server may take to see that a quota was set back to nothing used."""


def refusals(admin: Client, unit: Unit) -> Iterator[Problem]:
    """What is refused of the unit's pods. Leaves the server as it was, but for ServiceAccounts."""
    for workload in workloads(unit):
        namespace = workload.object.namespace or "default"
        quotas = admin.list("v1", "ResourceQuota", namespace)
        _forget_use(admin, quotas)
        made: list[dict[str, Any]] = []
        try:
            for account in workload.of_kind("ServiceAccount"):
                admin.apply(account.data)
            yield from _made(admin, workload, bool(quotas), made)
        except Refused as error:
            yield from problems(workload.object, error)
        finally:
            for pod in made:
                admin.delete(pod, now=True)


def _made(admin: Client, workload: Workload, counted: bool, made: list[dict[str, Any]]) -> Iterator[Problem]:
    controller = admin.acting_as(CONTROLLER)
    for pod_set in workload.pod_sets:
        count = pod_set.count.value
        wanted = min(count, MOST_PODS) if isinstance(count, int) else 1
        for index in range(wanted if counted else min(wanted, 1)):
            pod = pod_of(workload, pod_set, index)
            try:
                made.append(_created(controller, pod))
            except Refused as error:
                yield from _refused(pod_set, index, error)
                break


def _created(controller: Client, pod: dict[str, Any]) -> dict[str, Any]:
    try:
        return controller.create(pod).body
    except Refused as error:
        if EXCEEDED not in str(error):
            raise
    time.sleep(_SETTLE_SECONDS)
    return controller.create(pod).body


def _refused(pod_set: PodSet, index: int, error: Refused) -> Iterator[Problem]:
    if EXCEEDED in str(error):
        which = f"pod {index + 1} of {pod_set.count.value}"
        yield Problem(f"the API server refuses {which}: {brief(str(error))}", pod_set.count.spot)
        return
    yield from problems(pod_set.template.object, error, pod_set.template.path)


def pod_of(workload: Workload, pod_set: PodSet, index: int) -> dict[str, Any]:
    """The pod of an index as the controller would create it, as far as admission looks at it."""
    metadata = copy.deepcopy(dict(_of_template(pod_set, "metadata")))
    metadata["labels"] = dict(pod_set.labels)
    metadata["annotations"] = dict(pod_set.annotations)
    names = pod_set.hostnames
    metadata["generateName"] = f"{names[index] if index < len(names) else workload.object.name}-"
    metadata["namespace"] = workload.object.namespace or "default"
    spec = {**copy.deepcopy(dict(pod_set.spec)), **({"hostname": names[index]} if index < len(names) else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _of_template(pod_set: PodSet, field: str) -> Mapping[str, Any]:
    """A map of the pod template; an empty one where the controller makes the template itself."""
    try:
        return mapping(lookup(pod_set.template.object.data, (*pod_set.template.path, field)))
    except KeyError:
        return {}


def _forget_use(admin: Client, quotas: list[dict[str, Any]]) -> None:
    """Say that nothing of the quotas is used, as their controller would: it does not run here."""
    for quota in quotas:
        named = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota["metadata"]}
        hard = quota["spec"].get("hard", {})
        admin.patch(named, {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}, below="status")
