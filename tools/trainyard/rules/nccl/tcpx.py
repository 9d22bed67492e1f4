"""GPUDirect-TCPX and TCPXO, Google's transports: their daemon, their interfaces, their profile."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import annotations
from trainyard.rules.common.settings import Assignment, Environment, environments
from trainyard.rules.common.volumes import mounts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, PodSet, Workload

_FASTRAK, _TCPX = "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_"
_PROFILES = ("nccl-env-profile", "set_nccl_env")
_NOT_IN_PROFILE = frozenset({"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "NCCL_LIB_DIR"})
_DAEMON = re.compile(r"tcpgpudmarxd|rxdm|tcpxo?-daemon", re.IGNORECASE)
_INTERFACES = "networking.gke.io/interfaces"
_NAME = re.compile(r'"interfaceName"\s*:\s*"([^"]+)"')
_LISTS = (
    "NCCL_FASTRAK_IFNAME",
    "NCCL_FASTRAK_CTRL_DEV",
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
    "NCCL_GPUDIRECTTCPX_CTRL_DEV",
)
_PREFIX = "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"


@rule("NCL068", "tcpxo-profile-by-hand", Severity.WARNING, needs=Workload)
@once
def tcpxo_profile_by_hand(workload: Workload) -> Iterator[Problem]:
    """The settings of GPUDirect-TCPXO are copied by hand.

    The plugin checks them against a list of its own release and stops the job where one is missing, surplus or
    different. The installer puts the right ones beside the plugin: nccl-env-profile.sh, to be sourced before the
    launcher starts.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_FASTRAK_CTRL_DEV: eth0, NCCL_FASTRAK_USE_LLCM: "1"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY: /dev/aperture_devices}
        ---
        kind: Job
        spec:
          template:
            spec:
              initContainers:
              - {name: tcpxo-daemon, image: "registry.example.com/tcpgpudmarxd:1", restartPolicy: Always}
              containers:
              - name: trainer
                command: [bash, -c]
                args: [source /usr/local/nvidia/lib64/nccl-env-profile.sh && exec torchrun -m trainer]
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_FASTRAK_CTRL_DEV: eth0}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c]
                args: [. /usr/local/nvidia/lib64/nccl-env-profile.sh; exec torchrun -m trainer]

    Source: https://github.com/NVIDIA/aicr/pull/422
    """
    for each in environments(workload):
        by_hand = [name for name in each.variables if name.startswith(_FASTRAK) and name not in _NOT_IN_PROFILE]
        if not by_hand or _sources_profile(each.container):
            continue
        first, *others = (each.variables[name] for name in by_hand)
        daemon = next((spot for spot in _daemons(each.pod_set)), None)
        yield Problem(
            f"{first.name} and {len(others)} more of TCPXO are set by hand, and its plugin takes those of its own"
            " release alone"
            if others
            else f"{first.name} is set by hand, and TCPXO's plugin takes the settings of its own release alone",
            first.spot,
            related=() if daemon is None else (daemon[1].saying("the release that checks them"),),
            help="source nccl-env-profile.sh, which lies beside the plugin, and remove the copies",
        )


@rule("NCL069", "tcpx-wiring", Severity.ERROR, needs=Workload)
@once
def tcpx_wiring(workload: Workload) -> Iterator[Problem]:
    """GPUDirect-TCPX or TCPXO is set up, but a part of it is not in the pod.

    The plugin needs the receive daemon beside it, a socket directory that both see, and every interface that it
    lists among those of the pod. Without one of them NCCL goes over plain TCP, at a few GB/s, or stops.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_GPUDIRECTTCPX_SOCKET_IFNAME: "eth1,eth2"}
        ---
        kind: Job
        spec:
          template:
            metadata:
              annotations:
                networking.gke.io/interfaces: |
                  [{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"vpc1"},
                   {"interfaceName":"eth2","network":"vpc2"}]
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_GPUDIRECTTCPX_SOCKET_IFNAME: "eth1,eth2"}
        ---
        kind: Job
        spec:
          template:
            metadata:
              annotations:
                networking.gke.io/interfaces: |
                  [{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"vpc1"},
                   {"interfaceName":"eth2","network":"vpc2"}]
            spec:
              initContainers:
              - {name: tcpx-daemon, image: "registry.example.com/tcpgpudmarxd:1", restartPolicy: Always}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_LIB_DIR: /usr/local/nvidia/lib64}

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx
    """
    for each in environments(workload):
        used = next((each.variables[name] for name in each.variables if name.startswith((_FASTRAK, _TCPX))), None)
        if used is None or not each.container.gpus:
            continue
        if not any(True for _ in _daemons(each.pod_set)):
            yield Problem(
                f"{used.name} is set, but no container of the pod runs the receive daemon",
                used.spot,
                help="add the tcpx-daemon or tcpxo-daemon sidecar of the plugin's release",
            )
            continue
        yield from _absent_interfaces(each)
        prefix = each.get(_PREFIX)
        if prefix is not None and prefix.value and not _shared_with_daemon(each, prefix.value):
            yield Problem(
                f"{_PREFIX} is {prefix.value}, which the daemon does not share",
                prefix.spot,
                help="mount one volume there in both containers",
            )


def _absent_interfaces(each: Environment) -> Iterator[Problem]:
    """Interfaces that a list names and the pod's annotation does not give."""
    written = annotations(each.pod_set).get(_INTERFACES)
    if written is None or each.pod_set.host_network:
        return
    given = set(_NAME.findall(written))
    for found in (listed for name in _LISTS if (listed := each.get(name)) is not None):
        absent = [name for name in _names(found) if given and name not in given]
        if absent:
            yield Problem(
                f"{found.name} lists {', '.join(absent)}, which {_INTERFACES} does not give the pod",
                found.spot,
                related=(each.pod_set.template.below("metadata", "annotations", _INTERFACES),),
                help="attach the interface, or list those that there are",
            )


def _names(found: Assignment) -> list[str]:
    return [name for name in (found.value or "").split(",") if name]


def _daemons(pod_set: PodSet) -> Iterator[tuple[Container, Spot]]:
    for container in (*pod_set.containers, *pod_set.init_containers):
        if _DAEMON.search(container.image) or _DAEMON.search(container.name):
            yield container, container.spot.below("image")


def _sources_profile(container: Container) -> bool:
    return any(name in word.text for word in container.words for name in _PROFILES)


def _shared_with_daemon(each: Environment, path: str) -> bool:
    """Whether the directory is one volume in both containers; init containers' mounts are read from the template."""
    volumes = {mount.volume.name for mount in mounts(each.pod_set) if mount.container is each.container}
    here = {
        mount.volume.name
        for mount in mounts(each.pod_set)
        if mount.container is each.container and path.rstrip("/").startswith(str(mount.path).rstrip("/"))
    }
    theirs = {str(mount.get("name")) for container, _ in _daemons(each.pod_set) for mount in _mounts_of(container)}
    return bool(here & theirs) or not volumes


def _mounts_of(container: Container) -> list[dict[str, object]]:
    listed = container.data.get("volumeMounts")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
