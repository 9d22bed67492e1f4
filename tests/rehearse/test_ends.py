"""However a rehearsal ends, nothing of it is left; and what cannot be rehearsed is told in one line."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rehearse.rehearsing import TOOL
from trainyard.errors import UsageError
from trainyard.rehearse.pod_logs import Voices
from trainyard.rehearse.sandbox import forbidden
from trainyard.rehearse.state import PREFIX, sweep

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]

NUMBER = f"4321.{os.getpid()}"
SLEEPS = """\
apiVersion: batch/v1
kind: Job
metadata: {name: sleeper, namespace: research}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: sleeper
        image: registry.example.com/sleeper@sha256:0000000000000000000000000000000000000000000000000000000000000000
        command: [sh, -c, "trap '' TERM; echo asleep; sleep NUMBER & wait; wait"]
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
""".replace("NUMBER", NUMBER)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def sleepers(folder: Path) -> list[int]:
    """Processes of the rehearsal that keeps its things in a folder, its sleeping pod among them."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            told = Path(f"/proc/{entry}/environ").read_text(errors="replace").split("\0")
            words = Path(f"/proc/{entry}/cmdline").read_text(errors="replace")
        except OSError:
            continue
        if f"TMPDIR={folder}" in told or str(folder) in words or NUMBER in words:
            found.append(int(entry))
    return found


@pytest.mark.claim("nothing-is-left")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_is_left_of_a_rehearsal_that_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "job.yaml").write_text(SLEEPS)
    process = subprocess.Popen(
        [TOOL, "job.yaml"], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while "asleep" not in said[-1]:
        said.append(process.stderr.readline())
        assert said[-1], said

    process.send_signal(number)
    process.wait(60)

    assert process.returncode == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    until(lambda: not sleepers(tmp_path), "processes are left")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    for folder in tmp_path.glob(f"{PREFIX}*"):
        assert number == signal.SIGKILL
        os.utime(folder, (0, 0))
    sweep(tmp_path)
    assert not list(tmp_path.glob(f"{PREFIX}*"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "sh, -c",
            "llamafactory-cli, -c",
            "starts llamafactory-cli, which comes with registry.example.com/sleeper@sha256",
        ),
        ('[sh, -c, "trap', '[python, finetune.py, "trap', "starts finetune.py, which comes with"),
        ('[sh, -c, "trap', '[sh, /scripts/run.sh, "trap', "starts /scripts/run.sh, which comes with"),
        ("kind: Job", "kind: CronJob", "holds no training jobs of a known kind; a rehearsal takes one"),
    ],
)
def test_what_cannot_be_rehearsed_is_told_in_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "job.yaml").write_text(SLEEPS.replace(before, after))

    done = subprocess.run([TOOL, "job.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)

    first, *more = done.stderr.splitlines()
    assert done.returncode == 2
    assert message in first
    assert len(more) <= 1
    assert "Traceback" not in done.stderr


def test_a_machine_without_user_namespaces_is_told_which_setting_forbids_them(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SLEEPS)
    forbids = f'echo 0 >/proc/sys/user/max_user_namespaces; exec "{TOOL}" job.yaml'

    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbids],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert done.stderr.startswith("rehearse-job: fault: no user namespace can be made here (")
    assert done.stderr.endswith("user.max_user_namespaces is 0; allow them: sysctl -w user.max_user_namespaces=10000\n")


def test_ubuntus_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns").write_text("1\n")

    assert forbidden(tmp_path) == (
        ": kernel.apparmor_restrict_unprivileged_userns is 1; run it as root, or allow them: "
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )


def test_a_program_of_the_image_is_named_by_what_stands_in_for_it(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SLEEPS.replace("sh, -c", "llamafactory-cli, -c"))
    stands_in = tmp_path / "cli"
    stands_in.write_text("#!/bin/sh\necho stands in\n")
    stands_in.chmod(0o755)

    done = subprocess.run(
        [TOOL, "job.yaml", "--program", "llamafactory-cli=cli"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "sleeper-0 | stands in" in done.stderr


def test_a_log_that_nobody_reads_stops_no_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        SLEEPS.replace(f"trap '' TERM; echo asleep; sleep {NUMBER} & wait; wait", "echo 1; echo 2")
    )
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [TOOL, "job.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, text=True, check=False
    )

    os.close(writer)
    last = "1 job passes; not seen: ranks, steps, save, resume"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last)


def test_a_folder_of_logs_that_cannot_be_made_is_told_first(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match=r"--logs .*/file/logs: cannot be made: not a directory"):
        Voices(sys.stderr, color=False, folder=tmp_path / "file" / "logs")


def test_a_job_that_hangs_has_no_exit_codes_yet(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SLEEPS)

    done = subprocess.run(
        [TOOL, "job.yaml", "--patience", "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "1 pod still at work" in next(line for line in done.stdout.splitlines() if " ended  hung" in line)
