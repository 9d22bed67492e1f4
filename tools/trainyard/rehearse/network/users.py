"""The user namespace that sandboxes are made in, and whose users run what is in them: they own nothing here.

Its root is the user of this process, who may open what a sandbox is to show. Where that is root, users from 1 on are
numbers that nobody has on this machine, and a container gets a namespace below with nobody but them: see entry.py.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from trainyard.rehearse.network.kernel import NEW_USER, unshare

_FIRST = 0x70000000
"""The first of them, from a range that no distribution and no container runtime hands out."""
_COUNT = (1 << 16) + 64
"""Users 0 to 65535 of a container, and a few with larger numbers, such as OpenShift gives."""


@dataclass(frozen=True, slots=True)
class Users:
    """A user namespace."""

    file: int
    """The descriptor that stands for it."""
    count: int
    """Its users beside root; 0 where this process may run programs as nobody but itself."""


def own_users() -> Users:
    """Make this process root of a new user namespace with no other user. OSError where the kernel refuses."""
    user, group = os.getuid(), os.getgid()
    unshare(NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return Users(os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC), 0)


def further_users() -> Users:
    """A user namespace with users of its own, for root alone to make. OSError where the kernel refuses.

    A child enters it and waits until its users are written down; this process stays where it is.
    """
    made, written = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(written[1])
            unshare(NEW_USER)
            os.write(made[1], b".")
            os.read(written[0], 1)
            code = 0
        finally:
            os._exit(code)
    for end in (made[1], written[0]):
        os.close(end)
    try:
        if not os.read(made[0], 1):
            raise OSError(0, "this kernel makes no user namespace")
        first, count = _free(Path("/proc/self/uid_map").read_text())
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(f"0 0 1\n1 {first} {count}")
        return Users(os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC), count)
    finally:
        for end in (made[0], written[1]):
            os.close(end)
        os.waitpid(child, 0)


def _free(table: str) -> tuple[int, int]:
    """First number and count of users to hand out, by the uid_map of this process: in a container it has few."""
    ranges = [(int(first), int(count)) for first, _, count in (line.split() for line in table.splitlines())]
    if any(first <= _FIRST and first + count >= _FIRST + _COUNT for first, count in ranges):
        return _FIRST, _COUNT
    first, count = max(ranges, key=lambda each: each[1])
    return first + count // 2, min(count // 2, _COUNT)
