"""The probes of a running container, asked as the kubelet asks them: what makes it ready, and what ends it."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainyard.workload.plain import count, entries, mapping, sequence, text

Kind = Literal["startup", "liveness", "readiness"]
FIELDS: Mapping[Kind, str] = {"startup": "startupProbe", "liveness": "livenessProbe", "readiness": "readinessProbe"}
HURRY_SECONDS = 2.0
"""Between two questions whose answer makes a container started or ready, at most: the rehearsal is in a hurry."""
PATIENT_SECONDS = 10.0
"""For an answer, at least: this machine runs all pods at once, and a second may be too little for any of them."""
_GET = """\
import http.client, ssl, sys
scheme, host, port, path, *headers = sys.argv[1:]
context = {"context": ssl._create_unverified_context()} if scheme == "HTTPS" else {}
asked = getattr(http.client, f"{scheme}Connection")(host, int(port), timeout=60, **context)
asked.request("GET", path, headers=dict(each.split("=", 1) for each in headers))
sys.exit(not 200 <= asked.getresponse().status < 400)
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """How a container is asked."""

    command: tuple[str, ...] = ()
    port: int = 0
    """A TCP port that must take connections; 0 where a command is run."""
    path: str = ""
    """What is asked of the port over HTTP; empty where a connection is enough."""
    scheme: str = "HTTP"
    headers: tuple[str, ...] = ()
    """`name=value`."""
    period: float = 10.0
    delay: float = 0.0
    timeout: float = 1.0
    failures: int = 3
    """In a row, that are a failure."""
    grace: float | None = None
    """Seconds to end in, where they are not the pod's."""

    @property
    def text(self) -> str:
        """In a few words."""
        if self.command:
            return " ".join(self.command)
        return f"GET :{self.port}{self.path}" if self.path else f"port {self.port}"

    def words(self, address: str, network: Sequence[str]) -> list[str]:
        """The command that asks a port: it ends with 0 where all is well. `network` runs it in the pod's network."""
        if self.path:
            asked = [self.scheme, address, str(self.port), self.path, *self.headers]
            return [*network, sys.executable, "-I", "-S", "-c", _GET, *asked]
        return [*network, "bash", "-c", f": < /dev/tcp/{address}/{self.port}"]


def probe(data: Mapping[Any, Any], kind: Kind) -> Probe | None:
    """A container's probe; None where it has none, or one that cannot be asked."""
    given = data.get(FIELDS[kind])
    if not isinstance(given, dict):
        return None
    asked = _asked(data, given)
    if asked is None:
        return None
    grace = count(given.get("terminationGracePeriodSeconds"))
    return replace(
        asked,
        period=float(count(given.get("periodSeconds")) or 10),
        delay=float(count(given.get("initialDelaySeconds")) or 0),
        timeout=float(count(given.get("timeoutSeconds")) or 1),
        failures=count(given.get("failureThreshold")) or 3,
        grace=None if grace is None or kind == "readiness" else float(grace),
    )


def _asked(data: Mapping[Any, Any], given: Mapping[Any, Any]) -> Probe | None:
    """What a probe asks, whenever it does."""
    if command := tuple(str(word) for word in sequence(mapping(given.get("exec")).get("command"))):
        return Probe(command=command)
    for action in ("tcpSocket", "httpGet", "grpc"):
        asked = given.get(action)
        if not isinstance(asked, dict) or (port := _port(data, asked.get("port"))) is None:
            continue
        if action != "httpGet":
            return Probe(port=port)
        path, headers = text(asked.get("path")), [each for _, each in entries(asked.get("httpHeaders"))]
        return Probe(
            port=port,
            path=path if path.startswith("/") else f"/{path}",
            scheme=text(asked.get("scheme")) or "HTTP",
            headers=tuple(f"{text(each.get('name'))}={text(each.get('value'))}" for each in headers),
        )
    return None


def _port(data: Mapping[Any, Any], named: Any) -> int | None:
    for _, port in entries(data.get("ports")):
        if port.get("name") == named:
            return count(port.get("containerPort"))
    return count(named)


@dataclass(frozen=True, slots=True)
class Condemned:
    """A container that a probe ended."""

    kind: Kind
    probe: Probe
    after: float
    """Seconds that it had run."""


@dataclass(slots=True)
class _Asked:
    kind: Kind
    probe: Probe
    next_at: float
    running: "subprocess.Popen[bytes] | None" = None
    since: float = 0.0
    failures: int = 0
    """In a row."""

    def answer(self) -> bool | None:
        """Whether all is well; None where nobody has answered yet."""
        if self.running is None:
            return None
        code = self.running.poll()
        if code is None and time.monotonic() - self.since > max(self.probe.timeout, PATIENT_SECONDS):
            self.running.kill()
            code = self.running.wait() or 1
        if code is None:
            return None
        self.running = None
        self.failures = 0 if code == 0 else self.failures + 1
        return code == 0


@dataclass(slots=True)
class Watch:
    """The probes of one run of a container."""

    wanted: Mapping[Kind, Probe]
    began: float = field(default_factory=time.monotonic)
    asked: dict[Kind, _Asked] = field(default_factory=dict)
    started: bool = False
    ready: bool = False

    def __post_init__(self) -> None:
        for kind, each in self.wanted.items():
            delay = each.delay if kind == "liveness" else min(each.delay, HURRY_SECONDS)
            self.asked[kind] = _Asked(kind, each, self.began + delay)
        self.started = "startup" not in self.wanted
        self.ready = "readiness" not in self.wanted

    def advance(self, ask: Callable[[Probe], "subprocess.Popen[bytes]"]) -> Condemned | None:
        """Hear what was answered and ask what is due; the probe that ends the container, if one does.

        A startup probe is asked more often than it says, so that no time is lost, and fails no earlier for it.
        """
        now = time.monotonic()
        for kind, each in self.asked.items():
            if self.started == (kind == "startup"):
                continue
            good = each.answer()
            if good is not None:
                hurried = min(each.probe.period, HURRY_SECONDS)
                each.next_at = now + (each.probe.period if kind == "liveness" else hurried)
            if good is not None and kind == "readiness":
                self.ready = good or (self.ready and each.failures < each.probe.failures)
            elif good and kind == "startup":
                self.started = True
            elif good is False and self._is_the_end(each, now):
                return Condemned(kind, each.probe, now - self.began)
            if each.running is None and now >= each.next_at and self.started != (kind == "startup"):
                each.running, each.since = ask(each.probe), now
        return None

    def _is_the_end(self, each: _Asked, now: float) -> bool:
        if each.kind == "startup":
            patience = each.probe.delay + each.probe.period * (each.probe.failures - 1)
            return each.failures >= each.probe.failures and now - self.began >= patience
        return each.failures >= each.probe.failures

    def close(self) -> None:
        """Ask no more."""
        for each in self.asked.values():
            if each.running is not None:
                each.running.kill()
                each.running.wait()
                each.running = None
