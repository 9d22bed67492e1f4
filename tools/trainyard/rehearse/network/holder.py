"""The process that holds a rehearsal's namespaces and answers its DNS, so that all ends when it does.

The namespaces, of networks and of users, have no names anywhere: they are open files of this process. It ends when its
standard input does, that is when the rehearsal ends, however that happens, and then kills what still runs in them and
removes the folder that the pods' files are in. It speaks JSON, a line each way. Started as a program: FOLDER, COUNT and
`user` or `root`.
"""

import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from trainyard.rehearse.network.answers import Answers
from trainyard.rehearse.network.kernel import NEW_NET, enter, unshare
from trainyard.rehearse.network.users import further_users, own_users

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_LATE = 1.0
"""Seconds in which a process that the rehearsal had started when it was killed has entered its namespace."""


def main(arguments: list[str]) -> int:
    """Hold COUNT namespaces until standard input ends."""
    folder, count, right = Path(arguments[0]), int(arguments[1]), arguments[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        users = own_users() if right == "user" else further_users()
        held = [_new_namespace() for _ in range(count)]
    except OSError as error:
        print(json.dumps({"error": error.strerror}), flush=True)
        return 1
    print(json.dumps({"namespaces": held, "users": [users.file, users.count]}), flush=True)
    orderly = False
    try:
        orderly = _serve(held)
    finally:
        _kill_all_in(held, seconds=0 if orderly else _LATE)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _serve(held: list[int]) -> bool:
    """Obey until the rehearsal says that it is over, or until it is gone: whether it said so."""
    selector = selectors.DefaultSelector()
    answers = Answers()
    selector.register(0, selectors.EVENT_READ)
    pending = b""
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                answers.handle(key.fileobj, key.data, selector)
                continue
            received = os.read(0, 1 << 16)
            if not received:
                return False
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                if line == b"end":
                    return True
                try:
                    told = {"done": _obey(json.loads(line), held, answers, selector)}
                except OSError as error:
                    told = {"error": str(error)}
                print(json.dumps(told), flush=True)


def _obey(order: dict[str, Any], held: list[int], answers: Answers, selector: selectors.BaseSelector) -> Any:
    match order["order"]:
        case "listen":
            enter(held[order["namespace"]], NEW_NET)
            answers.listen(order["cluster"], order["node"], selector)
        case "loopback":
            enter(held[order["namespace"]], NEW_NET)
            _raise_loopback()
        case "zone":
            answers.zone = order["zone"]
        case "asked":
            return answers.asked()
        case "read":
            enter(held[order["namespace"]], NEW_NET)
            return [Path(f"/proc/thread-self/net/{name}").read_text() for name in order["files"]]
        case "write":
            enter(held[order["namespace"]], NEW_NET)
            Path(order["file"]).write_text(order["text"])
    return None


def _new_namespace() -> int:
    unshare(NEW_NET)
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _raise_loopback() -> None:
    request = struct.Struct("16sH14x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = request.unpack(fcntl.ioctl(any_socket, _GET_FLAGS, request.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, request.pack(name, flags | _UP))


def _kill_all_in(held: list[int], *, seconds: float) -> None:
    """Kill what runs in the namespaces, and for some seconds what is only about to enter one.

    They are held open until then: the number of one that is gone may be that of another rehearsal's next one.
    """
    ours = {os.fstat(each).st_ino for each in held}
    until = time.monotonic() + seconds
    while _kill_once(ours) or time.monotonic() < until:
        time.sleep(0.02)
    for each in held:
        os.close(each)


def _kill_once(namespaces: set[int]) -> bool:
    """Whether anything was there to kill."""
    found = False
    for process in [int(each) for each in os.listdir("/proc") if each.isdigit() and int(each) != os.getpid()]:
        try:
            if os.stat(f"/proc/{process}/ns/net").st_ino in namespaces:
                os.kill(process, signal.SIGKILL)
                found = True
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
