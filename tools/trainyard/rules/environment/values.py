"""Values that a library reads otherwise than they were meant."""

import math
import re
from collections.abc import Iterator

from trainyard.catalogues.variables import Variable
from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import Assignment, assignments
from trainyard.rules.common.variable_remedies import assigned
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_WORD = re.compile(r"[A-Za-z]+\Z")
_FALSE = frozenset({"false", "no", "off", "n", "f", "disable", "disabled"})
_TRUE = frozenset({"true", "yes", "on", "y", "t", "enable", "enabled"})
_SUFFIXED = re.compile(r"(\d+)\s*([KMGT]?)i?B?\Z", re.IGNORECASE)
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE]\+?\d\Z")
_OCTAL = re.compile(r"0\d+\Z")
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@rule("ENV001", "word-for-number", Severity.ERROR, needs=Workload, fix="safe")
@once
def word_for_number(workload: Workload) -> Iterator[Problem]:
    """A variable that holds a whole number holds a word.

    NCCL reads the text as a C integer: a word becomes 0, and nothing is logged. NCCL_IB_DISABLE=true leaves
    InfiniBand on, and NCCL_NVLS_ENABLE=true turns NVLS off. PyTorch and torchrun stop instead.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IGNORE_CPU_AFFINITY: "true"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IGNORE_CPU_AFFINITY: "1"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_BLOCKING_WAIT: "true"}

    Source: https://github.com/NVIDIA/nccl/blob/master/src/misc/param.cc
    """
    for found, facts, value in _judged(workload):
        if not _is_word_for_number(facts, value):
            continue
        consequence = f"is read as 0 by {facts.library}" if _is_c_integer(facts) else f"stops {facts.library}"
        yield Problem(
            f'{found.name} is a whole number, and "{value}" {consequence}',
            found.spot.saying(consequence),
            help=f'write "{int(value.lower() in _TRUE)}"' if facts.type == "bool" else "write a number",
            fix=assigned(found, str(int(value.lower() in _TRUE))) if _is_switch(facts, value) else None,
        )


@rule("ENV003", "size-with-suffix", Severity.ERROR, needs=Workload, fix="safe")
@once
def size_with_suffix(workload: Workload) -> Iterator[Problem]:
    """A number carries a unit, an exponent or a leading zero, and is read as another number.

    The parser stops at the first character that is not a digit, and takes a leading zero for octal: a buffer size of 8M
    is eight bytes.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: 8M}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BUFFSIZE: "8388608"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_PKEY_VALUE: "0x8001"}

    Source: https://github.com/NVIDIA/nccl/blob/master/src/misc/param.cc
    """
    for found, facts, value in _judged(workload):
        meant = _misread(facts, value)
        if meant is not None:
            read, intended = meant
            yield Problem(
                f'{found.name} is "{value}", which {facts.library} reads as {read}',
                found.spot.saying(f"read as {read}"),
                help=f'write "{intended}"',
                fix=assigned(found, str(intended)),
            )


@rule("ENV004", "value-refused", Severity.ERROR, needs=Workload)
@once
def value_refused(workload: Workload) -> Iterator[Problem]:
    """A variable holds a value at which its library stops, or takes another transport.

    NCCL ends at an unknown word of NCCL_ALGO or NCCL_PROTO from 2.24 on, waits for ever with NCCL_IB_TIMEOUT outside
    1 to 31, and finds no device for a malformed NCCL_IB_HCA. PyTorch, torchrun, UCX and the OFI plugin stop at a
    value that they cannot read.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "40"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "22"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "^=mlx5_1,mlx5_4"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    for found, facts, value in _judged(workload):
        reason = _refusal(facts, value)
        if reason and facts.breaks:
            yield Problem(f'{found.name} is "{value}", which {reason}', found.spot, help=_remedy(facts))


@rule("ENV010", "value-not-honoured", Severity.WARNING, needs=Workload, fix="safe")
@once
def value_not_honoured(workload: Workload) -> Iterator[Problem]:
    """A variable holds a value that its library ignores, clamps, or understands by luck.

    The run goes on with another value than the manifest says: an unknown word is dropped, a number out of range is
    moved to the nearest end. "false" for a whole number means 0 only because every word does.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_NTHREADS: "64"}
    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "false"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_NTHREADS: "8"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG: warn}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    for found, facts, value in _judged(workload):
        if _is_c_integer(facts) and value.lower() in _FALSE:
            yield Problem(
                f'{found.name} is a whole number, and "{value}" is read as 0 only by accident',
                found.spot,
                help='write "0"',
                fix=assigned(found, "0"),
            )
            continue
        reason = _refusal(facts, value)
        if reason and not facts.breaks:
            yield Problem(f'{found.name} is "{value}", which {reason}', found.spot, help=_remedy(facts))


def _judged(workload: Workload) -> Iterator[tuple[Assignment, Variable, str]]:
    """Variables in use whose value is known and not empty, which means unset."""
    for found in assignments(workload):
        facts = found.facts
        if facts is not None and facts.status in ("", "deprecated") and not facts.secret and found.value:
            yield found, facts, found.value


def _is_c_integer(facts: Variable) -> bool:
    return facts.parse == "nccl-int"


def _is_word_for_number(facts: Variable, value: str) -> bool:
    if not facts.is_integer or facts.unsure or not _WORD.match(value):
        return False
    return not (_is_c_integer(facts) and value.lower() in _FALSE)


def _is_switch(facts: Variable, value: str) -> bool:
    return facts.type == "bool" and value.lower() in _TRUE | _FALSE


_LONGEST = 40
"""Characters of a number that anybody meant."""


def _misread(facts: Variable, value: str) -> tuple[int, int] | None:
    """What a C parser makes of a number with a unit, and what was meant; None where both are the same."""
    if facts.parse not in ("nccl-int", "torch-int"):
        return None
    if len(value) > _LONGEST:
        return None
    digits = re.match(r"\d*", value)
    prefix = int(digits[0]) if digits and digits[0] else 0
    if _OCTAL.match(value) and _is_c_integer(facts):
        octal = re.match(r"[0-7]*", value)
        return int(octal[0] if octal else "0", 8), int(value)
    if _EXPONENT.match(value) and math.isfinite(float(value)):
        return prefix, int(float(value))
    suffixed = _SUFFIXED.match(value)
    if suffixed and not value.isdecimal():
        return prefix, int(suffixed[1]) * _BINARY[suffixed[2].upper()]
    return None


def _remedy(facts: Variable) -> str:
    return f"{facts.library} honours {facts.range}" if facts.range else "correct it, or remove it for the default"


def _refusal(facts: Variable, value: str) -> str:
    """Why the value is not honoured, where no other rule says it: interfaces and levels have rules of their own."""
    if facts.unsure or facts.type in ("ifname", "level"):
        return ""
    if _misread(facts, value) or (facts.is_integer and _WORD.match(value)):
        return ""
    return facts.refuses(value)
