"""Jobs changed at random, and what their real webhooks and controllers make of them; other changes each night."""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import by_day
from tests.controlplane.changes import changed
from tests.controlplane.comparison import differences
from tests.controlplane.harness import CONTROLLERS_OF, Ground, ground, missing_claims, node_named, workload_of
from tests.controlplane.owned import owned
from tests.controlplane.test_controllers import INPUTS, kind_of, manifests
from trainyard.controlplane.client import Refused
from trainyard.errors import Fault
from trainyard.findings.finding import Severity
from trainyard.lint.pipeline import lint
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.repository.discover import discover
from trainyard.workload.of_unit import workloads

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

Json = dict[str, Any]
JOBS = 100
"""Changed jobs that schema and linter take, which are given to the controllers."""
SECONDS = 8.0
"""How long the pods of one may take; a RayJob's last one waits for all others."""
MISSED_AT_MOST = 0.08
"""Of the jobs that the linter takes: refused by a webhook, or left without a pod by their controller. Such as list
items that stand twice in a custom resource, and what the operator makes of fields beside the pods. May only fall."""
OTHERWISE_AT_MOST = 0.05
"""Of the same: other pods than were predicted."""
RESOURCES = ("cpu", "memory", "ephemeral-storage")


@dataclass
class Outcome:
    """What became of the jobs, by case."""

    tally: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def plain() -> Iterator[Ground]:
    """Large nodes, each with every resource and label that the inputs ask for."""
    capacity: dict[str, Any] = {"cpu": "10k", "memory": "100Ti", "ephemeral-storage": "100Ti"}
    labels: dict[str, str] = {}
    for name in manifests():
        for pod_set in workload_of(Unit("", False, objects_of(documents(name)))).pod_sets:
            labels |= pod_set.spec.get("nodeSelector") or {}
            for container in (*pod_set.containers, *pod_set.init_containers):
                capacity = dict.fromkeys(container.requests, "1k") | capacity
    with ground() as made:
        for index in range(12):
            made.add_node(node_named(f"node-{index}", {**capacity, "pods": "1000"}, labels))
        yield made


def documents(name: str) -> list[Json]:
    return [data for data in yaml.safe_load_all((INPUTS / name).read_text()) if data]


def objects_of(data: list[Json]) -> tuple[Object, ...]:
    return tuple(Object.of(each, index) for index, each in enumerate(data))


def errors(folder: Path, data: list[Json]) -> set[str]:
    (folder / "job.yaml").write_text(yaml.safe_dump_all(data))
    found = lint(folder, discover(["job.yaml"], folder, folder), use_cache=False).findings
    return {f"{each.rule} {each.message}" for each in found if each.severity >= Severity.ERROR}


def test_what_the_linter_takes_runs_as_predicted(
    plain: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job with an error of the linter, beside those of the input, is not tried: most of them no controller takes."""
    chance = random.Random(f"changed jobs {by_day.seed()}")
    known = {name: errors(tmp_path, documents(name)) for name in manifests()}
    outcome = Outcome()
    while outcome.tally["taken"] < JOBS:
        name = chance.choice(manifests())
        data = in_a_namespace_of_its_own(documents(name), f"n{outcome.tally.total()}")
        index = next(at for at, each in enumerate(data) if is_the_job(each, name))
        job = changed(data[index], chance)
        if job is None:
            outcome.tally["refused by the schema"] += 1
            continue
        data[index] = job
        if errors(tmp_path, data) - known[name]:
            outcome.tally["an error"] += 1
            continue
        outcome.tally["taken"] += 1
        run(plain, data, name, outcome)

    with capsys.disabled():
        print(f"\n{dict(outcome.tally)}; missed: {len(outcome.missed)}; other pods: {len(outcome.otherwise)}")
    seed = f"TRAINYARD_SEED={by_day.seed()}"
    assert len(outcome.missed) <= MISSED_AT_MOST * JOBS, "\n".join([seed, *outcome.missed])
    assert len(outcome.otherwise) <= OTHERWISE_AT_MOST * JOBS, "\n".join([seed, *outcome.otherwise])


def is_the_job(data: Json, name: str) -> bool:
    item = Object.of(data, 0)
    return (item.group, item.kind) == kind_of(INPUTS / name)


def in_a_namespace_of_its_own(data: list[Json], name: str) -> list[Json]:
    """The documents, where nothing of an earlier job is left."""
    texts = {each["metadata"]["namespace"] for each in data if "namespace" in each["metadata"]}
    moved = copy.deepcopy(data)
    for each in moved:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = name
    text = json.dumps(moved)
    for old in texts:
        text = text.replace(f".{old}.svc", f".{name}.svc")
    found: list[Json] = json.loads(text)
    return found


def run(plain: Ground, data: list[Json], name: str, outcome: Outcome) -> None:
    """Give a job to its controllers, and note what they make of it."""
    unit = Unit("job.yaml", False, objects_of(data))
    found = workloads(unit)
    if len(found) != 1 or not found[0].pods:
        outcome.tally["pods not known"] += 1
        return
    (workload,) = found
    job = workload.object
    plain.ensure(*CONTROLLERS_OF[job.group, job.kind])
    plain.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": job.namespace}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    plain.client.apply({**account, "metadata": {"name": "default", "namespace": job.namespace}})
    for claim in missing_claims(workload):
        plain.client.create(claim)
    said = f"{name}: {json.dumps(job.data['spec'])}"
    try:
        plain.apply(unit)
        plain.running_pods(workload, SECONDS)
    except Refused as refused:
        outcome.missed.append(f"{said}\n  {refused}")
        return
    except Fault:
        outcome.tally["not all run"] += 1
    pods = sorted(owned(plain.client, job.data, "v1", "Pod"), key=lambda pod: str(pod["metadata"]["name"]))
    differing = differences(workload, pods, plain.client)
    if not pods:
        outcome.missed.append(f"{said}\n  no pods: {json.dumps(plain.client.get(job.data).get('status'))}")
    elif differing:
        outcome.otherwise.append("\n  ".join([said, *differing]))
    plain.client.delete(job.data)
