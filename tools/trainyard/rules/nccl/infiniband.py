"""Settings of InfiniBand and RoCE: what they do to each other, and which of them NCCL chooses better itself."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy
from trainyard.rules.common.counts import number
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import is_rdma, may_reach_rdma, rdma_devices, single_pod
from trainyard.rules.common.settings import Assignment, Environment, assignments, environments
from trainyard.rules.common.variable_remedies import all_unset, assigned, beside, unsafely, unset
from trainyard.rules.nccl.image import release
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import digits

_TUNING = (
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SL",
    "NCCL_IB_ADAPTIVE_ROUTING",
)
_SELECTORS = ("NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE")
_NETDEV = re.compile(r"(eth\d*|en[opsx]\w+|eno\d+|ens\d\w*|enp\w+|bond\d+|ib\d+|em\d+|lo|docker\d*|hsn\d+|net\d+)\Z")
_NUMBERED = re.compile(r"(?P<family>[a-z]+\d*_)(?P<index>\d{1,3})\Z")
_DEVICE = re.compile(r"(mlx[45]_\w*|(?!mlx[45])\w*)\d\Z")
"""The whole name of one adapter; mlx5 alone is a prefix of all."""
_EXTERNAL = re.compile(r"nvcr\.io/nvidia/|hpc-?x", re.IGNORECASE)
_PATIENCE_US = 4.096
_LONGEST_TIMEOUT = 23


@rule("NCL010", "gid-index-pinned", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def gid_index_pinned(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_GID_INDEX fixes the index of the RoCE address.

    Since 2.21 NCCL finds the address itself, by NCCL_IB_ROCE_VERSION_NUM, NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE,
    which it ignores where the index is set. The index of the wanted address differs between hosts, and with SR-IOV
    between pods: 3 is right on some hosts only, and 0 or 1 is often link-local or RoCE v1. A wrong one cannot connect.
    On the node's own network a vendor's index may be right, and is not reported.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_GID_INDEX: "3"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_ROCE_VERSION_NUM: "2"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_GID_INDEX: "-1"}

    Source: https://github.com/NVIDIA/nccl/issues/1573
    """
    image = release(workload)
    if image is not None and image < (2, 21):
        return
    for each in environments(workload):
        found = each.get("NCCL_IB_GID_INDEX")
        if found is None or found.integer is None or found.integer < 0 or not each.runs_ranks:
            continue
        if each.pod_set.host_network:
            continue
        ignored = [other for name in _SELECTORS if (other := each.get(name)) is not None and other.value]
        also = f", and {ignored[0].name} is ignored beside it" if ignored else ""
        yield Problem(
            f"NCCL_IB_GID_INDEX is fixed at {found.value}, but the index differs between hosts and pods{also}",
            found.spot,
            related=tuple(other.spot.saying("ignored where an index is set") for other in ignored),
            help="remove it: NCCL 2.21 and later choose the address themselves",
            fix=unsafely(unset(found)),
        )


@rule("NCL027", "tuned-while-off", Severity.WARNING, needs=Workload, fix="safe")
@once
def tuned_while_off(workload: Workload) -> Iterator[Problem]:
    """InfiniBand is switched off, and tuned.

    NCCL_IB_DISABLE=1 is set to look for a fault, and then forgotten: what stands beside it has no effect, and the
    traffic goes over TCP.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "1", NCCL_IB_TIMEOUT: "22"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "0", NCCL_IB_TIMEOUT: "22"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_DISABLE: "1", NCCL_SOCKET_NTHREADS: "4", NCCL_IB_HCA: null}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {$replace: {limits: {nvidia.com/gpu: 8}}}}]}}}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-disable
    """
    if rdma_devices(workload):
        return
    for each in environments(workload):
        off = each.get("NCCL_IB_DISABLE")
        dead = [found for name in _TUNING if (found := each.get(name)) is not None and found.value]
        if off is not None and off.integer not in (None, 0) and dead:
            yield Problem(
                f"NCCL_IB_DISABLE is {off.value}, so {dead[0].name} has no effect",
                off.spot.saying("InfiniBand is off"),
                related=tuple(found.spot.saying("no effect") for found in dead),
                help="remove the switch, or the settings",
                fix=_forgotten(dead),
            )


