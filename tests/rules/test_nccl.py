"""NCL rules on the good job with one setting changed, and on jobs of other kinds."""

import pytest

from tests.rules.judging import judge, judge_good_job_with, judge_variable

MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench, namespace: research}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: registry.example.com/bench:1
            command: [mpirun, -np, "16", -x, PATH, %s, all_reduce_perf]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: registry.example.com/bench:1
            resources: {limits: {nvidia.com/gpu: 8%s}}
"""
NO_RDMA = """
kind: Job
spec: {template: {spec: {%scontainers: [{name: trainer, %sresources: {$replace: {limits: {nvidia.com/gpu: 8%s}}}}]}}}
"""


@pytest.mark.parametrize(
    ("rule", "name", "value", "said"),
    [
        ("NCL001", "NCCL_P2P_DISABLE", "true", [
            'error: NCCL_P2P_DISABLE is a whole number, and "true" is read as 0 by'
            ' NCCL'
        ]),
        ("NCL001", "NCCL_NTHREADS", "auto", [
            'error: NCCL_NTHREADS is a whole number, and "auto" is read as 0 by'
            ' NCCL'
        ]),
        ("NCL001", "PET_STANDALONE", "yes", ['error: PET_STANDALONE is a whole number, and "yes" stops torchrun']),
        ("NCL001", "NCCL_P2P_DISABLE", "$(SWITCH)", []),
        ("NCL001", "NCCL_P2P_DISABLE", "${SWITCH}", []),
        ("NCL001", "NCCL_P2P_DISABLE", "{{ .Values.switch }}", []),
        ("NCL001", "NCCL_P2P_DISABLE", "", []),
        ("NCL001", "NCCL_P2P_DISABLE", "false", []),
        ("NCL018", "NCCL_P2P_DISABLE", "false", [
            'warning: NCCL_P2P_DISABLE is a whole number, and "false" is 0 by'
            ' luck'
        ]),
        ("NCL001", "TORCH_NCCL_ENABLE_MONITORING", "true", []),
        ("NCL002", "NCCL_SOKCET_IFNAME", "eth0", [
            "error: NCCL_SOKCET_IFNAME is read by nothing; NCCL_SOCKET_IFNAME is one that NCCL"
            " reads"
        ]),
        ("NCL002", "NCCL_IB_DISABLED", "1", [
            "error: NCCL_IB_DISABLED is read by nothing; NCCL_IB_DISABLE is one that NCCL"
            " reads"
        ]),
        ("NCL002", "NCCL_HOME", "/opt", []),
        ("NCL002", "NCCL_SITE_SCRIPT", "/opt", []),
        ("NCL002", "UCX_DC_TIMEOUT", "1s", []),
        ("NCL013", "NCCL_IB_DISABLED", "1", []),
        ("NCL013", "NCCL_TIMEOUT", "7200", ["warning: NCCL_TIMEOUT is read by no release"]),
        ("NCL013", "NCCL_TREE_THRESHOLD", "0", ["warning: NCCL_TREE_THRESHOLD is no longer read by NCCL since 2.5"]),
        ("NCL013", "NCCL_BLOCKING_WAIT", "1", ["warning: NCCL_BLOCKING_WAIT is deprecated by PyTorch since 2.2"]),
        ("NCL013", "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000", []),
        ("NCL005", "NCCL_BUFFSIZE", "8M", ['error: NCCL_BUFFSIZE is "8M", which NCCL reads as 8']),
        ("NCL005", "NCCL_BUFFSIZE", "4MiB", ['error: NCCL_BUFFSIZE is "4MiB", which NCCL reads as 4']),
        ("NCL005", "NCCL_BUFFSIZE", "1e6", ['error: NCCL_BUFFSIZE is "1e6", which NCCL reads as 1']),
        ("NCL005", "NCCL_IB_TC", "010", ['error: NCCL_IB_TC is "010", which NCCL reads as 8']),
        ("NCL005", "NCCL_BUFFSIZE", "0x800000", []),
        ("NCL005", "NCCL_BUFFSIZE", "0", []),
        ("NCL006", "NCCL_BUFFSIZE", "8M", []),
        ("NCL006", "NCCL_IB_TIMEOUT", "40", ['error: NCCL_IB_TIMEOUT is "40", which is above 31']),
        ("NCL006", "NCCL_PROTO", "LL64", [
            'error: NCCL_PROTO is "LL64", which holds LL64, which is none of LL, LL128,'
            ' Simple'
        ]),
        ("NCL006", "TORCH_NCCL_BLOCKING_WAIT", "enabled", [
            'error: TORCH_NCCL_BLOCKING_WAIT is "enabled", which is none of 0, 1, f, false, n, no, t, true,'
            ' y, yes'
        ]),
        ("NCL018", "NCCL_SOCKET_FAMILY", "ipv4", [
            'warning: NCCL_SOCKET_FAMILY is "ipv4", which is none of AF_INET,'
            ' AF_INET6'
        ]),
        ("NCL018", "NCCL_IB_RETRY_CNT", "14", ['warning: NCCL_IB_RETRY_CNT is "14", which is above 7']),
        ("NCL018", "NCCL_DEBUG", "warn", []),
        ("NCL007", "NCCL_DEBUG", "info", [
            "info: NCCL_DEBUG is info: every rank of 4 pods prints its topology at each"
            " start"
        ]),
        ("NCL010", "NCCL_IB_GID_INDEX", "3", [
            "warning: NCCL_IB_GID_INDEX is fixed at 3, but the index differs between hosts and"
            " pods"
        ]),
        ("NCL011", "NCCL_ALGO", "Rings", []),
        ("NCL012", "NCCL_NET_GDR_LEVEL", "PHB", ["warning: NCCL_NET_GDR_LEVEL is forced to PHB instead of measured"]),
        ("NCL012", "NCCL_NET_GDR_LEVEL", "2", ["warning: NCCL_NET_GDR_LEVEL is 2, a number of a legacy scale"]),
        ("NCL012", "NCCL_P2P_LEVEL", "nvl", [
            'warning: NCCL_P2P_LEVEL is "nvl", which is none of LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN,'
            ' PHB, SYS, 0, 1, 2, 3, 4, 5'
        ]),
        ("NCL012", "NCCL_P2P_LEVEL", "NVL", []),
        ("NCL003", "NCCL_NET", "Socket", ["error: NCCL_NET is Socket, but the pods request rdma/hca: 1"]),
        ("NCL003", "NCCL_IB_DISABLE", "0", []),
        ("NCL009", "NCCL_SOCKET_IFNAME", "lo", [
            'error: NCCL_SOCKET_IFNAME is "lo", which selects lo, which no other node can'
            ' reach'
        ]),
        ("NCL009", "NCCL_SOCKET_IFNAME", "10.0.0.4", [
            'error: NCCL_SOCKET_IFNAME is "10.0.0.4", which is an address: the name of an interface is'
            ' expected'
        ]),
        ("NCL009", "NCCL_SOCKET_IFNAME", "^eth", [
            'error: NCCL_SOCKET_IFNAME is "^eth", which excludes eth0, the only interface of a'
            ' pod'
        ]),
        ("NCL009", "NCCL_SOCKET_IFNAME", "^=eth", []),
        ("NCL009", "NCCL_SOCKET_IFNAME", "^lo,docker", []),
        ("NCL009", "NCCL_SOCKET_IFNAME", "==eth0", [
            'error: NCCL_SOCKET_IFNAME is "==eth0", which holds =eth0: the library does not read = as a'
            ' marker anywhere but at the very start, once'
        ]),
        ("NCL009", "GLOO_SOCKET_IFNAME", "docker0", [
            'error: GLOO_SOCKET_IFNAME is "docker0", which selects docker0, which no other node can'
            ' reach'
        ]),
        ("NCL009", "OMPI_MCA_btl_tcp_if_exclude", "lo,docker0", []),
        ("NCL009", "OMPI_MCA_btl_tcp_if_include", "10.0.0.0/16", []),
        ("NCL017", "GLOO_SOCKET_IFNAME", "eth", [
            'error: GLOO_SOCKET_IFNAME is "eth", which is a prefix: the library looks for an interface of'
            ' that very name'
        ]),
    ],
)  # fmt: skip
def test_one_variable(rule: str, name: str, value: str, said: list[str]) -> None:
    assert judge_variable(rule, name, value) == [f"{line} @ ConfigMap/llama-sft-nccl data.{name}" for line in said]


def test_a_variable_that_mpirun_exports() -> None:
    found = judge("NCL007", MPI % ("-x, NCCL_DEBUG=INFO", ""))
    assert found == [
        "info: NCCL_DEBUG is INFO: every rank of 3 pods prints its topology at each start"
        " @ MPIJob/bench spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[6]"
    ]


def test_an_exported_variable_whose_words_were_written_as_one() -> None:
    assert len(judge("NCL007", MPI % ("-x NCCL_DEBUG=INFO", ""))) == 1


def test_subsystems_are_judged_by_the_level_that_mpirun_exports() -> None:
    assert judge("NCL008", MPI % ("-x, NCCL_DEBUG=INFO, -x, NCCL_DEBUG_SUBSYS=NET", "")) == []
    assert len(judge("NCL008", MPI % ("-x, NCCL_DEBUG_SUBSYS=NET", ""))) == 1


def test_the_level_may_come_from_a_config_map_that_is_not_rendered() -> None:
    job = """
    kind: Job
    spec: {template: {spec: {containers: [{name: trainer,
      envFrom: [{configMapRef: {name: site-nccl}}], env: [{name: NCCL_DEBUG_SUBSYS, value: NET}]}]}}}
    """
    assert judge_good_job_with("NCL008", job) == []


def test_infiniband_settings_without_a_device_are_told_once() -> None:
    rank_settings = NO_RDMA % ("", "env: [{name: NCCL_IB_GID_INDEX, value: '3'}], ", "")
    assert judge_good_job_with("NCL004", rank_settings) == [
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
    assert judge_good_job_with("NCL004", NO_RDMA % (pod, container, limits)) == []


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


PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: research}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: "registry.example.com/train:1", command: [torchrun, train.py],
            env: [%s], resources: {limits: {nvidia.com/gpu: 8}}}
    Worker:
      replicas: 3
      template:
        spec:
          containers:
          - {name: pytorch, image: "registry.example.com/train:1", command: [torchrun, train.py],
            env: [%s], %sresources: {limits: {nvidia.com/gpu: 8}}}
"""
MASTER_ENV = "PyTorchJob/bert spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env"


