"""Work that asks for too much ends alone: real processes, real memory, real signals."""

import ctypes
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest

from trainyard import limits
from trainyard.bounded import Here, ItemEnd, call, each, unbounded
from trainyard.errors import Fault, InputError, UsageError

pytestmark = pytest.mark.commands

HOME = Path(__file__).resolve().parents[1]
MEMORY = ItemEnd("rule", "needs more than 300 MiB of memory to judge", too_much=True)
TIME = ItemEnd("rule", "takes longer than 1 s of processor time to judge", too_much=True)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are soon hit."""
    monkeypatch.setattr(limits, "JUDGE_BYTES", 300 << 20)
    monkeypatch.setattr(limits, "JUDGE_SECONDS", 1)


def answered(harm: Callable[[], object], count: int = 5, at: int = 2) -> dict[int, bytes | ItemEnd]:
    """What comes of some items, one of which does harm."""

    def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        for item in items:
            here.begin(item)
            here.doing("rule")
            if item == at:
                faulthandler.disable()  # pytest's would print where the process is
                harm()
            yield item, b"%d" % item

    return dict(each(count, work))


def eat() -> None:
    held = []
    while True:
        held.append(bytearray(1 << 20))


def catastrophe() -> None:
    re.match(r"(a*)*b", "a" * 40)


def eaten() -> bytes:
    eat()
    return b""


def killed() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def loop() -> None:
    while True:
        pass


def loop_that_takes_no_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    loop()


@pytest.mark.parametrize(
    ("harm", "ended"),
    [
        (eat, MEMORY),
        (lambda: [None] * 10**12, MEMORY),
        (lambda: list(range(10**12)), MEMORY),
        (lambda: "x" * 10**12, MEMORY),
        (loop, TIME),
        (catastrophe, TIME),
        (lambda: 7**10**9, TIME),
        (loop_that_takes_no_signal, TIME),
        (killed, "signal 9"),
        (lambda: ctypes.string_at(0), "signal 11"),
        (os.abort, "signal 6"),
        (lambda: os._exit(7), "exit code 7"),
    ],
)
def test_an_item_that_asks_for_too_much_ends_alone(harm: Callable[[], object], ended: ItemEnd | str) -> None:
    if isinstance(ended, str):
        ended = ItemEnd("rule", f"stopped the process that judges it ({ended})", too_much=False)

    assert answered(harm) == {0: b"0", 1: b"1", 2: ended, 3: b"3", 4: b"4"}


def test_every_item_may_ask_for_too_much() -> None:
    def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        for item in items:
            here.begin(item, "rule")
            eat()
            yield item, b""

    assert list(each(3, work)) == [(0, MEMORY), (1, MEMORY), (2, MEMORY)]


def test_the_time_of_one_item_is_not_that_of_the_next() -> None:
    def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        for item in items:
            here.begin(item)
            until = time.process_time() + 0.6
            while time.process_time() < until:
                pass
            yield item, b""

    assert [answer for _, answer in each(4, work)] == [b""] * 4


def test_an_item_that_waits_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JUDGE_SILENCE", 1)

    found = answered(lambda: time.sleep(600))

    assert found[2] == ItemEnd("rule", "takes longer than 1 s to judge", too_much=True)
    assert [found[item] for item in (0, 1, 3, 4)] == [b"0", b"1", b"3", b"4"]


def test_large_answers_come_whole() -> None:
    def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        for item in items:
            here.begin(item)
            yield item, bytes([10, item]) * 5_000_000

    assert all(answer == bytes([10, item]) * 5_000_000 for item, answer in each(3, work))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (InputError("is empty", "job.yaml", 3, 1, help="write it"), InputError),
        (UsageError("no"), UsageError),
        (Fault("broken"), Fault),
        (ZeroDivisionError("oh"), Fault),
    ],
)
def test_what_is_raised_there_is_raised_here(error: Exception, raised: type[Exception]) -> None:
    def harm() -> None:
        raise error

    with pytest.raises(raised) as told:
        answered(harm)
    assert str(told.value) == (str(error) if raised is type(error) else "ZeroDivisionError: oh")
    if isinstance(told.value, InputError):
        assert told.value.help == "write it"


def test_an_end_outside_of_any_item_is_a_fault() -> None:
    def work(_items: Sequence[int], _here: Here) -> Generator[tuple[int, bytes], None, None]:
        os._exit(7)
        yield 0, b""

    with pytest.raises(Fault, match="exit code 7"):
        list(each(1, work))


def test_programs_that_are_started_have_the_limits_of_whoever_runs_the_toolkit() -> None:
    show = ["sh", "-c", "ulimit -v; ulimit -t"]

    def shown() -> bytes:
        inside = subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()
        with unbounded():
            started = subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()
        return json.dumps([inside, started]).encode()

    inside, started = json.loads(call("job", shown))

    here = subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()
    assert started == here
    assert all(number.isdecimal() for number in inside)


def test_one_call() -> None:
    assert call("jobs/a", lambda: b"\nanswer\0") == b"\nanswer\0"
    with pytest.raises(InputError, match=r"^jobs/a: needs more than 300 MiB of memory to judge$"):
        call("jobs/a", eaten)
    with pytest.raises(Fault, match=r"^jobs/a stopped the process that judges it \(signal 9\)$"):
        call("jobs/a", killed)


WAITING = """
import os, subprocess, sys
from trainyard.bounded import each
def work(items, here):
    for item in items:
        here.begin(item)
        child = subprocess.Popen(["sleep", sys.argv[1]])
        try:
            print(os.getpid(), child.pid, flush=True)
            child.wait()
        finally:
            child.kill()
        yield item, b""
list(each(2, work))
"""


def _waiting(seconds: int) -> tuple[subprocess.Popen[str], list[int]]:
    """A run whose items take some seconds, and the two processes that are there because of it."""
    run = subprocess.Popen(
        [sys.executable, "-P", "-c", WAITING, str(seconds)],
        env={**os.environ, "PYTHONPATH": str(HOME / "tools")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert run.stdout
    return run, [int(process) for process in run.stdout.readline().split()]


def _is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_interrupted_it_ends_what_it_started() -> None:
    run, below = _waiting(600)
    assert all(map(_is_there, below))

    run.send_signal(signal.SIGINT)

    run.wait(60)
    assert not any(map(_is_there, below))


def test_it_ends_with_its_next_answer_when_whoever_waits_for_it_was_killed() -> None:
    run, below = _waiting(2)

    run.kill()

    run.wait(60)
    until = time.monotonic() + 60
    while any(map(_is_there, below)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(_is_there, below))
