"""What is asked for with --chaos happens, each event by itself, or the rehearsal says that it did not."""

import subprocess
from pathlib import Path

import pytest

from tests.rehearse.rehearsing import TOOL, rehearse, said
from trainyard.errors import UsageError
from trainyard.rehearse.chaos import event

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: saver, namespace: research}
spec:
  template:
    spec:
      restartPolicy: RESTART
      containers:
      - name: trainer
        image: registry.example.com/trainer:v1
        env: [{name: TRAINER_CHECKPOINT_DIR, value: /checkpoints}, {name: TRAINER_RUN, value: saver}]
        command:
        - python3
        - -u
        - -c
        - |
PROGRAM
        volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
      volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}]
"""
SAVES = """
import json, os, sys, time

os.makedirs("/checkpoints/saver", exist_ok=True)
os.chdir("/checkpoints/saver")
last = max([int(name[5:]) for name in os.listdir() if name.startswith("step-")], default=0)
print("checkpoint: resumed from step", last)
for step in range(last + 1, 60):
    print(json.dumps({"step": step, "loss": 1 / step}))
    time.sleep(0.03)
    while step == 30 and not os.path.exists("filled"):  # however late a busy machine fills the disk
        if os.path.exists("/checkpoints/.filler"):
            open("filled", "w").close()
        time.sleep(0.03)
    if step % 3 == 0:
        try:
            open("part", "wb").write(bytes(1 << 17))
        except OSError as error:
            open("filled", "w").close()
            sys.exit(f"step {step} is lost: {error}")
        os.rename("part", f"step-{step:09}")
"""


def manifest(folder: Path, program: str, restart: str = "Never") -> Path:
    """A job of one pod that runs a Python program."""
    indented = "\n".join(f"          {line}" for line in program.strip().splitlines())
    file = folder / "job.yaml"
    file.write_text(JOB.replace("RESTART", restart).replace("PROGRAM", indented))
    return file


@pytest.mark.parametrize("filled", ["fill-disk@20", "fill-disk@5"])
def test_a_disk_is_full_whatever_happened_before(tmp_path: Path, filled: str) -> None:
    manifest(tmp_path, SAVES)

    found = rehearse("job.yaml", "--chaos", "kill-rank@5", "--chaos", filled, cwd=tmp_path)

    assert found.code == 0, said(found)
    assert "is lost: [Errno 28] No space left on device" in found.log
    assert found.runs[0]["pods_replaced"] == 2
    assert max(map(int, found.runs[0]["losses"])) == 59


def test_lines_that_a_killed_pod_had_printed_are_no_sign_that_it_came_back(tmp_path: Path) -> None:
    hurried = SAVES.replace(
        "    time.sleep(0.03)\n    while step == 30", "    time.sleep(0.001)\n    while step == 1500"
    )
    hurried = hurried.replace("last + 1, 60", "last + 1, 1600").replace("step % 3 == 0", "step % 50 == 0")
    manifest(tmp_path, hurried)

    found = rehearse("job.yaml", "--chaos", "kill-rank@5", "--chaos", "fill-disk@5", cwd=tmp_path)

    assert found.code == 0, said(found)
    assert found.runs[0]["pods_replaced"] == 2


def test_a_disk_gets_its_room_back_when_a_container_is_started_again_in_place(tmp_path: Path) -> None:
    manifest(tmp_path, SAVES, restart="OnFailure")

    found = rehearse("job.yaml", "--chaos", "fill-disk@5", cwd=tmp_path)

    assert found.code == 0, said(found)
    assert found.log.count("No space left on device") == 1
    assert found.runs[0]["pods_replaced"] == 0
    assert max(map(int, found.runs[0]["losses"])) == 59


@pytest.mark.claim("what-does-not-happen")
@pytest.mark.parametrize(
    ("program", "asked", "message"),
    [
        (
            "print('no steps here')",
            "kill-rank@1",
            "kill-rank@1 did not happen: no line of the job's output is known as a step; see --step-pattern",
        ),
        (
            'print(\'{"step": 7, "loss": 1.0}\')',
            "preempt@1",
            "preempt@1 did not happen: until the last step, 7, there was no file on a claim to come back to",
        ),
        ("pass", "cut=saver-0,saver-1@1", "there is no pod saver-1; there are saver-0"),
    ],
)
def test_what_does_not_happen_is_no_pass(tmp_path: Path, program: str, asked: str, message: str) -> None:
    manifest(tmp_path, program)

    done = subprocess.run(
        [TOOL, "job.yaml", "--chaos", asked], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert not done.stdout


def test_a_pod_is_not_cut_off_from_itself() -> None:
    with pytest.raises(UsageError, match="a pod cannot be cut off from itself"):
        event("cut=saver-0,saver-0@1")
