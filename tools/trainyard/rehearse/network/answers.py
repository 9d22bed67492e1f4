"""The DNS server: it answers from a zone that the rehearsal gives it, and remembers what it could not answer."""

import selectors
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from trainyard.rehearse.network.wire import (
    FORMERR,
    NOERROR,
    NXDOMAIN,
    Malformed,
    Question,
    Record,
    read_question,
    write_answer,
)

_CODES = {NOERROR: "NODATA", NXDOMAIN: "NXDOMAIN"}
_LONGEST_CHAIN = 8


@dataclass(slots=True)
class _Stream:
    """A resolver that asks over TCP."""

    server: str
    peer: str
    received: bytes = b""


@dataclass(slots=True)
class Answers:
    """What is served, and what was asked for: by whom, of which server, which name."""

    zone: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    _failed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _answered: set[tuple[str, str, str]] = field(default_factory=set)

    def listen(self, cluster: str, node: str, selector: selectors.BaseSelector) -> None:
        """Answer at two addresses: as the cluster's server, and as the nodes', which knows no name of the cluster."""
        for address, server in ((cluster, "cluster"), (node, "node")):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                here = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)
                here.bind((address, 53))
                if kind == socket.SOCK_STREAM:
                    here.listen(64)
                selector.register(here, selectors.EVENT_READ, (server, kind))

    def handle(self, here: Any, data: Any, selector: selectors.BaseSelector) -> None:
        """Deal with what arrived at one socket."""
        try:
            if isinstance(data, _Stream):
                self._read_stream(here, data, selector)
            elif data[1] == socket.SOCK_DGRAM:
                message, peer = here.recvfrom(4096)
                here.sendto(self._answer(message, peer[0], data[0], 512), peer)
            else:
                connection, peer = here.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ, _Stream(data[0], peer[0]))
        except OSError:
            if isinstance(data, _Stream):
                _forget(here, selector)

    def _read_stream(self, here: socket.socket, stream: _Stream, selector: selectors.BaseSelector) -> None:
        received = here.recv(4096)
        if not received:
            _forget(here, selector)
            return
        stream.received += received
        while len(stream.received) >= 2:
            (length,) = struct.unpack_from("!H", stream.received)
            if len(stream.received) < 2 + length:
                return
            message, stream.received = stream.received[2 : 2 + length], stream.received[2 + length :]
            answer = self._answer(message, stream.peer, stream.server, 65535)
            here.sendall(struct.pack("!H", len(answer)) + answer)

    def asked(self) -> dict[str, list[list[str]]]:
        """What was last asked for in vain, and what with success: who asked, which server, the name, the code."""
        return {
            "failed": [[*key, code] for key, code in self._failed.items()],
            "answered": [[*key, "NOERROR"] for key in self._answered],
        }

    def _answer(self, message: bytes, peer: str, server: str, limit: int) -> bytes:
        try:
            question = read_question(message)
        except Malformed:
            return message[:2].ljust(2, b"\0") + struct.pack("!HHHHH", 0x8000 | FORMERR, 0, 0, 0, 0)
        code, records = self.look_up(question) if server == "cluster" else (NXDOMAIN, [])
        key = (peer, server, question.name)
        if records:
            self._failed.pop(key, None)
            self._answered.add(key)
        elif question.kind != "PTR" and (code == NXDOMAIN or question.kind != "AAAA"):
            self._failed[key] = _CODES[code]
            self._answered.discard(key)
        return write_answer(question, code, records, limit=limit)

    def look_up(self, question: Question) -> tuple[int, list[Record]]:
        """The response code and the records that answer a question."""
        records: list[Record] = []
        name = question.name
        for _ in range(_LONGEST_CHAIN):
            here = self.zone.get(name)
            if here is None:
                below = any(known.endswith(f".{name}") for known in self.zone)
                return (NOERROR if records or below else NXDOMAIN), records
            records += [Record(name, question.kind, value) for value in here.get(question.kind, ())]
            if question.kind in here or "CNAME" not in here:
                break
            alias = here["CNAME"][0]
            records.append(Record(name, "CNAME", alias))
            name = alias.lower()
        return NOERROR, records


def _forget(here: Any, selector: selectors.BaseSelector) -> None:
    selector.unregister(here)
    here.close()
