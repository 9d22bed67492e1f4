"""Every pod dials every other on some ports at once; what neither answers nor is noted as dropped is an error.

No verdict rests on a clock: a dial ends when it is answered, or when the router says that it dropped it.
"""

import json
import subprocess
import time
from collections.abc import Iterable

from tests.rehearse.network.support import start
from trainyard.rehearse.network import Network, PodSpot, Waiting

Probe = tuple[str, str, str, int]
"""Names of who dials and of who is dialled, protocol, port."""

_SLOWEST = 60.0
"""Seconds after which something is broken."""

_AGENT = """
import itertools, json, selectors, socket, struct, sys, threading

def serve(port):
    server = socket.create_server(("", port), backlog=1024)
    while True:
        server.accept()[0].close()

def echo(port):
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.bind(("", port))
    while True:
        here.sendto(*here.recvfrom(9))

ports = json.loads(sys.argv[1])
for protocol, port in ports:
    threading.Thread(target=serve if protocol == "TCP" else echo, args=(port,), daemon=True).start()
print("ready")
selector = selectors.DefaultSelector()
selector.register(0, selectors.EVENT_READ)
waiting, answered = {}, []
sources = itertools.cycle(range(20000, 60000))  # a port that comes again would pass as part of the flow it was in

def end(here):
    selector.unregister(here)
    here.close()

def dial(target):
    address, protocol, port = target
    here = socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM)
    here.setblocking(False)
    here.bind(("", next(sources)))
    if protocol == "TCP":
        here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    here.connect_ex((address, port))
    waiting[here] = target
    if protocol == "TCP":
        selector.register(here, selectors.EVENT_WRITE)
    else:
        selector.register(here, selectors.EVENT_READ)
        here.send(b"ping")

for line in sys.stdin:
    order = json.loads(line)
    for here in list(waiting):
        end(here)
    waiting, answered = {}, []
    for target in order:
        dial(target)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        for here in ready:
            if here == 0:
                continue
            target = waiting.pop(here)
            error = here.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            answered.append([*target, error])
            end(here)
        if 0 in ready:
            if sys.stdin.readline() == "now\\n":
                print(json.dumps(answered))
                continue
            break
"""


class Probes:
    """An agent in each pod, which listens on all ports and dials when told to."""

    def __init__(
        self,
        network: Network,
        pods: Iterable[PodSpot],
        ports: Iterable[tuple[str, int]],
        others: Iterable[PodSpot],
    ) -> None:
        """`others` are dialled and have no agent."""
        self._network = network
        argument = json.dumps(list(ports))
        self._pods = {pod.name: pod for pod in pods}
        self._agents = {name: start(network, pod, _AGENT, argument) for name, pod in self._pods.items()}
        self._pods |= {pod.name: pod for pod in others}

    def dial(self, probes: Iterable[Probe]) -> dict[Probe, Waiting | None]:
        """What became of each: None if it was answered, else what the network says of it."""
        todo = list(probes)
        for name, agent in self._agents.items():
            targets = [(self._address(b), protocol, port) for a, b, protocol, port in todo if a == name]
            _tell(agent, json.dumps(targets))
        deadline = time.monotonic() + _SLOWEST
        try:
            while time.monotonic() < deadline:
                found = self._look(todo)
                if len(found) == len(todo):
                    return found
                time.sleep(0.02)
        finally:
            for agent in self._agents.values():
                _tell(agent, "end")
        lost = [probe for probe in todo if probe not in found]
        raise AssertionError(f"neither answered nor dropped: {lost}")

    def _look(self, todo: list[Probe]) -> dict[Probe, Waiting | None]:
        dropped = {(each.pod, each.address, each.protocol, each.port): each for each in self._network.waiting()}
        answered = set()
        for name, agent in self._agents.items():
            _tell(agent, "now")
            assert agent.stdout is not None
            for address, protocol, port, error in json.loads(agent.stdout.readline()):
                assert error == 0, f"{name} to {address} {protocol} {port}: error {error}"
                answered.add((self._pods[name].key, address, protocol, port))
        found: dict[Probe, Waiting | None] = {}
        for probe in todo:
            dialled = (self._pods[probe[0]].key, self._address(probe[1]), *probe[2:])
            if dialled in answered:
                found[probe] = None
            elif dialled in dropped and dropped[dialled].why != "no answer comes":
                found[probe] = dropped[dialled]
        return found

    def _address(self, name: str) -> str:
        return self._network.address(self._pods[name])


def _tell(agent: "subprocess.Popen[str]", line: str) -> None:
    assert agent.stdin is not None
    agent.stdin.write(line + "\n")
    agent.stdin.flush()
