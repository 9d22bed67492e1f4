"""What entry.py is to do in a container's root before it becomes the container's command."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.rehearse.podplan import ContainerPlan, Mount, PodPlan
from trainyard.rehearse.volumes import SHARED_MEMORY, Volume
from trainyard.workload.plain import count, mapping, sequence

OWN = "/opt/rehearsal"
"""The rehearsal's own folder in every container."""
VOLUMES = f"{OWN}/volumes"
SITE = f"{OWN}/site"
NOTES = f"{OWN}/notes"
BIN = f"{OWN}/bin"
PATH = f"{BIN}:/opt/trainer/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LARGEST_ROOT = 4 << 30
"""Bytes that a container may write into each of / and /tmp, beside its volumes."""
_HOST_KEY = "ssh/ssh_host_key"
_PASSWD = "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n"
_SSH = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
_SSHD = f"HostKey /etc/{_HOST_KEY}\nStrictModes no\nUsePAM no\n"


@dataclass(frozen=True, slots=True)
class Programs:
    """What stands in for programs of images that are not here: path or name in the container to a file here."""

    given: Mapping[str, Path]

    def place(self, name: str, folder: str) -> str:
        """Where a stand-in lies in a container whose working folder is `folder`."""
        if name.startswith("/"):
            return name
        return f"{folder}/{name}" if "." in name or "/" in name else f"{BIN}/{name}"


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of one start of a container."""

    descriptor: int
    """A file in memory that holds them, to be inherited."""
    folders: Mapping[str, Path]
    """What the sandbox has to show below VOLUMES: number to folder or file here."""


def orders(
    plan: PodPlan,
    container: ContainerPlan,
    volumes: Mapping[str, Volume],
    programs: Programs,
    users: int,
    host_key: str,
) -> Orders:
    """The orders for a container.

    `users` is how many users its namespace has, and `host_key` what its sshd shows, empty where none runs. InputError
    where it mounts a volume that the pod has not.
    """
    mounts = list(container.mounts)
    if "" in volumes and SHARED_MEMORY not in {each.path for each in mounts}:
        mounts.append(Mount("", SHARED_MEMORY))
    used: dict[str, Volume] = {}
    for each in mounts:
        if each.volume not in volumes:
            at = plan.member.pod_set.template.object.title
            raise InputError(f"container {container.name} mounts volume {each.volume}, which its pod does not have", at)
        used[each.volume] = volumes[each.volume]
    numbers = {name: str(number) for number, name in enumerate(used)}
    placed = [
        {"volume": numbers[each.volume], "path": each.path, "sub_path": each.sub_path,
         "read_only": each.read_only or not isinstance(used[each.volume], Path)}
        for each in mounts
    ]  # fmt: skip
    folders = {numbers[name]: volume for name, volume in used.items() if isinstance(volume, Path)}
    shared = list(folders)
    for number, (name, file) in enumerate(programs.given.items(), start=len(numbers)):
        folders[str(number)] = file
        place = programs.place(name, container.folder)
        placed.append({"volume": str(number), "path": place, "sub_path": "", "read_only": True})
    security = mapping(plan.member.pod_set.spec.get("securityContext"))
    of_volumes = count(security.get("fsGroup"))
    further = [each for each in map(count, sequence(security.get("supplementalGroups"))) if each is not None]
    content = {
        "command": container.command,
        "environment": environment_of(container),
        "folder": container.folder,
        "home": container.environment.get("HOME") or "/root",
        "hostname": plan.member.hostname[:63],
        "etc": _etc(plan.member.hostname, container, host_key),
        "size": LARGEST_ROOT,
        "users": users,
        "user": container.user,
        "group": container.group,
        "groups": further if of_volumes is None else [*further, of_volumes],
        "volume_group": of_volumes or 0,
        "shared": shared,
        "folders": list(folders),
        "objects": {
            numbers[name]: {path: _file(file, grouped=of_volumes is not None) for path, file in volume.items()}
            for name, volume in used.items()
            if not isinstance(volume, Path)
        },
        "mounts": placed,
    }
    descriptor = os.memfd_create("orders")
    os.write(descriptor, json.dumps(content).encode())
    return Orders(descriptor, folders)


def _file(file: tuple[str, int], *, grouped: bool) -> dict[str, Any]:
    """A file's content and mode; as the kubelet has it, the group of fsGroup may read it."""
    content, mode = file
    return {"content": content, "mode": mode | 0o440 if grouped else mode}


def environment_of(container: ContainerPlan) -> dict[str, str]:
    """All variables that a container's command is started with."""
    found = {"PATH": PATH, **container.environment}
    found["PYTHONPATH"] = ":".join(filter(None, [found.get("PYTHONPATH", ""), SITE]))
    found["TRAINYARD_REHEARSAL"] = NOTES
    if not any("tensorflow" in word for word in container.command):
        found["TRAINYARD_REHEARSAL_ABSENT"] = "tensorflow"
    return found


def _etc(hostname: str, container: ContainerPlan, host_key: str) -> dict[str, dict[str, Any]]:
    """Files of /etc that an image or the kubelet would bring, by their place in it."""
    user, group = container.user, container.group
    passwd = _PASSWD + (f"trainer:x:{user}:{group}::/home/trainer:/bin/bash\n" if user else "")
    groups = "root:x:0:\n" + (f"trainer:x:{group}:\n" if group else "") + "nogroup:x:65534:\n"
    found = {"hostname": f"{hostname}\n", "passwd": passwd, "group": groups, "nsswitch.conf": _NAMES}
    found |= {"ssh/ssh_config": _SSH, "ssh/sshd_config": _SSHD}
    made = {name: {"content": content, "mode": 0o644} for name, content in found.items()}
    return made | ({_HOST_KEY: {"content": host_key, "mode": 0o600}} if host_key else {})
