"""Calls of the kernel that Python has no name for, and that raise OSError."""

import ctypes
import os

NEW_USER, NEW_NET = 0x10000000, 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(kind: int) -> None:
    """Put this thread into a new namespace of a kind."""
    _check(_LIBC.unshare(kind))


def enter(namespace: int, kind: int) -> None:
    """Put this thread into the namespace that a descriptor stands for."""
    _check(_LIBC.setns(namespace, kind))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
