"""DNS messages as bytes (RFC 1035, SRV from RFC 2782): one question in, one answer out."""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

TYPES = {1: "A", 5: "CNAME", 12: "PTR", 16: "TXT", 28: "AAAA", 33: "SRV"}
_NUMBERS = {name: number for number, name in TYPES.items()}
NOERROR, FORMERR, NXDOMAIN = 0, 1, 3
_IN = 1
_TTL = 5
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_DESIRED = 0x8000, 0x0400, 0x0200, 0x0100
_LARGEST_DATAGRAM = 512


class Malformed(Exception):
    """Bytes that are not a DNS question."""


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody asks."""

    number: int
    flags: int
    name: str
    """In lower case, without its last dot."""
    kind: str
    """Type of record; TYPE<n> for one that nobody here knows."""
    raw: bytes
    """The question section, which an answer repeats byte for byte."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an answer."""

    name: str
    kind: str
    value: Any


def read_question(message: bytes) -> Question:
    """The question that a message holds; raises Malformed for anything else."""
    if len(message) < 12:
        raise Malformed("shorter than a header")
    number, flags, questions = struct.unpack_from("!HHH", message)
    if flags & _RESPONSE or questions != 1:
        raise Malformed("not one question")
    labels = []
    at = 12
    while True:
        if at >= len(message):
            raise Malformed("name without end")
        length = message[at]
        if length == 0:
            break
        if length > 63 or at + 1 + length > len(message):
            raise Malformed("label without end")
        labels.append(message[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    if at + 5 > len(message):
        raise Malformed("question without end")
    kind, _ = struct.unpack_from("!HH", message, at + 1)
    name = ".".join(labels).lower()
    return Question(number, flags, name, TYPES.get(kind, f"TYPE{kind}"), message[12 : at + 5])


def write_answer(question: Question, code: int, records: list[Record], *, limit: int = _LARGEST_DATAGRAM) -> bytes:
    """The answer to a question; marked as cut off where it is longer than `limit` bytes, so that TCP is tried."""
    body = b"".join(_record(record) for record in records)
    flags = _RESPONSE | _AUTHORITATIVE | (question.flags & _RECURSION_DESIRED) | code
    count = len(records)
    if 12 + len(question.raw) + len(body) > limit:
        flags, body, count = flags | _TRUNCATED, b"", 0
    return struct.pack("!HHHHHH", question.number, flags, 1, count, 0, 0) + question.raw + body


def write_question(number: int, name: str, kind: str) -> bytes:
    """A question, as a resolver would send it."""
    header = struct.pack("!HHHHHH", number, _RECURSION_DESIRED, 1, 0, 0, 0)
    return header + _name(name) + struct.pack("!HH", _NUMBERS[kind], _IN)


def _record(record: Record) -> bytes:
    match record.kind:
        case "A":
            data = IPv4Address(record.value).packed
        case "CNAME" | "PTR":
            data = _name(record.value)
        case "SRV":
            priority, weight, port, target = record.value
            data = struct.pack("!HHH", priority, weight, port) + _name(target)
        case _:
            words = str(record.value).encode()
            data = bytes([len(words)]) + words
    return _name(record.name) + struct.pack("!HHIH", _NUMBERS[record.kind], _IN, _TTL, len(data)) + data


def _name(name: str) -> bytes:
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
