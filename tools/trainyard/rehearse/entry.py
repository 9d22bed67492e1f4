"""The last step before a container's command, in the container's own root: its volumes, its user, its environment.

bubblewrap starts it in a root that holds nothing of this machine but programs, as root of the namespace of users that
owns the mounts. Every path that a manifest names is looked up here, where no name leads to another file of this
machine: no `..`, and no symbolic link that a container left in a volume. Then it enters a namespace of users below,
which owns no mount, so that none can be changed, becomes the container's user and the container's command.

It reads its orders, those of Sandbox.command, as JSON from the descriptor that is its only argument, and needs nothing
but the standard library.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

_NEW_USER = 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _MOVE, _RECURSIVE = 0x1, 0x20, 0x1000, 0x2000, 0x4000
_LOCKED_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
_DETACH = 2
_DIE_WITH_PARENT = 1
_OPENAT2 = 437
_BENEATH, _NO_MAGIC_LINKS = 0x08, 0x02
_OWN = "/opt/rehearsal"
_LARGEST_PLAIN = 1 << 16
"""Users below this number are mapped as one range; larger ones one by one."""
_LIBRARY = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """What the kubelet or the container runtime does not do."""


def main(descriptor: int) -> NoReturn:
    """Obey, and become the container's command."""
    os.set_inheritable(descriptor, False)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor) as file:
        orders: dict[str, Any] = json.load(file)
    command, folder = orders["command"], orders["folder"]
    os.umask(0)
    try:
        users = Users(orders["users"], orders["user"], orders["group"], orders["groups"])
        _make_system(orders, users)
        _mount(orders, users)
        if not folder.startswith("/"):
            raise Refused(f"workingDir {folder} is not an absolute path")
        make_folders(folder, users)
        with suppress(OSError):  # one of a volume that is read-only stays whose it is
            users.give(folder)
        users.become()
        os.chdir(folder)
    except (Refused, ValueError) as error:  # a text with a null character is a ValueError
        _leave(str(error), 128)
    except OSError as error:
        _leave(f"{error.filename or folder}: {error.strerror}", 128)
    os.umask(0o022)
    try:
        os.execvpe(command[0], command, orders["environment"])
    except OSError as error:
        _leave(f"{command[0]}: {error.strerror}", 127 if error.errno == errno.ENOENT else 126)
    except ValueError as error:
        _leave(f"{command[0]}: {error}", 128)


def _leave(why: str, code: int) -> NoReturn:
    print(f"error: {why}", file=sys.stderr, flush=True)
    os._exit(code)


class Users:
    """A container's users and groups, and their numbers outside of it."""

    def __init__(self, count: int, user: int, group: int, groups: Sequence[int]) -> None:
        """`count` users may be handed out; 0 where all that runs is one user, whatever its number inside."""
        self.count, self.user, self.group, self.groups = count, user, group, list(groups)
        self._plain = min(_LARGEST_PLAIN, count - len(groups) - 2)
        if count and self._plain <= 0:
            raise Refused(f"a container of {len(groups)} groups cannot be rehearsed")
        large = sorted({each for each in (user, group, *groups) if each >= self._plain})
        self._large = {each: self._plain + 1 + index for index, each in enumerate(large)}

    def outside(self, number: int) -> int:
        """A user's or group's number in the namespace that this program is started in."""
        return self._large.get(number, number + 1) if self.count else 0

    def give(self, path: str, user: int | None = None, group: int | None = None) -> None:
        """Give a file to a user and group, the container's own unless others are named."""
        user, group = self.user if user is None else user, self.group if group is None else group
        os.chown(path, self.outside(user), self.outside(group), follow_symlinks=False)

    def become(self) -> None:
        """Enter a namespace that has these users and no others, and become the container's own."""
        single = f"{self.user} 0 1\n", f"{self.group} 0 1\n"
        ranges = f"0 1 {self._plain}\n" + "".join(f"{inside} {here} 1\n" for inside, here in self._large.items())
        reading, writing = os.pipe()
        writer = os.fork()
        if writer == 0:
            _write_tables((ranges, ranges) if self.count else single, reading)
        _checked(_LIBRARY.unshare(_NEW_USER), "user namespace")
        os.write(writing, b".")
        os.close(reading)
        os.close(writing)
        if os.waitpid(writer, 0)[1]:
            raise Refused(f"user {self.user} with groups {self.group}, {self.groups} cannot be rehearsed")
        if self.count:
            os.setgroups(self.groups)
            os.setresgid(self.group, self.group, self.group)
            os.setresuid(self.user, self.user, self.user)
        _LIBRARY.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)  # forgotten when the user changed


def _write_tables(tables: tuple[str, str], started: int) -> NoReturn:
    """Write the parent's users and groups once it is in its namespace; only who is outside of it may."""
    code = 1
    try:
        os.read(started, 1)
        for name, table in zip(("uid_map", "gid_map"), tables, strict=True):
            with open(f"/proc/{os.getppid()}/{name}", "w") as file:
                file.write(table)
        code = 0
    finally:
        os._exit(code)