def test_one_mistake_in_two_roles_is_told_once() -> None:
    switch = "{name: NCCL_P2P_DISABLE, value: 'yes'}"
    assert judge("NCL001", PYTORCH % (switch, switch, "")) == [
        'error: NCCL_P2P_DISABLE is a whole number, and "yes" is read as 0 by NCCL'
        f" @ {MASTER_ENV}[NCCL_P2P_DISABLE].value"
    ]


def test_a_variable_that_one_role_lacks() -> None:
    assert judge("NCL014", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", "", "")) == [
        f"error: NCCL_PROTO is Simple in master and not set in worker @ {MASTER_ENV}[NCCL_PROTO].value"
    ]


def test_a_role_whose_environment_is_not_known_may_have_it() -> None:
    source = "envFrom: [{configMapRef: {name: site}}], "
    assert judge("NCL014", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", "", source)) == []


def test_a_value_that_is_not_known_may_be_the_same() -> None:
    unknown = "{name: NCCL_PROTO, value: $(PROTO)}"
    assert judge("NCL014", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", unknown, "")) == []


def test_ranks_may_log_differently() -> None:
    assert judge("NCL014", PYTORCH % ("{name: NCCL_DEBUG, value: INFO}", "", "")) == []
    assert judge("NCL021", PYTORCH % ("{name: NCCL_DEBUG, value: INFO}", "", "")) == []


def test_a_library_switch_in_one_role() -> None:
    assert judge("NCL021", PYTORCH % ("", "{name: TORCH_CUDNN_V8_API_DISABLED, value: '1'}", "")) == [
        "warning: TORCH_CUDNN_V8_API_DISABLED is not set in master and 1 in worker"
        f" @ {MASTER_ENV.replace('Master', 'Worker')}[TORCH_CUDNN_V8_API_DISABLED].value"
    ]


def test_init_containers_can_list_a_variable_twice_too() -> None:
    job = """
    kind: Job
    spec: {template: {spec: {initContainers: [{name: fetch, image: registry.example.com/fetch,
      env: [{name: A, value: '1'}, {name: B, value: '1'}, {name: A, value: '1'}]}]}}}
    """
    assert judge_good_job_with("NCL015", job) == [
        "error: A is listed twice in container fetch @ Job/llama-sft spec.template.spec.initContainers[0].env[A]"
    ]
