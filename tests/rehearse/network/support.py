"""Pods in a rehearsed network, and programs that run in them."""

import subprocess
import sys
from typing import Any

from trainyard.rehearse.network import Network, NetworkPlan, PodSpot

JOB = {"trainyard.dev/job": "gpt"}


def pod(index: int, **details: Any) -> PodSpot:
    """One rank of a job as an Indexed Job makes it."""
    given = {
        "namespace": "research",
        "name": f"gpt-{index}-x7k2p",
        "labels": JOB,
        "node": f"node-{index}",
        "hostname": f"gpt-{index}",
        "subdomain": "gpt",
    }
    return PodSpot(**{**given, **details})


def service(name: str = "gpt", **spec: Any) -> dict[str, Any]:
    """A headless Service, unless `spec` says otherwise."""
    defaults = {"clusterIP": "None", "selector": JOB, "ports": [{"name": "rdzv", "port": 29400}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {**defaults, **spec},
    }


def policy(name: str, **spec: Any) -> dict[str, Any]:
    """A NetworkPolicy of the namespace `research`."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "research"},
        "spec": spec,
    }


def plan(*pods: PodSpot, **details: Any) -> NetworkPlan:
    """A plan of these pods."""
    return NetworkPlan(pods, **details)


def command(network: Network, pod: PodSpot, argv: list[str]) -> list[str]:
    """What runs `argv` in a pod with its own resolver settings and hosts file."""
    mounts = ["--ro-bind", str(network.resolv_conf(pod)), "/etc/resolv.conf"]
    mounts += ["--ro-bind", str(network.hosts(pod)), "/etc/hosts"]
    return [*network.argv(pod), "bwrap", "--dev-bind", "/", "/", *mounts, "--die-with-parent", "--", *argv]


def run(network: Network, pod: PodSpot, code: str, *arguments: str) -> str:
    """What a Python program prints in a pod."""
    argv = command(network, pod, [sys.executable, "-c", code, *arguments])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def start(network: Network, pod: PodSpot, code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python program in a pod that has printed a first line and goes on."""
    argv = command(network, pod, [sys.executable, "-u", "-c", code, *arguments])
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


LISTEN = """
import socket, sys, threading
def serve(port):
    server = socket.create_server(("", port), backlog=128)
    while True:
        here, peer = server.accept()
        here.sendall(peer[0].encode())
        here.close()
for port in sys.argv[1:]:
    threading.Thread(target=serve, args=(int(port),)).start()
print("ready", flush=True)
"""
"""Listens on TCP ports and tells each caller its address."""

DIAL = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(*sys.argv[3:] or [30])) as here:
        print(here.recv(99).decode())
except OSError as error:
    print(type(error).__name__)
"""
"""Prints what such a server says, or the error's type: TimeoutError after a number of seconds, 30 unless told."""
HANGS = "0.5"
"""Seconds for what never answers."""

TALK = """
import socket
here = socket.create_connection(("gpt-1.gpt", 29401))
print("ready")
while True:
    input()
    here.sendall(b"x")
    print(here.recv(1).decode(), flush=True)
"""
"""Sends a byte to an echo of the second rank for each line that it reads, and prints what comes back."""

ECHO = """
import socket
server = socket.create_server(("", 29401))
print("ready")
here, _ = server.accept()
while True:
    here.sendall(here.recv(1))
"""

RESOLVE = """
import socket, sys
for name in sys.argv[1:]:
    try:
        print(*sorted({each[4][0] for each in socket.getaddrinfo(name, None)}))
    except OSError as error:
        print(error.strerror)
"""
"""Prints the addresses of each name, or the error."""
