"""Fields without a value: what the API server does with them is what the linter says."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.definitions import load_definitions
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import check

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
RAY = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: shared, namespace: default}
spec:
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: head, image: ray, env: [{name: A, value: "1"}]}]}}
"""
JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: bert, namespace: default}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: trainer, image: a, resources: {limits: {cpu: 1}}}]}
"""
POD = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
NULLS: list[tuple[str, tuple[str | int, ...]]] = [
    (RAY, ("spec", "headGroupSpec", "template", "metadata")),
    (RAY, ("spec", "headGroupSpec", "template", "spec", "containers", 0, "env", 0, "value")),
    (RAY, ("spec", "headGroupSpec", "rayStartParams")),
    (RAY, ("spec", "headGroupSpec", "template")),
    (RAY, ("spec", "workerGroupSpecs")),
    (RAY, ("spec",)),
    (JOB_SET, (*POD, "initContainers")),
    (JOB_SET, (*POD, "containers", 0, "image")),
    (JOB_SET, (*POD, "containers", 0, "resources", "limits", "nvidia.com/gpu")),
    (JOB_SET, (*POD, "containers", 0)),
    (JOB_SET, ("spec", "replicatedJobs", 0, "name")),
    (JOB_SET, ("spec", "replicatedJobs")),
    (JOB_SET, ("metadata", "labels")),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running() as plane:
        client = plane.client()
        load_definitions(client, [("ray.io/v1", "RayCluster"), ("jobset.x-k8s.io/v1alpha2", "JobSet")])
        yield client
        client.close()


def _with_null(text: str, path: tuple[str | int, ...]) -> Json:
    data: Json = yaml.safe_load(text)
    below: Any = data
    for step in path[:-1]:
        below = below[step]
    below[path[-1]] = None
    return data


def _is_refused(client: Client, data: Json, *, applied: bool) -> bool:
    try:
        (client.apply if applied else client.create)(data, dry_run=True)
    except Refused:
        return True
    return False


@pytest.mark.parametrize(("text", "path"), NULLS, ids=["/".join(map(str, path)) for _, path in NULLS])
def test_the_linter_says_what_create_and_apply_do(client: Client, text: str, path: tuple[str | int, ...]) -> None:
    data = _with_null(text, path)
    created, applied = (not _is_refused(client, data, applied=way) for way in (False, True))

    said = {problem.rule_id for problem in check([Unit("nulls", False, (Object.of(data, 0),))])}
    in_a_job_folder = {problem.rule_id for problem in check([Unit("nulls", True, (Object.of(data, 0),))])}

    assert said == (set() if created and applied else {"SCH009"} if created else {"SCH001"})
    assert in_a_job_folder == (set() if applied else {"SCH001"})


FILLED = """
  failurePolicy:
    rules:
    - {action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}
"""


def test_a_field_that_a_webhook_fills_may_be_missing(client: Client) -> None:
    job_set = yaml.safe_load(JOB_SET + FILLED)
    job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0].pop("resources")
    client.apply(job_set, dry_run=True)
    del job_set["spec"]["failurePolicy"]["rules"][0]["action"]
    with pytest.raises(Refused, match="action"):
        client.apply(job_set, dry_run=True)
