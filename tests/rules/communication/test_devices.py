"""Settings against what the pods get: RDMA devices, EFA, TCPX, files."""

from textwrap import dedent

import pytest

from tests.rules.communication.jobs import MASTER_ENV, MPI, PYTORCH
from tests.rules.judging import judge, judge_good_job_with

NO_NET = """
kind: ConfigMap
metadata: {name: llama-sft-nccl}
data: {NCCL_NET: null}
"""
NO_RDMA = """
kind: Job
spec: {template: {spec: {%scontainers: [{name: trainer, %sresources: {$replace: {limits: {nvidia.com/gpu: 8%s}}}}]}}}
"""
TCPX = """
apiVersion: batch/v1
kind: Job
metadata: {name: sft, namespace: research}
spec:
  template:
    metadata:
      annotations: {networking.gke.io/interfaces: '[{"interfaceName":"eth0","network":"default"},
        {"interfaceName":"eth1","network":"vpc1"}]'}
    spec:
      containers:
      - name: trainer
        image: registry.example.com/train:1
        command: [torchrun, train.py]
        env:
        - {name: NCCL_GPUDIRECTTCPX_SOCKET_IFNAME, value: "%s"}
        - {name: NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX, value: /run/tcpx}
        resources: {limits: {nvidia.com/gpu: 8}}
        volumeMounts: [{name: socket, mountPath: /run/tcpx}]
      - name: tcpx-daemon
        image: registry.example.com/tcpgpudmarxd:1
        volumeMounts: [{name: %s, mountPath: /run/tcpx}]
      volumes: [{name: socket, emptyDir: {}}, {name: other, emptyDir: {}}]
"""
TCPX_ENV = "Job/sft spec.template.spec.containers[0].env"


def test_infiniband_settings_without_a_device_are_told_once() -> None:
    rank_settings = NO_RDMA % ("", "env: [{name: NCCL_IB_GID_INDEX, value: '3'}], ", "")
    assert judge_good_job_with("NCL004", f"{NO_NET}---{rank_settings}") == [
        "warning: NCCL_IB_HCA is mlx5, but no pod requests an RDMA device @ ConfigMap/llama-sft-nccl data.NCCL_IB_HCA"
    ]


@pytest.mark.parametrize(
    ("pod", "container", "limits"),
    [
        ("hostNetwork: true, ", "", ""),
        ("resourceClaims: [{name: nics}], ", "", ""),
        ("volumes: [{name: ib, hostPath: {path: /dev/infiniband}}], ", "", ""),
        ("", "securityContext: {privileged: true}, ", ""),
        ("", "", ", vendor.example.com/nic: 8"),
    ],
    ids=["host network", "resource claim", "host path", "privileged", "unknown device"],
)
def test_pods_that_may_reach_a_device_some_other_way(pod: str, container: str, limits: str) -> None:
    assert judge_good_job_with("NCL004", f"{NO_NET}---{NO_RDMA % (pod, container, limits)}") == []


def test_a_worker_s_device_counts_for_what_the_launcher_exports() -> None:
    assert judge("NCL004", MPI % ("-x, NCCL_IB_HCA=mlx5", ", rdma/hca: 1")) == []
    assert judge("NCL003", MPI % ("-x, NCCL_IB_DISABLE=1", ", rdma/hca: 1")) == [
        "error: NCCL_IB_DISABLE is 1, but the pods request rdma/hca: 1"
        " @ MPIJob/bench spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[6]"
    ]


def test_infiniband_switched_off_does_not_reach_efa() -> None:
    efa = ", vpc.amazonaws.com/efa: 4"
    assert judge("NCL003", MPI % ("-x, NCCL_IB_DISABLE=1", efa)) == []
    assert len(judge("NCL003", MPI % ("-x, NCCL_NET=Socket", efa))) == 1
    assert len(judge("NCL003", MPI % ("-x, FI_PROVIDER=tcp", efa))) == 1


def test_efa_needs_no_lock_capability() -> None:
    assert judge("NCL016", MPI % ("-x, NCCL_DEBUG=WARN", ", vpc.amazonaws.com/efa: 4")) == []


def test_a_role_without_efa() -> None:
    efa = "{name: FI_PROVIDER, value: efa}"
    with_device = PYTORCH.replace(
        "limits: {nvidia.com/gpu: 8}", "limits: {nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 4}", 1
    )
    assert judge("ENV011", with_device % (efa, efa, "")) == [
        "error: FI_PROVIDER is efa, but worker does not request vpc.amazonaws.com/efa"
        f" @ {MASTER_ENV.replace('Master', 'Worker')}[FI_PROVIDER].value"
    ]


def test_adapters_that_roles_count_differently() -> None:
    two, one = "{name: NCCL_IB_HCA, value: '=mlx5_0,mlx5_1'}", "{name: NCCL_IB_HCA, value: '=mlx5_0'}"
    assert judge("NCL030", PYTORCH % (two, one, "")) == [
        "warning: NCCL_IB_HCA lists 1 adapter in worker and 2 in master"
        f" @ {MASTER_ENV.replace('Master', 'Worker')}[NCCL_IB_HCA].value"
    ]
    assert judge("NCL030", PYTORCH % (two, two, "")) == []


def test_files_that_a_config_map_lacks() -> None:
    job = """
    kind: ConfigMap
    metadata: {name: llama-sft-nccl}
    data: {NCCL_TOPO_FILE: /etc/topology/%s}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: topology, namespace: research}
    data: {node.xml: "<system/>"}
    ---
    kind: Job
    spec:
      template:
        spec:
          containers: [{name: trainer, volumeMounts: [{name: topology, mountPath: /etc/topology}]}]
          volumes: [{name: topology, configMap: {name: topology}}]
    """
    job = dedent(job)
    assert judge_good_job_with("NCL048", job % "nodes.xml") == [
        "warning: NCCL_TOPO_FILE is /etc/topology/nodes.xml, and ConfigMap topology has no key nodes.xml"
        " @ ConfigMap/llama-sft-nccl data.NCCL_TOPO_FILE"
    ]
    assert judge_good_job_with("NCL048", job % "node.xml") == []


def test_the_parts_of_tcpx() -> None:
    assert judge("NCL069", TCPX % ("eth1", "socket")) == []
    assert judge("NCL069", TCPX % ("eth1,eth2", "socket")) == [
        "error: NCCL_GPUDIRECTTCPX_SOCKET_IFNAME lists eth2, which networking.gke.io/interfaces does not give the pod"
        f" @ {TCPX_ENV}[NCCL_GPUDIRECTTCPX_SOCKET_IFNAME].value"
    ]
    assert judge("NCL069", TCPX % ("eth1", "other")) == [
        "error: NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX is /run/tcpx, which the daemon does not share"
        f" @ {TCPX_ENV}[NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX].value"
    ]
