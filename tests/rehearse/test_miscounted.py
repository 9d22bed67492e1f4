"""A number of nodes or ranks that the pods do not come to is named where it is written."""

import pytest

from tests.workload.manifests import unit
from trainyard.rehearse.miscounted import miscounted
from trainyard.workload.of_unit import workloads

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: gpt, namespace: research}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      containers:
      - name: trainer
        image: trainer
        command: [COMMAND]
        env: [{name: WORLD_SIZE, value: "WORLD"}, {name: RANK, value: "0"}]
        resources: {limits: {nvidia.com/gpu: GPUS}}
"""


@pytest.mark.parametrize(
    ("command", "world", "gpus", "expected"),
    [
        ("torchrun, --nnodes=3, train.py", "2", 1, "torchrun waits for nnodes 3, but 2 pods run it"),
        (
            "torchrun, --nnodes=1, train.py",
            "2",
            1,
            "torchrun takes nnodes 1, but 2 pods run it, and the others are left over",
        ),
        ("torchrun, --nnodes=1:2, train.py", "2", 1, None),
        ("torchrun, --nnodes=2, train.py", "2", 1, None),
        ("python, train.py", "3", 1, "WORLD_SIZE is 3, but 2 pods run it, 2 ranks in all"),
        ("python, train.py", "1", 1, "WORLD_SIZE is 1, but 2 pods run it, and the others are left over"),
        ("python, train.py", "2", 1, None),
        ("python, train.py", "16", 8, None),
        ("python, train.py", "17", 8, "WORLD_SIZE is 17, but 2 pods run it, 16 ranks in all"),
    ],
)
def test_what_the_pods_do_not_come_to(command: str, world: str, gpus: int, expected: str | None) -> None:
    manifests = JOB.replace("COMMAND", command).replace('"WORLD"', f'"{world}"').replace("GPUS", str(gpus))
    (job,) = workloads(unit(manifests))

    found = miscounted(job)

    assert (found and found[0]) == expected
