"""A claim that is slow on request: real writes of real processes wait, by the bytes that they bring, and no others."""

import errno
import platform
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearse.rehearsing import HOME, TOOL
from trainyard.errors import Fault
from trainyard.rehearse.disk.handover import CALLS, Calls, calls, filter_program
from trainyard.rehearse.disk.slow import Place, SlowDisks, Source

MIB = 1 << 20
ALLOW, NOTIFY, NO_SUCH_CALL = 0x7FFF0000, 0x7FC00000, 0x00050000 | 38
WRITES = {
    "write": "os.write(file, bytes(size))",
    "pwrite64": "os.pwrite(file, bytes(size), 0)",
    "writev": "os.writev(file, [bytes(size // 2), bytes(size // 2)])",
    "pwritev2": "os.pwritev(file, [bytes(size)], 0, os.RWF_DSYNC)",
    "sendfile": "os.sendfile(file, whole, size, 1 << 40)",
    "copy_file_range": "os.copy_file_range(whole, file, 1 << 30, size, 0)",
    "splice": """
reading, writing = os.pipe()
for _ in range(size // 4096):
    os.write(writing, bytes(4096))
    os.splice(reading, file, 4096)
""",
    "a dozen writes": "[os.write(file, bytes(size // 16)) for _ in range(16)]",
}


@pytest.fixture
def disks() -> Iterator[SlowDisks]:
    try:
        found = SlowDisks(["claim"])
    except Fault as reason:
        pytest.skip(str(reason))
    yield found
    found.close()


def started(disks: SlowDisks, folder: Path, program: str) -> "subprocess.Popen[str]":
    """A program whose folder `claim` is the claim, and whose folder `claim/own` is another volume."""
    places = Place(f"{folder}/claim", "claim"), Place(f"{folder}/claim/own", "")
    (folder / "claim" / "own").mkdir(parents=True, exist_ok=True)
    words, theirs = disks.hand_over(Source("pod", places))
    assert theirs is not None
    with theirs:
        return subprocess.Popen(
            [*words, sys.executable, "-c", f"import os\n{program}"],
            pass_fds=(theirs.fileno(),),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_takes_as_long_as_its_bytes(write: str, disks: SlowDisks, tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(bytes(2 * MIB))
    disks.slow("claim", 4 * MIB)
    program = f"""
size, whole = {MIB}, os.open("whole", os.O_RDONLY)
file = os.open("claim/file", os.O_WRONLY | os.O_CREAT)
{write}
os.fsync(file)
"""
    began = time.monotonic()
    process = started(disks, tmp_path, program)

    _, said = process.communicate(timeout=60)

    assert (process.returncode, said) == (0, "")
    assert time.monotonic() - began >= 1 / 4
    assert (tmp_path / "claim" / "file").stat().st_size == MIB
    (save,) = disks.saves()
    assert (save.folder, save.size) == (f"{tmp_path}/claim", MIB)
    assert save.seconds >= 1 / 4


def test_nothing_else_waits(disks: SlowDisks, tmp_path: Path) -> None:
    disks.slow("claim", 1)
    process = started(
        disks,
        tmp_path,
        """
for path in ("beside", "claim/own/file"):
    with open(path, "wb", buffering=0) as file:
        for _ in range(1000):
            file.write(bytes(1000))
reading, writing = os.pipe()
os.write(writing, b"x")
print("done")
""",
    )

    assert process.communicate(timeout=60) == ("done\n", "")
    assert disks.saves() == ()


def test_a_disk_is_as_fast_as_it_is_until_it_is_made_slow(disks: SlowDisks, tmp_path: Path) -> None:
    process = started(disks, tmp_path, f"open('claim/file', 'wb').write(bytes({64 * MIB}))")

    assert process.communicate(timeout=60) == ("", "")
    assert disks.saves() == ()


def until_busy(disks: SlowDisks) -> None:
    end = time.monotonic() + 60
    while not disks.busy:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_pod_that_is_killed_leaves_its_disk_to_the_next(disks: SlowDisks, tmp_path: Path) -> None:
    disks.slow("claim", MIB)
    process = started(disks, tmp_path, f"open('claim/large', 'wb', buffering=0).write(bytes({3600 * MIB}))")
    until_busy(disks)
    held = disks.held("pod")
    assert held is not None
    assert held.written < 3600 * MIB

    process.kill()
    process.communicate()
    after = started(disks, tmp_path, "open('claim/small', 'wb').write(b'small')")

    assert after.communicate(timeout=60) == ("", "")
    assert not disks.busy


def test_a_signal_does_not_make_a_write_count_twice(disks: SlowDisks, tmp_path: Path) -> None:
    disks.slow("claim", MIB)
    program = f"""
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
with open("claim/file", "wb", buffering=0) as file:
    file.write(bytes({MIB}))
"""
    process = started(disks, tmp_path, program)

    assert process.communicate(timeout=60) == ("", "")
    assert [save.size for save in disks.saves()] == [MIB]


def test_no_writer_hangs_when_nobody_answers_any_more(tmp_path: Path) -> None:
    try:
        disks = SlowDisks(["claim"])
    except Fault as reason:
        pytest.skip(str(reason))
    disks.slow("claim", 1)
    program = """
try:
    open("claim/file", "wb", buffering=0).write(b"for ever")
except OSError as error:
    os._exit(error.errno)
"""
    process = started(disks, tmp_path, program)
    until_busy(disks)

    disks.close()

    process.communicate(timeout=60)
    assert process.returncode == errno.ENOSYS


@pytest.mark.rehearsal
def test_a_machine_that_refuses_is_told_in_one_line(disks: SlowDisks, tmp_path: Path) -> None:
    """The kernel allows a single listener: under another's filter, as in some containers, it refuses ours."""
    case = HOME / "tests" / "rehearse" / "cases" / "disk-slower-than-the-grace" / "good.yaml"
    words = [TOOL, case, "--chaos", "slow-disk=checkpoints:1Mi@1", "--loopback"]
    program = f"os.execv({str(TOOL)!r}, {[str(word) for word in words]!r})"

    process = started(disks, tmp_path, program)

    _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert said.splitlines() == [
        "rehearse-job: fault: --chaos slow-disk: this machine lets no process answer for another's writes: "
        "Device or resource busy"
    ]


def judged(program: bytes, architecture: int, number: int) -> int:
    """What the kernel would make of a call: the filter run as the classic BPF that it is."""
    words = list(struct.iter_unpack("=HBBI", program))
    data, at, held = struct.pack("=iIQ6Q", number, architecture, 0, *[0] * 6), 0, 0
    while True:
        code, yes, no, value = words[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x15:
            at += yes if held == value else no
        else:
            assert code == 0x06
            return int(value)


@pytest.mark.parametrize("known", CALLS.values(), ids=CALLS)
def test_the_filter_asks_for_writes_alone(known: Calls) -> None:
    program = filter_program(known)

    told = {number: judged(program, known.architecture, number) for number in range(1000)}

    assert {number for number, what in told.items() if what == NOTIFY} == set(known.writing)
    assert {number for number, what in told.items() if what == NO_SUCH_CALL} == {known.io_uring_setup}
    assert set(told.values()) == {ALLOW, NOTIFY, NO_SUCH_CALL}
    assert {judged(program, 0x40000003, number) for number in range(1000)} == {ALLOW}


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(OSError, match="the system calls of riscv64 are not known here, only those of x86_64, aarch64"):
        calls()
