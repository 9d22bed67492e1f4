"""Probes are asked and judged as the kubelet does: thresholds, what waits for what, and what is asked."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from trainyard.rehearse.probes import Condemned, Kind, Probe, Watch, probe


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("exec: {command: [test, -e, /tmp/up]}", Probe(command=("test", "-e", "/tmp/up"))),
        ("{tcpSocket: {port: 22}, periodSeconds: 5}", Probe(port=22, period=5)),
        ("{httpGet: {port: health}, failureThreshold: 7}", Probe(port=8080, path="/", failures=7)),
        (
            "{httpGet: {port: 1, path: up, scheme: HTTPS, httpHeaders: [{name: A, value: b}]}, timeoutSeconds: 4}",
            Probe(port=1, path="/up", scheme="HTTPS", headers=("A=b",), timeout=4),
        ),
        (
            "{grpc: {port: 9}, initialDelaySeconds: 3, terminationGracePeriodSeconds: 0}",
            Probe(port=9, delay=3, grace=0),
        ),
        ("httpGet: {port: nobody}", None),
    ],
)
def test_what_is_asked(written: str, expected: Probe | None) -> None:
    data = {"livenessProbe": yaml.safe_load(written), "ports": [{"name": "health", "containerPort": 8080}]}

    assert probe(data, "liveness") == expected


def asking(folder: Path) -> Callable[[Probe], "subprocess.Popen[bytes]"]:
    """Asks by a real command, which is well while a file of the probe's name is there."""
    return lambda each: subprocess.Popen(["test", "-e", folder / each.command[0]])


def advanced(watch: Watch, folder: Path, until: Callable[[], bool]) -> Condemned | None:
    """Advance a watch until something holds or a probe ends the container."""
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end
        if (ended := watch.advance(asking(folder))) is not None:
            return ended
        time.sleep(0.005)
    return None


def wanted(**failures: int) -> dict[Kind, Probe]:
    kinds: tuple[Kind, ...] = ("startup", "liveness", "readiness")
    return {kind: Probe((kind,), period=0.02, failures=failures[kind]) for kind in kinds if kind in failures}


def test_a_liveness_probe_ends_its_container_when_it_fails_often_enough_in_a_row(tmp_path: Path) -> None:
    watch = Watch(wanted(liveness=3))
    (tmp_path / "liveness").touch()
    asked = time.monotonic() + 0.3
    assert advanced(watch, tmp_path, lambda: time.monotonic() > asked) is None

    (tmp_path / "liveness").unlink()
    ended = advanced(watch, tmp_path, lambda: False)

    assert ended is not None
    assert (ended.kind, ended.probe.failures) == ("liveness", 3)


def test_nothing_else_is_asked_before_the_startup_probe_succeeds(tmp_path: Path) -> None:
    watch = Watch(wanted(startup=10**6, liveness=1, readiness=1))
    asked = time.monotonic() + 0.2
    assert advanced(watch, tmp_path, lambda: time.monotonic() > asked) is None
    assert not watch.ready

    for kind in ("liveness", "readiness", "startup"):
        (tmp_path / kind).touch()

    assert advanced(watch, tmp_path, lambda: watch.started and watch.ready) is None


def test_a_startup_probe_that_never_succeeds_ends_its_container(tmp_path: Path) -> None:
    ended = advanced(Watch(wanted(startup=2)), tmp_path, lambda: False)

    assert ended is not None
    assert ended.kind == "startup"


def test_a_container_is_ready_until_its_readiness_probe_fails_often_enough(tmp_path: Path) -> None:
    watch = Watch(wanted(readiness=3))
    (tmp_path / "readiness").touch()
    assert advanced(watch, tmp_path, lambda: watch.ready) is None

    (tmp_path / "readiness").unlink()

    assert advanced(watch, tmp_path, lambda: not watch.ready) is None
    assert watch.asked["readiness"].failures >= 3