def _make_system(orders: Mapping[str, Any], users: Users) -> None:
    """The host name, /etc, and folders that an image would have; none is larger than the orders allow."""
    socket.sethostname(orders["hostname"])
    _write("/etc", orders["etc"], 0, users)
    flags = _REMOUNT | os.ST_NOSUID | os.ST_NODEV
    for path in ("/", "/tmp"):
        _checked(_LIBRARY.mount(b"tmpfs", path.encode(), None, flags, f"size={orders['size']}".encode()), path)
    for path in ("/etc", "/root", "/run", "/run/sshd"):
        users.give(path, 0, 0)
    for path in ("/", "/opt", "/opt/trainyard", "/home", orders["home"]):
        make_folders(path, users)
        users.give(path)


def _mount(orders: Mapping[str, Any], users: Users) -> None:
    """Mount all volumes: first each one aside, while no name of a manifest counts, then in its place."""
    for index in orders["shared"]:
        users.give(f"{_OWN}/volumes/{index}", 0, orders["volume_group"])
    for index, files in orders["objects"].items():
        os.mkdir(f"{_OWN}/volumes/{index}", 0o755)
        _write(f"{_OWN}/volumes/{index}", files, orders["volume_group"], users)
    ready = f"{_OWN}/ready"
    os.mkdir(ready, 0o700)
    for index, each in enumerate(orders["mounts"]):
        _mount_aside(each, f"{ready}/{index}", users)
    for index in orders["folders"]:
        _checked(_LIBRARY.umount2(f"{_OWN}/volumes/{index}".encode(), _DETACH), "a volume")
    os.chmod(f"{_OWN}/volumes", 0)
    paths = [os.path.normpath(f"/{each['path'].lstrip('/')}") for each in orders["mounts"]]
    for index in sorted(range(len(paths)), key=lambda index: paths[index].count("/")):
        _move(f"{ready}/{index}", paths[index], users)
    os.chmod(ready, 0)


def _mount_aside(mount: Mapping[str, Any], place: str, users: Users) -> None:
    volume = os.open(f"{_OWN}/volumes/{mount['volume']}", os.O_PATH | os.O_CLOEXEC)
    source = volume if not mount["sub_path"] else below(volume, mount["sub_path"], users)
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    flags = _BIND | _RECURSIVE
    _checked(_LIBRARY.mount(f"/proc/self/fd/{source}".encode(), place.encode(), None, flags, None), mount["path"])
    if mount["read_only"]:
        flags = _BIND | _REMOUNT | _READ_ONLY | (os.statvfs(place).f_flag & _LOCKED_FLAGS)
        _checked(_LIBRARY.mount(None, place.encode(), None, flags, None), mount["path"])


def _move(ready: str, path: str, users: Users) -> None:
    if path == "/":
        raise Refused("mountPath /: no container runtime mounts a volume there")
    if os.path.isdir(ready):
        make_folders(path, users)
    elif not os.path.exists(path):
        make_folders(os.path.dirname(path), users)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    _checked(_LIBRARY.mount(ready.encode(), path.encode(), None, _MOVE, None), f"mountPath {path}")


def _write(folder: str, files: Mapping[str, Any], group: int, users: Users) -> None:
    """New files in a folder in which no container was yet, of root and a group."""
    volume = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    for path, file in files.items():
        *above, name = _parts(path)
        parent = below(volume, "/".join(above), users) if above else volume
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=parent), "w", encoding="utf-8", errors="surrogateescape") as made:
            made.write(file["content"])
            os.fchown(made.fileno(), users.outside(0), users.outside(group))
            # Where all users are one, the file is the container's own, and ssh wants such a key to itself.
            os.fchmod(made.fileno(), file["mode"] & (0o777 if users.count or users.user == 0 else 0o700))


def below(volume: int, path: str, users: Users) -> int:
    """A file or folder of a volume, made as a folder where there is none. Refused where the path leads out of it.

    As the kubelet has it: a link that stays in the volume is followed. `volume` is a descriptor, and so is the result.
    """
    parts = _parts(path)
    parent = volume
    for index in range(len(parts)):
        upto = "/".join(parts[: index + 1])
        try:
            found = _open_beneath(volume, upto)
        except FileNotFoundError:
            try:
                os.mkdir(parts[index], 0o777, dir_fd=parent)
                found = _open_beneath(volume, upto)
                os.chown(f"/proc/self/fd/{found}", users.outside(users.user), users.outside(users.group))
            except OSError as error:
                raise Refused(f"subPath {path}: {upto} cannot be made: {error.strerror}") from None
        except OSError as error:
            raise Refused(f"subPath {path} leads out of its volume: {error.strerror}") from None
        parent = found
    return parent


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts:
        raise Refused(f"{path!r} is not a path in a volume")
    return parts


def _open_beneath(volume: int, path: str) -> int:
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    found = int(_LIBRARY.syscall(_OPENAT2, volume, path.encode(errors="surrogateescape"), how, len(how)))
    if found >= 0:
        return found
    if ctypes.get_errno() != errno.ENOSYS:
        raise _error(path)
    opened = volume  # before Linux 5.6: no link at all is followed
    for part in path.split("/"):
        opened = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        if stat.S_ISLNK(os.fstat(opened).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return opened


def make_folders(path: str, users: Users) -> None:
    """Make a folder and those above it, for the container's user."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, 0o755)
            users.give(each)


def _checked(result: int, what: str) -> None:
    if result < 0:
        raise _error(what)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(int(sys.argv[1]))
