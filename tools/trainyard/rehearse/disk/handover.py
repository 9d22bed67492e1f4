"""Starts a program whose writes wait until another process lets them go on: seccomp's user notification.

`python -I -m trainyard.rehearse.disk.handover SOCKET COMMAND...` puts a filter over itself, hands the filter's
descriptor over on a socket that it was given, and becomes the command. See seccomp_unotify(2).
"""

import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NO_NEW_PRIVILEGES, _SET_FILTER = 38, 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _NOTIFY, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000
_NO_SUCH_CALL = 38
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_LIBRARY = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Calls:
    """The system calls of a processor, by number."""

    architecture: int
    """AUDIT_ARCH_* of linux/audit.h."""
    seccomp: int
    io_uring_setup: int
    writing: Mapping[int, str]
    """Calls that bring bytes into a file."""


CALLS = {
    "x86_64": Calls(
        architecture=0xC000003E,
        seccomp=317,
        io_uring_setup=425,
        writing={
            1: "write",
            18: "pwrite64",
            20: "writev",
            296: "pwritev",
            328: "pwritev2",
            40: "sendfile",
            275: "splice",
            326: "copy_file_range",
        },
    ),
    "aarch64": Calls(
        architecture=0xC00000B7,
        seccomp=277,
        io_uring_setup=425,
        writing={
            64: "write",
            68: "pwrite64",
            66: "writev",
            70: "pwritev",
            287: "pwritev2",
            71: "sendfile",
            76: "splice",
            285: "copy_file_range",
        },
    ),
}


def calls() -> Calls:
    """Those of this machine. OSError where they are not known."""
    machine = platform.machine()
    if machine not in CALLS or sys.byteorder != "little":
        raise OSError(f"the system calls of {machine} are not known here, only those of {', '.join(CALLS)}")
    return CALLS[machine]


def filter_program(known: Calls) -> bytes:
    """The filter as struct sock_filter: writes ask, io_uring is not there, and all else goes on.

    io_uring would write past every filter; programs that miss it write as others do.
    """
    writing = sorted(known.writing)
    last = len(writing) + 4
    words = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUALS, 0, last - 2, known.architecture), (_LOAD, 0, 0, _NUMBER_AT)]
    for number in writing:
        words.append((_EQUALS, last - len(words), 0, number))
    words.append((_EQUALS, last - len(words) + 1, 0, known.io_uring_setup))
    words += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _REFUSE | _NO_SUCH_CALL)]
    return b"".join(struct.pack("=HBBI", *word) for word in words)


def listen() -> int:
    """Put the filter over this process and all that it starts; gives the filter's descriptor. OSError where refused."""
    known = calls()
    program = filter_program(known)
    code = ctypes.create_string_buffer(program, len(program))
    given = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _LIBRARY.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the second for kernels before 5.19
        listener = int(_LIBRARY.syscall(known.seccomp, _SET_FILTER, flags, given))
        if listener >= 0:
            return listener
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def main(words: Sequence[str]) -> None:
    """Hand the descriptor over and become the command; without one, only say whether it can be done."""
    number, *command = words
    try:
        listener = listen()
    except OSError as error:
        sys.exit(error.strerror or str(error))
    with socket.socket(fileno=int(number)) as other:
        socket.send_fds(other, [b"."], [listener])
    os.close(listener)
    if command:
        os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
