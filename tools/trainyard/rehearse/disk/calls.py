"""A system call that waits for an answer: which file it writes to, and how many bytes."""

import os
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass

from trainyard.rehearse.disk.handover import calls

REQUEST = struct.Struct("=QIIiIQ6Q")
"""struct seccomp_notif of linux/seccomp.h."""
_DELETED = " (deleted)"
_MOST_VECTORS = 1024


@dataclass(frozen=True, slots=True)
class SystemCall:
    """One call of one thread."""

    notice: int
    thread: int
    name: str
    arguments: tuple[int, ...]

    @classmethod
    def of(cls, raw: bytes) -> "SystemCall":
        """As the kernel tells it."""
        notice, thread, _, number, _, _, *arguments = REQUEST.unpack(raw)
        return cls(notice, thread, calls().writing[number], tuple(arguments))

    def path(self) -> str:
        """The file that is written, as its container sees it; empty where it has no name or the thread is gone."""
        descriptor = self.arguments[2 if self.name in ("splice", "copy_file_range") else 0] & 0xFFFFFFFF
        with suppress(OSError):
            found = os.readlink(f"/proc/{self.thread}/fd/{descriptor}").removesuffix(_DELETED)
            return found if found.startswith("/") else ""
        return ""

    def size(self) -> int:
        """Bytes that it writes, if all of them get through."""
        with suppress(OSError, struct.error, ValueError):
            match self.name:
                case "write" | "pwrite64":
                    return self.arguments[2]
                case "sendfile":
                    return min(self.arguments[3], self._left(self.arguments[1], self.arguments[2]))
                case "splice" | "copy_file_range":
                    return min(self.arguments[4], self._left(self.arguments[0], self.arguments[1]))
                case _:
                    vectors = self._memory(self.arguments[1], 16 * min(self.arguments[2], _MOST_VECTORS))
                    return sum(length for _, length in struct.iter_unpack("=QQ", vectors))
        return 0

    def _left(self, source: int, offset_at: int) -> int:
        """Bytes of a source that are not read yet, as many as are asked for where it has no size."""
        about = os.stat(f"/proc/{self.thread}/fd/{source & 0xFFFFFFFF}")
        if not stat.S_ISREG(about.st_mode):
            return self.arguments[4]
        if offset_at:
            (position,) = struct.unpack("=q", self._memory(offset_at, 8))
        else:
            with open(f"/proc/{self.thread}/fdinfo/{source & 0xFFFFFFFF}") as file:
                position = int(file.readline().split()[1])
        return max(0, about.st_size - int(position))

    def _memory(self, address: int, size: int) -> bytes:
        descriptor = os.open(f"/proc/{self.thread}/mem", os.O_RDONLY)
        try:
            return os.pread(descriptor, size, address)
        finally:
            os.close(descriptor)
