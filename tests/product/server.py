"""The jobs of one cluster, asked of one API server, each object once."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.objects.unit import Unit
from trainyard.verify.dry_run import gitops
from trainyard.verify.pods import CONTROLLER, pod_of
from trainyard.workload.of_unit import workloads

Json = dict[str, Any]


def refusals(units: Sequence[Unit]) -> Iterator[str]:
    """What an API server that holds the cluster's platform refuses or warns of in these jobs and in their pods.

    Nothing of them is stored. What differs in the job's name alone is asked about once, so names are of one length.
    """
    first = units[0]
    assert first.platform is not None
    objects = {_text(item.data, unit, first): unit.name for unit in units for item in unit.objects}
    pods = {_text(pod, unit, first): unit.name for unit in units for pod in _pods(unit)}
    own = [item for item in first.objects if item.kind == "ServiceAccount"]
    before = [*sorted(first.platform, key=lambda item: item.kind != "Namespace"), *own]
    kinds = {(item["apiVersion"], item["kind"]) for item in map(json.loads, objects)}
    with running(watched=False) as plane, closing(plane.client()) as admin:
        load_definitions(admin, kinds | {(item.api_version, item.kind) for item in before})
        for item in before:
            admin.apply(item.data)
        team, controller = (admin.acting_as(user) for user in (gitops(own[0].namespace), CONTROLLER))
        for text, name in objects.items():
            yield from _told(team, json.loads(text), name)
        for text, name in pods.items():
            yield from _told(controller, json.loads(text), name)


def _told(client: Client, item: Json, name: str) -> Iterator[str]:
    """What is said of an object: a pod is created as its controller does, anything else applied."""
    ask = client.create if item["kind"] == "Pod" else client.apply
    try:
        answer = ask(item, dry_run=True)
    except Refused as refused:
        yield f"{name}: {item['kind']}: {refused}"
        return
    yield from (f"{name}: {item['kind']}: {text}" for text in answer.warnings)


def _pods(unit: Unit) -> Iterator[Json]:
    """One pod of each set of pods."""
    for workload in workloads(unit):
        yield from (pod_of(workload, pod_set, 0) for pod_set in workload.pod_sets)


def _text(item: Json, unit: Unit, first: Unit) -> str:
    """An object as JSON, under the name of the first job."""
    own, shared = (each.name.rpartition("/")[2] for each in (unit, first))
    return json.dumps(item, sort_keys=True).replace(own, shared)
