from pathlib import Path

import pytest

from tests.rules.judging import judge_good_job_with
from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("resources"), ids=lambda file: file.stem)
def test_what_is_said_about_resources(file: Path) -> None:
    check_told(file, "GPU", "MEM", "RES")


SIDECAR = """
kind: Job
spec:
  template:
    spec:
      initContainers:
      - {{name: fetch, resources: {{requests: {{cpu: {init}}}}}}}
      - {{name: watch, restartPolicy: Always, resources: {{limits: {{cpu: 2}}, requests: {{cpu: {sidecar}}}}}}}
      containers: [{{name: trainer, resources: {{requests: {{cpu: 88}}, limits: {{cpu: 88}}}}}}]
---
kind: Cluster
spec: {{node: {{cpu: 88}}}}
"""


@pytest.mark.parametrize(
    ("init", "sidecar", "found"),
    [
        (88, 0, []),
        (0, 0, []),
        (0, 1, ["cpu 89, but a node of cluster gpu-east has 88 @ Job/llama-sft {pod}.initContainers[1]"]),
        (90, 0, ["cpu 90, but a node of cluster gpu-east has 88 @ Job/llama-sft {pod}.initContainers[0]"]),
    ],
)
def test_the_containers_of_a_pod_are_counted_as_the_scheduler_counts(init: int, sidecar: int, found: list[str]) -> None:
    told = judge_good_job_with("RES007", SIDECAR.format(init=init, sidecar=sidecar))

    pod = "spec.template.spec"
    assert told == [f"error: each pod asks for {each.format(pod=pod)}.resources.requests.cpu" for each in found]
