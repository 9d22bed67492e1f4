"""Scripts that come with the image are known for that before a pod starts: nothing is said of the job then."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trainyard.errors import InputError
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rehearse.members import members
from trainyard.rehearse.podplan import PodNetwork, PodPlan, pod_plan
from trainyard.rehearse.programs import missing_program
from trainyard.rehearse.substitutes import Substitutes
from trainyard.workload.of_unit import workloads

LACKING = {
    "a script": (["bash", "/scripts/run.sh"], "/scripts/run.sh"),
    "a script beside": (["sh", "run.sh", "4"], "run.sh"),
    "options before it": (["bash", "-eux", "-o", "pipefail", "--", "/scripts/run.sh"], "/scripts/run.sh"),
    "through another program": (["env", "-u", "A", "bash", "/scripts/run.sh"], "/scripts/run.sh"),
    "-c": (["bash", "-c", "/scripts/run.sh"], "/scripts/run.sh"),
    "-c with arguments": (["bash", "-ec", "exec ./run.sh --lr 1"], "./run.sh"),
    "-c of a shell": (["bash", "-c", "bash /scripts/run.sh"], "/scripts/run.sh"),
    "-c of a shell beside": (["sh", "-c", "exec sh run.sh"], "run.sh"),
    "-c of -c": (["sh", "-c", "bash -c 'cd / && ./scripts/run.sh'"], "/scripts/run.sh"),
    "behind what makes nothing": (["bash", "-c", "set -x; export A=1; ulimit -n 99; ./run.sh"], "./run.sh"),
    "in another folder": (["bash", "-c", "cd / && exec ./scripts/run.sh"], "/scripts/run.sh"),
    "before the training": (["bash", "-c", "set -e\n/scripts/prepare.sh\necho trained"], "/scripts/prepare.sh"),
    "joined to the training": (["bash", "-c", "./prepare.sh && echo trained"], "./prepare.sh"),
    "sourced": (["bash", "-ec", "source /scripts/env.sh; echo trained"], "/scripts/env.sh"),
    "a Python's": (["python3", "/scripts/train.py"], "/scripts/train.py"),
}
HERE = {
    "a program of this machine": ["bash", "-c", "/bin/true"],
    "a branch": ["bash", "-c", "if [ -x /scripts/run.sh ]; then /scripts/run.sh; fi"],
    "another way": ["bash", "-c", "/scripts/run.sh || echo trained"],
    "not the end": ["bash", "-c", "/scripts/prepare.sh; echo trained"],
    "in the background": ["bash", "-c", "/scripts/watch.sh & echo trained"],
    "written before": ["bash", "-c", "echo 'echo trained' > run.sh; bash run.sh"],
    "copied before": ["bash", "-c", "cp /bin/true run.sh && ./run.sh"],
    "a function": ["bash", "-c", "run() { echo trained; }; run"],
    "a value that is not known": ["bash", "-c", "${RUN:-true}"],
    "words for -c": ["bash", "-c", "echo trained", "/scripts/run.sh"],
    "from standard input": ["bash", "-s", "/scripts/run.sh"],
    "a version": ["bash", "--version"],
}


def planned(command: list[str], **container: Any) -> list[PodPlan]:
    """The pods of a plain Job that runs a command."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a/b:1", "command": command, **container}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": pod}}}
    (workload,) = workloads(Unit("a", False, (Object.of(job, 0),)))
    known = PodNetwork("10.0.0.1", {}, {}, str)
    return [pod_plan(workload, each, known, Substitutes(6, 2), []) for each in members(workload).pods]


def ran(command: list[str], folder: Path) -> int:
    """The exit code here, where none of the scripts is."""
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode


@pytest.mark.claim("what-this-machine-lacks")
@pytest.mark.parametrize("case", LACKING)
def test_a_script_of_the_image_is_named(case: str, tmp_path: Path) -> None:
    command, missing = LACKING[case]
    assert ran(command, tmp_path) in (1, 2, 127)

    with pytest.raises(InputError) as refused:
        missing_program(planned(command), {})

    assert refused.value.message == f"container a of a-0 starts {missing}, which comes with a/b:1"
    assert refused.value.help == f"name what stands in for it: --program {missing}=PATH"
    missing_program(planned(command), {missing: tmp_path})


@pytest.mark.parametrize("case", HERE)
def test_what_may_run_all_the_same_is_rehearsed(case: str, tmp_path: Path) -> None:
    assert ran(HERE[case], tmp_path) == 0

    missing_program(planned(HERE[case]), {})


@pytest.mark.parametrize("case", LACKING)
def test_a_script_of_a_volume_is_the_jobs_own(case: str) -> None:
    mounts = [{"name": str(n), "mountPath": path} for n, path in enumerate(("/scripts", "/opt/trainyard"))]

    missing_program(planned(LACKING[case][0], volumeMounts=mounts), {})
