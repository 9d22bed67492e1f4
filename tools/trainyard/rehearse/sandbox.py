"""The command that runs a container: bubblewrap, with a root of this machine's programs and the pod's own files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainyard.errors import Fault
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.volumes import SHARED_MEMORY

HOME = Path(__file__).resolve().parents[3]
TRAINER = HOME / ".tools" / "trainer"
INSIDE = Path(__file__).resolve().parent / "inside"
PATH = "/opt/rehearsal/bin:/opt/trainer/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SITE = "/opt/rehearsal/site"
NOTES = "/opt/rehearsal/notes"
BIN = "/opt/rehearsal/bin"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OWN_ETC = ("resolv.conf", "hosts", "hostname", "passwd", "group", "mtab", "shadow", "gshadow", "nsswitch.conf")
_USERS = "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n"


@dataclass(frozen=True, slots=True)
class Programs:
    """What stands in for programs of images that are not here: path or name in the container to a file here."""

    given: Mapping[str, Path]

    def place(self, name: str, folder: str) -> str:
        """Where a stand-in lies in a container whose working folder is `folder`."""
        if name.startswith("/"):
            return name
        return f"{folder}/{name}" if "." in name or "/" in name else f"{BIN}/{name}"

    def of(self, container: ContainerPlan) -> dict[str, Path]:
        """Files by their place in a container."""
        return {self.place(name, container.folder): path for name, path in self.given.items()}


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How containers are walled off on this machine."""

    bubblewrap: str
    own_users: bool
    """Whether a container can have the user that its pod asks for."""

    def command(
        self,
        plan: PodPlan,
        container: ContainerPlan,
        *,
        volumes: Mapping[str, Path],
        state: Path,
        programs: Programs,
        resolv_conf: Path,
        hosts: Path,
        status: int,
    ) -> list[str]:
        """The command line that runs a container's command; its state is told on the descriptor `status`."""
        own = state / "pods" / plan.name / ".etc"
        _write_etc(own, plan.member.hostname, container.user, container.group)
        words = [self.bubblewrap, "--unshare-pid", "--unshare-uts", "--unshare-ipc", "--as-pid-1"]
        words += ["--die-with-parent", "--new-session", "--json-status-fd", str(status)]
        words += ["--hostname", plan.member.hostname[:63], "--clearenv"]
        if self.own_users:
            words += ["--unshare-user", "--uid", str(container.user), "--gid", str(container.group)]
        mounts: dict[str, tuple[str, Path | str]] = {}
        for path in _SYSTEM:
            mounts |= _system(path)
        for entry in sorted(os.listdir("/etc")):
            if entry not in _OWN_ETC:
                mounts |= _system(f"/etc/{entry}")
        for name in ("hostname", "passwd", "group", "nsswitch.conf"):
            mounts[f"/etc/{name}"] = ("--ro-bind", own / name)
        mounts["/etc/resolv.conf"] = ("--ro-bind", resolv_conf)
        mounts["/etc/hosts"] = ("--ro-bind", hosts)
        prefix = _python_prefix()
        if not prefix.is_relative_to("/usr"):
            mounts[str(prefix)] = ("--ro-bind", prefix)
        mounts["/opt/trainer"] = ("--ro-bind", TRAINER.resolve())
        mounts["/opt/trainyard/trainer"] = ("--ro-bind", HOME / "trainer")
        mounts[SITE] = ("--ro-bind", INSIDE)
        mounts[NOTES] = ("--bind", state / "notes")
        for place, file in programs.of(container).items():
            mounts[place] = ("--ro-bind", file)
        shared = {mount.path for mount in container.mounts}
        for mount in container.mounts:
            source = volumes[mount.volume]
            source = source / mount.sub_path if mount.sub_path else source
            if mount.sub_path and not source.exists():
                source.mkdir(parents=True)
            mounts[mount.path] = ("--ro-bind" if mount.read_only else "--bind", source)
        if SHARED_MEMORY not in shared and "" in volumes:
            mounts[SHARED_MEMORY] = ("--bind", volumes[""])
        words += _arguments(mounts)
        environment = {"PATH": PATH, **container.environment}
        environment["PYTHONPATH"] = ":".join(filter(None, [environment.get("PYTHONPATH", ""), SITE]))
        environment["TRAINYARD_REHEARSAL"] = NOTES
        if not any("tensorflow" in word for word in container.command):
            environment["TRAINYARD_REHEARSAL_ABSENT"] = "tensorflow"
        for name, value in environment.items():
            words += ["--setenv", name, value]
        return [*words, "--chdir", container.folder, "--", *container.command]


def sandbox() -> Sandbox:
    """The sandbox of this machine. Fault where there is none."""
    found = shutil.which("bwrap")
    if found is None:
        raise Fault("bubblewrap is not on PATH; install it (Debian and Ubuntu: apt-get install bubblewrap)")
    plain = [found, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-pid"]
    if not _runs(plain):
        raise Fault("bubblewrap does not run here: this kernel or container allows no new namespaces")
    return Sandbox(found, _runs([*plain, "--unshare-user", "--uid", "1000", "--gid", "1000"]))


def _runs(command: Sequence[str]) -> bool:
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


@cache
def _python_prefix() -> Path:
    """Where the Python lies that the trainer's environment was made from."""
    python = TRAINER / "bin" / "python"
    if not python.exists():
        raise Fault(f"{python} is missing: run python3 tools/bootstrap.py trainer")
    return python.resolve().parents[1] if python.is_symlink() else Path(sys.base_prefix)


def _system(path: str) -> dict[str, tuple[str, Path | str]]:
    if os.path.islink(path):
        return {path: ("--symlink", os.readlink(path))}
    return {path: ("--ro-bind", Path(path))} if os.path.exists(path) else {}


def _arguments(mounts: Mapping[str, tuple[str, Path | str]]) -> list[str]:
    """Mounts in an order in which each finds its place: those above first, the kernel's file systems before all."""
    words = [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--ro-bind",
        "/sys",
        "/sys",
        "--perms",
        "1777",
        "--tmpfs",
        "/tmp",
        "--dir",
        "/run/sshd",
    ]
    words += ["--dir", "/root", "--dir", "/home/trainer", "--dir", "/opt/trainyard", "--dir", BIN]
    for place in sorted(mounts, key=lambda place: place.count("/") * (place != "/")):
        kind, source = mounts[place]
        words += [kind, str(source), place]
    return words


def _write_etc(folder: Path, hostname: str, user: int, group: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    own = "" if user == 0 else f"trainer:x:{user}:{group}::/home/trainer:/bin/bash\n"
    groups = "root:x:0:\n" + ("" if group == 0 else f"trainer:x:{group}:\n") + "nogroup:x:65534:\n"
    for name, content in (
        ("hostname", f"{hostname}\n"),
        ("passwd", _USERS + own),
        ("group", groups),
        ("nsswitch.conf", _NAMES),
    ):
        (folder / name).write_text(content)
