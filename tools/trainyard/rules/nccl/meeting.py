"""How ranks find each other, and who else could: ids, ports, files beside the environment."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import Environment, assignments, environments, runs_torch
from trainyard.rules.common.variable_remedies import unsafely, unset
from trainyard.rules.common.volumes import mounts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import strings


@rule("NCL070", "communicator-id-fixed", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def communicator_id_fixed(workload: Workload) -> Iterator[Problem]:
    """NCCL_COMM_ID fixes the address at which communicators meet.

    PyTorch hands the address out through its store. A fixed one passes the store by: every communicator of the job,
    and every other job with the same manifest on that node, meets there.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_COMM_ID: "10.0.0.1:50000"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_SOCKET_IFNAME: eth0}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_COMM_ID: "10.0.0.1:50000"}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [mpirun], args: [-np, "8", train]}]}}}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-comm-id
    """
    for found in assignments(workload, "NCCL_COMM_ID"):
        if found.value and runs_torch(workload, found.container):
            yield Problem(
                f"NCCL_COMM_ID is {found.value}, so all communicators meet at one address, past PyTorch's store",
                found.spot,
                help="remove it",
                fix=unsafely(unset(found)),
            )


@rule("NCL071", "status-port-on-the-node", Severity.INFO, needs=Workload)
@once
def status_port_on_the_node(workload: Workload) -> Iterator[Problem]:
    """NCCL_RAS_ADDR fixes a port on the node's network.

    Two jobs on a node then want the same port, and the status service of the second does not start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_RAS_ADDR: "localhost:28028"}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_RAS_ENABLE: "0", GLOO_SOCKET_IFNAME: eth0}
        ---
        kind: Job
        spec: {template: {spec: {hostNetwork: true}}}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_RAS_ADDR: "localhost:28028"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ras-addr
    """
    for found in assignments(workload, "NCCL_RAS_ADDR"):
        if found.value and found.pod_set.host_network:
            yield Problem(
                f"NCCL_RAS_ADDR is {found.value} on the node's network, where another job may have the port",
                found.spot,
                help="give each job a port of its own, or leave the node's network",
            )


@rule("NCL072", "settings-file-overruled", Severity.INFO, needs=Workload)
@once
def settings_file_overruled(workload: Workload) -> Iterator[Problem]:
    """A variable is set both in the environment and in the file that NCCL_CONF_FILE names.

    The environment wins. Whoever edits the file wonders why nothing changes.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CONF_FILE: /etc/nccl/nccl.conf, NCCL_IB_TIMEOUT: "22"}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: nccl-conf, namespace: research}
        data: {nccl.conf: "NCCL_IB_TIMEOUT=20"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, volumeMounts: [{name: conf, mountPath: /etc/nccl}]}]
              volumes: [{name: conf, configMap: {name: nccl-conf}}]
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "22"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_CONF_FILE: /etc/nccl/nccl.conf}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    for each in environments(workload):
        for line in _settings_file(workload, each).splitlines():
            name, equals, value = (part.strip() for part in line.partition("="))
            found = each.get(name) if equals and not line.lstrip().startswith("#") else None
            if found is not None and found.value is not None and found.value != value:
                yield Problem(
                    f"{name} is {found.value}, and {value} in the file of NCCL_CONF_FILE, which it overrules",
                    found.spot,
                    help="keep it in one of the two places",
                )


def _settings_file(workload: Workload, each: Environment) -> str:
    """The text of the file that NCCL_CONF_FILE names, where a ConfigMap holds it."""
    path = each.get("NCCL_CONF_FILE")
    if path is None or not path.value:
        return ""
    for mount in mounts(each.pod_set):
        if mount.container is each.container and mount.volume.source == "configMap":
            for item in workload.of_kind("ConfigMap"):
                for key, content in strings(item.data.get("data")).items():
                    if item.name == mount.volume.data.get("name") and str(mount.path / key) == path.value:
                        return content
    return ""
