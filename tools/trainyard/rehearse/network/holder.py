"""The process that holds a rehearsal's network namespaces and answers its DNS, so that all ends when it does.

The namespaces have no names anywhere: they are open files of this process. It ends when its standard input does, that
is when the rehearsal ends, however that happens, and then kills what still runs in them and removes the folder that
the pods' files are in. It speaks JSON, a line each way. Started as a program: FOLDER, COUNT and `user` or `root`.
"""

import ctypes
import json
import os
import selectors
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from trainyard.rehearse.network.answers import Answers

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_LATE = 1.0
"""Seconds in which a process that the rehearsal had started when it was killed has entered its namespace."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Hold COUNT namespaces until standard input ends."""
    folder, count, right = Path(arguments[0]), int(arguments[1]), arguments[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        if right == "user":
            _become_root_of_new_user_namespace()
        held = [_new_namespace() for _ in range(count)]
    except OSError as error:
        print(json.dumps({"error": error.strerror}), flush=True)
        return 1
    print(json.dumps({"namespaces": held}), flush=True)
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
            _enter(held[order["namespace"]])
            answers.listen(order["cluster"], order["node"], selector)
        case "zone":
            answers.zone = order["zone"]
        case "asked":
            return answers.asked()
        case "read":
            _enter(held[order["namespace"]])
            return [Path(f"/proc/thread-self/net/{name}").read_text() for name in order["files"]]
        case "write":
            _enter(held[order["namespace"]])
            Path(order["file"]).write_text(order["text"])
    return None


def _new_namespace() -> int:
    _check(_LIBC.unshare(_NEW_NET))
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(namespace: int) -> None:
    _check(_LIBC.setns(namespace, _NEW_NET))


def _become_root_of_new_user_namespace() -> None:
    user, group = os.getuid(), os.getgid()
    _check(_LIBC.unshare(_NEW_USER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


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
