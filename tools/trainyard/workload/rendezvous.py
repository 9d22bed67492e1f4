"""Where ranks meet: the host and port that every pod of a job dials first."""

from dataclasses import dataclass

from trainyard.workload.model import Launch, Setting
from trainyard.workload.plain import digits
from trainyard.workload.services import endpoint

_DEFAULT_PORTS = {"c10d": 29400, "etcd": 2379, "etcd-v2": 2379}
"""Of torchrun's backends where the endpoint names none; the static backend has none and stops."""
_STATIC_PORT = 29500
_ADDRESSES = {
    "deepspeed": ("master_addr", "master_port"),
    "accelerate": ("main_process_ip", "main_process_port"),
    "python": ("master_addr", "master_port"),
}


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The meeting point of a launch."""

    backend: str
    """static, c10d, etcd or etcd-v2; static for launchers other than torchrun."""
    host: Setting
    """The host name or address; value None where it is not known."""
    port: Setting
    """The port, an int; value None where it is not known, implied where the launcher's default holds."""


def rendezvous(launch: Launch) -> Rendezvous | None:
    """Where the ranks of a launch meet; None where the launcher finds its peers in another way, or nothing says."""
    if launch.launcher == "torchrun":
        return _torchrun(launch)
    if launch.launcher not in _ADDRESSES:
        return None
    address, port = (launch.option(name) for name in _ADDRESSES[launch.launcher])
    if address is None:
        return None
    if port is None:
        return Rendezvous("static", address, Setting(_STATIC_PORT, address.spot, implied=True))
    return Rendezvous("static", address, Setting(_number(port), port.spot, port.implied))


def _torchrun(launch: Launch) -> Rendezvous | None:
    backend, meeting = launch.option("rdzv_backend"), launch.option("rdzv_endpoint")
    if backend is None or meeting is None or not isinstance(backend.value, str) or meeting.value == "":
        return None
    if not isinstance(meeting.value, str):
        nothing = Setting(None, meeting.spot, meeting.implied)
        return Rendezvous(backend.value, nothing, nothing)
    found = endpoint(meeting.value)
    host = Setting(found.host, meeting.spot, meeting.implied)
    address, port = launch.option("master_addr"), launch.option("master_port")
    if address is not None and port is not None and address.spot == meeting.spot:
        return Rendezvous(backend.value, host, Setting(found.port, port.spot, port.implied))
    if found.port is not None:
        return Rendezvous(backend.value, host, Setting(found.port, meeting.spot, meeting.implied))
    default = _DEFAULT_PORTS.get(backend.value)
    return Rendezvous(backend.value, host, Setting(default, meeting.spot, implied=True))


def _number(port: Setting) -> int | None:
    return digits(port.value)
