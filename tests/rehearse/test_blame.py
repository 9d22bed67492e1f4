"""Of all that pods print, the words that say why one failed."""

import pytest

from trainyard.rehearse.blame import Blame, is_of_shared_memory

RULE = "-" * 74
TRACEBACK = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 17, in <module>
    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
  File "training_args.py", line 1782, in _validate_args
    raise ValueError(error_message)
ValueError: Your setup doesn't support bf16/gpu.
"""
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    raise KeyError("a")
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 1, in <module>
    raise RuntimeError("b")
RuntimeError: b
"""
RANKS = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 5, in <module>
[rank0]:   File "train.py", line 5, in <module>
[rank0]:     raise OSError(error)
[rank1]:     raise OSError(error)
[rank1]: OSError: no data for rank 1
[rank0]: OSError: no data for rank 0
E1122 06:05:12.409000 10 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
HOSTFILE = f"""\
{RULE}
Open RTE was unable to open the hostfile:
    /etc/mpi/hostfile
Check to make sure the path and filename are correct.
{RULE}
[launcher:00001] [[1,0],0] ORTE_ERROR_LOG: Not found in file base/ras_base_allocate.c at line 325
{RULE}
An internal error has occurred in ORTE:

[[1,0],0] FORCE-TERMINATE AT Not found:-13 - error plm_rsh_module.c(1207)
{RULE}
"""
ENDED = f"""\
worker-0: ssh: Could not resolve hostname worker-1: Name or service not known
{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
"""
PAGE = f"""\
{RULE}
| welcome to the image |
loading
error: no such option --nodez
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (TRACEBACK, "ValueError: Your setup doesn't support bf16/gpu."),
        (CHAINED, "KeyError: 'a'"),
        (RANKS, "OSError: no data for rank 1"),
        (
            HOSTFILE,
            "Open RTE was unable to open the hostfile: /etc/mpi/hostfile "
            "Check to make sure the path and filename are correct.",
        ),
        (ENDED, "worker-0: ssh: Could not resolve hostname worker-1: Name or service not known"),
        (PAGE, "error: no such option --nodez"),
        ("could not open the file\nall is over\n", "could not open the file"),
        ("one\nthe last line\n---\n", "the last line"),
    ],
    ids=["traceback", "chained", "ranks", "hostfile", "ended", "page", "hint", "last"],
)
def test_the_cause_is_told(said: str, why: str) -> None:
    blame = Blame()
    for line in said.splitlines():
        blame.line("pod", line)

    assert blame.of(["pod"]) == ("pod", why)


def test_the_first_of_the_pods_that_failed_is_told() -> None:
    blame = Blame()
    for pod, line in (("a", "error: first"), ("b", "error: second")):
        blame.line(pod, line)

    assert blame.of(["b"]) == ("b", "error: second")
    assert blame.of(["c"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. ",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "Signal 7 (SIGBUS) received by PID 71",
        "subprocess.CalledProcessError: Command 'python' died with <Signals.SIGBUS: 7>.",
        "OSError: [Errno 28] No space left on device: '/dev/shm/psm_5f1c2a'",
        "RuntimeError: unable to write to file </torch_71_1204_0>: No space left on device (28)",
        "RuntimeError: unable to mmap 4096 bytes from file <filename not specified>: Cannot allocate memory (12)",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-nm9M6H (size 9637888)",
    ],
)
def test_words_of_a_full_shared_memory(text: str) -> None:
    assert is_of_shared_memory(text)


@pytest.mark.parametrize(
    "text",
    [
        "(2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals.",
        "OSError: [Errno 28] No space left on device: '/checkpoints/step-3'",
        "The object store is using /tmp/ray instead of /dev/shm because /dev/shm has only 67108864 bytes available.",
        "received SIGTERM",
    ],
)
def test_words_that_only_mention_what_may_have_been(text: str) -> None:
    assert not is_of_shared_memory(text)
