"""The hosts of a launcher, and the variables that scripts make of files: what ConfigMaps hold reaches the Workload."""

import pytest

from tests.workload.manifests import workload
from trainyard.workload.hostfiles import ListedHost, listed_hosts

JOB = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: files, namespace: team}}
data:
  hosts: |
    # two nodes
    job-0.job slots=8
    job-1.job   max_slots=9 slots = 4

    job-2.job
  NCCL_DEBUG: |
    INFO
  LATER: second
  not.a.name: "1"
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: more, namespace: team}}
data: {{LATER: third}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: job, namespace: team}}
spec:
  template:
    spec:
      containers:
      - name: trainer
        image: trainer
        command: {command}
        env: [{{name: LATER, value: first}}]
        volumeMounts:
        - {{name: files, mountPath: /etc/files}}
        - {{name: more, mountPath: /etc/more/}}
        - {{name: one, mountPath: /job/hostfile, subPath: hosts}}
        - {{name: chosen, mountPath: /chosen}}
      volumes:
      - {{name: files, configMap: {{name: files}}}}
      - {{name: more, configMap: {{name: more}}}}
      - {{name: one, configMap: {{name: files}}}}
      - {{name: chosen, configMap: {{name: files, items: [{{key: hosts, path: renamed}}]}}}}
"""
IN_FILE = [("job-0.job", 8), ("job-1.job", 4), ("job-2.job", None)]


def hosts(command: str) -> list[tuple[str, int | None]]:
    found = workload(JOB.format(command=command))
    (pod_set,) = found.pod_sets
    listed: tuple[ListedHost, ...] = listed_hosts(found, pod_set, pod_set.containers[0])
    return [(each.host, each.slots) for each in listed]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("[mpirun, --hostfile, /etc/files/hosts, ./t]", IN_FILE),
        ("[mpirun, -H, 'a:2,b', ./t]", [("a", 2), ("b", None)]),
        ("[horovodrun, -np, '8', -H, 'a:4,b:4', python, t.py]", [("a", 4), ("b", 4)]),
        ("[horovodrun, -np, '8', --hostfile, /chosen/renamed, python, t.py]", IN_FILE),
        ("[deepspeed, t.py]", IN_FILE),
        ("[deepspeed, --hostfile=/chosen/hosts, t.py]", []),
        ("[mpirun, --hostfile, /elsewhere, ./t]", []),
        ("[torchrun, t.py]", []),
        ("[echo]", []),
    ],
)
def test_hosts_of_a_launcher(command: str, expected: list[tuple[str, int | None]]) -> None:
    assert hosts(command) == expected


LOOP = """
[sh, -c, 'for f in /etc/files/* /etc/more/*; do [ -f "$f" ] && export "${f##*/}=$(cat "$f")"; done; exec "$@"',
 sh, torchrun, train.py]
"""


def test_a_script_that_exports_files_gives_the_program_variables() -> None:
    (pod_set,) = workload(JOB.format(command=LOOP.strip())).pod_sets
    container = pod_set.containers[0]

    files = {name: each.value for name, each in container.env.items() if each.origin == "file"}

    assert files == {"NCCL_DEBUG": "INFO", "LATER": "third", "hosts": container.env["hosts"].value}
    assert container.env["LATER"].spot.object.name == "more"
    assert container.launch is not None
    assert container.launch.launcher == "torchrun"


def test_a_loop_that_exports_nothing_gives_none() -> None:
    command = '[sh, -c, "for f in /etc/files/*; do cat $f; echo ${f##*/}; done; exec torchrun t.py"]'

    (pod_set,) = workload(JOB.format(command=command)).pod_sets

    assert [name for name, each in pod_set.containers[0].env.items() if each.origin == "file"] == []
