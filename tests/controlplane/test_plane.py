"""A control plane lives as long as whoever asked for it: no process and no file is left, however that one ends."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.by_day import by_day
from tests.controlplane.harness import HOME
from trainyard.controlplane import Client, Refused, running
from trainyard.controlplane.client import User
from trainyard.controlplane.supervisor import PREFIX, sweep
from trainyard.errors import Fault
from trainyard.leftovers import STALE_SECONDS

pytestmark = pytest.mark.controlplane

REPETITIONS = 6
FULL_RUN_SECONDS = 6.0
ENDED_SECONDS = 10.0
JOB = "jobs/research/gpt2-124m"


def processes(folder: Path) -> list[str]:
    """Command lines of the processes whose temporary files go to `folder`, or that work in it."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            environment = (process / "environ").read_bytes()
            works_in = os.readlink(process / "cwd")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if command and (f"TMPDIR={folder}".encode() in environment or works_in.startswith(str(folder))):
            found.append(command)
    return found


def start(folder: Path, *jobs: str) -> subprocess.Popen[bytes]:
    """verify-jobs as a user starts it, its temporary files in a folder of its own."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [HOME / ".tools/lint/bin/python", "-I", "-m", "trainyard", "verify-jobs", *jobs],
        cwd=HOME,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def all_gone(folder: Path) -> bool:
    """Whether nothing is left soon."""
    deadline = time.monotonic() + ENDED_SECONDS
    while processes(folder) or any(folder.iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def kill_it(process: subprocess.Popen[bytes]) -> None:
    process.kill()


def kill_its_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def interrupt_it(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)


def stop_it(process: subprocess.Popen[bytes]) -> None:
    process.terminate()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", by_day([kill_it, interrupt_it, kill_its_group, stop_it], kill_it))
def test_ended_at_any_moment_it_leaves_nothing(tmp_path: Path, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
    chance = random.Random(how.__name__)
    for repetition in range(REPETITIONS):
        folder = tmp_path / f"tmp{repetition}"
        process = start(folder)
        time.sleep(FULL_RUN_SECONDS * chance.random())

        how(process)
        process.communicate(timeout=ENDED_SECONDS)

        assert all_gone(folder), (repetition, processes(folder), list(folder.iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("victim", ["supervisor", "etcd", "kube-apiserver"])
def test_a_part_that_is_killed_takes_the_rest_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running() as plane:
        assert len(processes(tmp_path)) == len(plane.pids)
        os.kill(plane.pids[victim], signal.SIGKILL)
        time.sleep(1)
        left = processes(tmp_path)

    assert [command for command in left if "supervisor" not in command] == []
    assert not plane.folder.exists()
    assert all_gone(tmp_path)


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    first, second = start(tmp_path / "first", JOB), start(tmp_path / "second", JOB)

    said = [process.communicate(timeout=120) for process in (first, second)]

    assert [first.returncode, second.returncode] == [0, 0], said
    assert all_gone(tmp_path / "first")
    assert all_gone(tmp_path / "second")


def test_it_takes_little_memory() -> None:
    with running() as plane:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in plane.pids.values())

    assert pages * os.sysconf("SC_PAGESIZE") < 1 << 30


def test_what_a_killed_machine_left_is_swept(tmp_path: Path) -> None:
    left, fresh, other = (tmp_path / name for name in (f"{PREFIX}left", f"{PREFIX}fresh", "someone-else"))
    for folder in (left, fresh, other):
        folder.mkdir()
        (folder / "tokens.csv").write_text("")
    long_ago = time.time() - 2 * STALE_SECONDS
    os.utime(left, (long_ago, long_ago))

    assert sweep(tmp_path) == [left]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["someone-else", fresh.name]


def test_a_plane_in_use_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running() as plane:
        long_ago = time.time() - 2 * STALE_SECONDS
        os.utime(plane.folder, (long_ago, long_ago))

        assert sweep(tmp_path) == []
        assert plane.client().list("v1", "Namespace")


def test_a_deep_folder_with_spaces_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("a folder " * 20)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))

    with running() as plane:
        assert plane.folder.parent == deep
        assert plane.client().list("v1", "Namespace")

    assert list(deep.iterdir()) == []


def test_what_was_not_built_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard.controlplane.programs.PROGRAMS", tmp_path)
    with pytest.raises(Fault, match="run tools/verify-jobs, which builds it"), running():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_only_the_api_server_listens_and_only_on_this_machine() -> None:
    with running("kube-controller-manager", "kube-scheduler", "kwok") as plane:
        time.sleep(2)
        inodes = {
            name: {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()} for name, pid in plane.pids.items()
        }
        listening = [
            (name, columns[1])
            for table in ("tcp", "tcp6")
            for columns in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:])
            if columns[3] == "0A"
            for name, open_files in inodes.items()
            if f"socket:[{columns[9]}]" in open_files
        ]

    port = int(plane.server.rpartition(":")[2])
    assert listening == [("kube-apiserver", f"0100007F:{port:04X}")]


def test_nobody_else_may_read_its_keys() -> None:
    with running() as plane:
        assert plane.folder.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_everybody_is_asked_for_over_one_connection() -> None:
    with running() as plane, closing(plane.client()) as admin:
        admin.list("v1", "Namespace")
        files = len(os.listdir("/proc/self/fd"))
        everybody = [admin.acting_as(User.service_account("research", f"account-{number}")) for number in range(5)]

        for number, client in enumerate(everybody):
            with pytest.raises(Refused, match=f'"system:serviceaccount:research:account-{number}" cannot list'):
                client.list("v1", "Namespace")

        assert len(os.listdir("/proc/self/fd")) == files
        assert admin.list("v1", "Namespace")


def test_a_policy_is_asked_once_its_parameters_are_read() -> None:
    """A server whose disk is slow refuses everything that the policy is about until it has read them."""
    limits = {"apiVersion": "example.com/v1", "kind": "Limit"}
    admission = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "limit"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {
        "paramKind": limits,
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name == params.metadata.name"}],
    }
    reference = {"name": "settings", "namespace": "default", "parameterNotFoundAction": "Deny"}
    binding = {"policyName": "limit", "validationActions": ["Deny"], "paramRef": reference}
    names = {"kind": "Limit", "plural": "limits", "singular": "limit"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    settings: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "others", "namespace": "default"},
    }
    with running() as plane, closing(plane.client()) as admin:
        admin.create(definition)
        admin.until("Limit", lambda: admin.serves("example.com/v1", "Limit"))
        admin.create({**limits, "metadata": {"name": "settings", "namespace": "default"}})
        admin.create({**admission, "kind": "ValidatingAdmissionPolicy", "spec": policy})
        admin.create({**admission, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})
        os.kill(plane.pids["etcd"], signal.SIGSTOP)
        time.sleep(2)  # the server looks for policies every second
        threading.Timer(3, os.kill, (plane.pids["etcd"], signal.SIGCONT)).start()

        said = admin.until("refusal", lambda: refusal(admin, settings))

    assert "failed expression: object.metadata.name == params.metadata.name" in said


def refusal(client: Client, item: dict[str, Any]) -> str:
    """Why the server does not take an object; empty where it does, as before a policy is in force."""
    try:
        client.create(item, dry_run=True)
    except Refused as refused:
        return str(refused)
    return ""
