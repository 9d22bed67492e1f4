"""base/node-tuning: the script on files as a node has them, and in a network of its own; the rights of its pod."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.observability.catalogue import HOME, read

BASE = HOME / "base/node-tuning"
POD = read(BASE / "daemon-set.yaml")["spec"]["template"]["spec"]

SMALL = 64 * 1024


class Node:
    """The files of a host that the pod mounts, with what a fresh node says in them."""

    def __init__(self, folder: Path) -> None:
        self.host = folder / "host"
        self.ready = folder / "ready"
        self.script = folder / "script"
        self.script.mkdir(parents=True)
        shutil.copy(BASE / "tune.sh", self.script)
        self.sysctls({})
        self.write("mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
        self.write("mm/transparent_hugepage/enabled", "always [madvise] never")
        for cpu in range(2):
            self.write(f"cpu/cpu{cpu}/cpufreq/scaling_governor", "powersave")
        (self.host / "containerd.service.d").mkdir()

    def sysctls(self, settings: dict[str, str]) -> None:
        lines = [f"{key} = {value}" for key, value in settings.items()]
        (self.script / "sysctl.conf").write_text("\n".join(["# a comment", "", *lines, ""]))

    def write(self, path: str, text: str) -> None:
        file = self.host / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def read(self, path: str) -> str:
        return (self.host / path).read_text().strip()

    def tune(self, *before: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs the script once, as the pod does: an unprivileged limit on pinned memory, no other variable."""
        return subprocess.run(
            [*before, "/bin/sh", str(self.script / "tune.sh"), "once"],
            env={"PATH": os.environ["PATH"], "HOST": str(self.host), "READY": str(self.ready), **settings},
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (SMALL, SMALL)),
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_node_is_set_as_asked_and_ready(node: Node) -> None:
    node.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456")
    node.write("proc/sys/vm/max_map_count", "65530")
    node.sysctls({"net.ipv4.tcp_rmem": "4096 131072 268435456", "vm.max_map_count": "1048576"})

    done = node.tune(HUGEPAGES_2MI="1024", TRANSPARENT_HUGEPAGES="madvise", CPU_GOVERNOR="performance")

    assert (done.returncode, done.stderr) == (0, "")
    assert node.ready.exists()
    assert node.read("proc/sys/net/ipv4/tcp_rmem") == "4096 131072 268435456"
    assert node.read("proc/sys/vm/max_map_count") == "1048576"
    assert node.read("mm/hugepages/hugepages-2048kB/nr_hugepages") == "1024"
    assert [node.read(f"cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in range(2)] == ["performance"] * 2


def test_what_holds_already_is_not_written(node: Node) -> None:
    node.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456")
    node.sysctls({"net.ipv4.tcp_rmem": "4096 131072 6291456"})
    file = node.host / "proc/sys/net/ipv4/tcp_rmem"
    before = file.stat().st_mtime_ns

    done = node.tune()

    assert done.returncode == 0
    assert file.stat().st_mtime_ns == before


def test_a_node_is_not_ready_and_says_why(node: Node) -> None:
    node.ready.touch()
    node.sysctls({"net.core.no_such_thing": "1"})
    node.write("mm/transparent_hugepage/enabled", "always madvise [never]")

    done = node.tune(TRANSPARENT_HUGEPAGES="madvise", NICS="nic-that-is-not")

    assert done.returncode == 1
    assert not node.ready.exists()
    assert done.stderr.splitlines() == [
        "node-tuning: this kernel has no net.core.no_such_thing",
        'node-tuning: transparent huge pages are "madvise", not madvise',
        "node-tuning: there is no interface nic-that-is-not",
    ]


def test_pinned_memory_holds_from_the_next_start_of_containerd(node: Node) -> None:
    done = node.tune(MEMLOCK="infinity")

    assert node.read("containerd.service.d/50-memlock.conf") == "[Service]\nLimitMEMLOCK=infinity"
    assert done.stderr.splitlines() == [
        "node-tuning: containers may pin 64 KiB until containerd starts again: drain the node and restart it"
    ]


def test_what_is_not_asked_for_is_left_alone(node: Node) -> None:
    before = {file: file.read_text() for file in node.host.rglob("*") if file.is_file()}

    done = node.tune()

    assert done.returncode == 0
    assert {file: file.read_text() for file in node.host.rglob("*") if file.is_file()} == before


@pytest.mark.root
def test_an_interface_gets_its_mtu_and_queue(node: Node) -> None:
    """A real interface, in a network namespace of its own with a /sys of its own."""
    show = "cat /sys/class/net/lo/mtu /sys/class/net/lo/tx_queue_len"
    make = "mount -t sysfs none /sys"

    done = node.tune(
        *("unshare", "--net", "--mount", "/bin/sh", "-c", f'{make} && "$@" && {show}', "-"),
        NICS="lo",
        NIC_MTU="9000",
        NIC_TXQUEUELEN="10000",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "9000\n10000\n", "")


def test_the_pod_has_no_more_rights_than_the_script_uses() -> None:
    (container,) = POD["containers"]
    writes = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}

    assert container["securityContext"]["privileged"] is False
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert not POD.get("hostPID")
    assert not POD.get("hostIPC")
    assert POD["automountServiceAccountToken"] is False
    assert writes == {
        "/run/node-tuning",
        "/host/proc/sys/net",
        "/host/proc/sys/vm",
        "/host/mm",
        "/host/cpu",
        "/host/containerd.service.d",
    }


def test_every_sysctl_is_in_a_folder_that_the_pod_may_write() -> None:
    lines = [line for line in (BASE / "sysctl.conf").read_text().splitlines() if line and not line.startswith("#")]

    assert lines
    assert all(line.split(".")[0] in ("net", "vm") for line in lines)