@rule("NCL028", "external-plugin-still-on", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def external_plugin_still_on(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_DISABLE is meant to force TCP, but the plugin in the image has a switch of its own.

    NVIDIA's images carry the RDMA and SHARP plugin, which NCCL prefers to its own InfiniBand code, and which reads
    NCCL_IBEXT_DISABLE. RDMA stays on, and a comparison "without InfiniBand" is none.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null, NCCL_IB_HCA: null, GLOO_SOCKET_IFNAME: eth0, NCCL_IB_DISABLE: "1"}
        ---
        kind: Job
        spec:
          template:
            spec:
              hostNetwork: true
              containers:
              - name: trainer
                image: nvcr.io/nvidia/pytorch:24.08-py3
                resources: {$replace: {limits: {nvidia.com/gpu: 8}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data:
          {NCCL_NET: null, NCCL_IB_HCA: null, GLOO_SOCKET_IFNAME: eth0, NCCL_IB_DISABLE: "1", NCCL_IBEXT_DISABLE: "1"}
        ---
        kind: Job
        spec:
          template:
            spec:
              hostNetwork: true
              containers:
              - name: trainer
                image: nvcr.io/nvidia/pytorch:24.08-py3
                resources: {$replace: {limits: {nvidia.com/gpu: 8}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_NET: null, NCCL_IB_HCA: null, GLOO_SOCKET_IFNAME: eth0, NCCL_IB_DISABLE: "1", NCCL_NET_PLUGIN: none}
        ---
        kind: Job
        spec:
          template:
            spec:
              hostNetwork: true
              containers:
              - name: trainer
                image: nvcr.io/nvidia/pytorch:24.08-py3
                resources: {$replace: {limits: {nvidia.com/gpu: 8}}}

    Source: https://github.com/NVIDIA/nccl-tests/issues/373
    """
    if rdma_devices(workload) or not may_reach_rdma(workload):
        return
    for each in environments(workload):
        off, plugin, net = each.get("NCCL_IB_DISABLE"), each.get("NCCL_NET_PLUGIN"), each.get("NCCL_NET")
        if off is None or off.integer in (None, 0) or not each.lacks("NCCL_IBEXT_DISABLE") or net is not None:
            continue
        if plugin is not None and (plugin.value or "none").lower() == "none":
            continue
        if _EXTERNAL.search(each.container.image):
            yield Problem(
                "NCCL_IB_DISABLE does not switch off the RDMA plugin of the image",
                off.spot.saying("read by NCCL alone"),
                related=(each.container.spot.below("image", label="carries the plugin"),),
                help="set NCCL_IBEXT_DISABLE to 1 too, or NCCL_NET to Socket",
                fix=unsafely(beside(off, "NCCL_IBEXT_DISABLE", "1")),
            )


@rule("NCL029", "adapter-list", Severity.WARNING, needs=Workload, fix="safe")
@once
def adapter_list(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_HCA names network interfaces, or prefixes that take more adapters than were meant.

    It lists RDMA devices (mlx5_0, as ibv_devices shows them), not interfaces such as eth0: NCCL finds none of that
    name and takes TCP. Without a leading `=` a name is a prefix, and mlx5_1 takes mlx5_10 to mlx5_19 too, which are
    often storage ports.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "ib0,ib1"}
    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "mlx5_0,mlx5_1,mlx5_10,mlx5_12"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "=mlx5_0,mlx5_1,mlx5_10"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "mlx5_0,mlx5_bond_0"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca
    """
    for found in assignments(workload, "NCCL_IB_HCA"):
        names = _adapters(found)
        netdevs = [name for name in names if _NETDEV.match(name)]
        wide = "" if (found.value or "").startswith(("=", "^")) else _taken_too(names)
        if netdevs:
            yield Problem(
                f"NCCL_IB_HCA is {found.value}, but {netdevs[0]} is a network interface and no RDMA device",
                found.spot,
                help="name RDMA devices as ibv_devices lists them, such as mlx5_0",
            )
        elif wide:
            yield Problem(
                f"NCCL_IB_HCA is {found.value}, and its prefixes take {wide} too",
                found.spot,
                help=f"write ={found.value} for these devices and no others",
                fix=assigned(found, f"={found.value}"),
            )


@rule("NCL030", "adapter-count", Severity.WARNING, needs=Workload)
@once
def adapter_count(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_HCA lists another number of adapters than the pods get, or than another role lists.

    Ranks that see fewer NICs than their peers build unequal rings: an error at the start in some releases, a hang in
    others.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "=mlx5_0,mlx5_1"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {rdma/hca: 8}}}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: "=mlx5_0,mlx5_1"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {rdma/hca: 2}}}]}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_HCA: mlx5}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, resources: {limits: {rdma/hca: 8}}}]}}}

    Source: https://github.com/NVIDIA/nccl/issues/2428
    """
    lists: dict[int, Assignment] = {}
    for each in environments(workload):
        found = each.get("NCCL_IB_HCA")
        names = [] if found is None else _adapters(found)
        if found is None or not names or not all(_DEVICE.match(name) for name in names):
            continue
        for name, limit in each.container.limits.items():
            asked = digits(str(limit.value)) or 0
            if is_rdma(name) and "shared" not in name and asked > 1 and asked != len(names):
                yield Problem(
                    f"NCCL_IB_HCA lists {number(len(names), 'adapter')}, but the container requests {name}: {asked}",
                    found.spot,
                    related=(limit.spot,),
                    help="list all of them, or request as many as are listed",
                )
        other = lists.setdefault(len(names), found)
        different = next((theirs for count, theirs in lists.items() if count != len(names)), None)
        if other is found and different is not None:
            yield Problem(
                f"NCCL_IB_HCA lists {number(len(names), 'adapter')} in {found.pod_set.role}"
                f" and {len(_adapters(different))} in {different.pod_set.role}",
                found.spot,
                related=(different.spot,),
                help="list as many adapters in every role",
            )


@rule("NCL031", "timeout-too-long", Severity.WARNING, needs=Workload)
@once
def timeout_too_long(workload: Workload) -> Iterator[Problem]:
    """NCCL_IB_TIMEOUT makes each retry wait for minutes.

    Each retry waits for 4.096 microseconds x 2^value: 4 seconds at 20, the default, and nine minutes at 27. A dead link
    then looks like a hang for an hour.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "27"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "20"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "23"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-timeout
    """
    for each in environments(workload):
        found, retries = each.get("NCCL_IB_TIMEOUT"), each.get("NCCL_IB_RETRY_CNT")
        if found is None or found.integer is None or not _LONGEST_TIMEOUT < found.integer < 32:
            continue
        seconds = _PATIENCE_US * 2**found.integer / 1_000_000
        times = retries.integer if retries is not None and retries.integer else 7
        yield Problem(
            f"NCCL_IB_TIMEOUT is {found.value}: 4.096 us x 2^{found.value} = {seconds:.0f} s per try,"
            f" {seconds * (times + 1) / 60:.0f} minutes until a dead link is an error",
            found.spot,
            help="leave it at 20, or raise it to 22 or 23 on a large fabric",
        )


def _forgotten(dead: list[Assignment]) -> Remedy | None:
    remedy = all_unset(*dead)
    return None if remedy is None else remedy.saying("remove the settings, which have no effect")


def _adapters(found: Assignment) -> list[str]:
    """The devices of a list, without ports; empty for an exclusion and for what is not known."""
    value = found.value or ""
    names = [] if value.startswith("^") else value.removeprefix("=").split(",")
    return [device for name in names if (device := name.partition(":")[0])]


def _taken_too(names: list[str]) -> str:
    """A device that a prefix takes though it is not listed, where the list shows that a node has ten and more."""
    listed = [match for name in names if (match := _NUMBERED.match(name))]
    highest = max((int(match["index"]) for match in listed), default=0)
    for match in listed:
        for index in range(10, highest + 1):
            name = f"{match['family']}{index}"
            if name not in names and name.startswith(match[0]):
                return name
    return ""


def is_roce(workload: Workload, each: Environment) -> bool:
    """Whether the adapters are certainly RoCE: settings that mean nothing elsewhere, or the fabric's name."""
    index = each.get("NCCL_IB_GID_INDEX")
    fabric = workload.fabric.name if workload.fabric is not None else ""
    pinned = index is not None and index.integer is not None and index.integer >= 0
    return pinned or each.get(*_SELECTORS) is not None or "roce" in fabric


def over_infiniband(workload: Workload, each: Environment) -> bool:
    """Whether NCCL goes over RDMA devices that the pods request."""
    off = each.get("NCCL_IB_DISABLE")
    return not single_pod(workload) and bool(rdma_devices(workload)) and (off is None or not off.is_on)
