"""Where a variable comes from: containers, scripts, mpirun's words, files."""

import pytest

from tests.rules.communication.jobs import MPI, TRAINING
from tests.rules.judging import judge, judge_good_job_with

SCRIPT = """
apiVersion: batch/v1
kind: Job
metadata: {name: sft, namespace: research}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    spec:
      subdomain: sft
      containers:
      - name: trainer
        image: registry.example.com/train:1
        command:
        - bash
        - -c
        - |
          %s
          NCCL_NSOCKS_PERTHREAD=8 torchrun --nnodes=4 --nproc-per-node=8 --rdzv-endpoint=sft-0.sft:29400 train.py
        env: [{name: NCCL_SOCKET_NTHREADS, value: '4'}]
        resources: {limits: {nvidia.com/gpu: 8}}
"""
PROBE = """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: probe, namespace: research}
data: {probe.sh: 'test "$ranks" -ge "$NCCL_RANKS"'}
"""
IN_SCRIPT = "Job/sft spec.template.spec.containers[0].command[2]"


def test_a_variable_that_mpirun_exports() -> None:
    found = judge("NCL007", TRAINING % ("-x, NCCL_DEBUG=INFO", ""))
    assert found == [
        "warning: NCCL_DEBUG is INFO: each of 16 ranks prints its topology at each start"
        " @ MPIJob/bench spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[6]"
    ]


def test_an_exported_variable_whose_words_were_written_as_one() -> None:
    assert len(judge("NCL007", TRAINING % ("-x NCCL_DEBUG=INFO", ""))) == 1


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


def test_init_containers_can_list_a_variable_twice_too() -> None:
    job = """
    kind: Job
    spec: {template: {spec: {initContainers: [{name: fetch, image: registry.example.com/fetch,
      env: [{name: A, value: '1'}, {name: B, value: '1'}, {name: A, value: '1'}]}]}}}
    """
    assert judge_good_job_with("ENV008", job) == [
        "error: A is listed twice in container fetch @ Job/llama-sft spec.template.spec.initContainers[0].env[A]"
    ]


def test_what_a_script_exports_counts() -> None:
    assert judge("ENV001", SCRIPT % "export NCCL_P2P_DISABLE=yes GLOO_SOCKET_IFNAME=eth0") == [
        f'error: NCCL_P2P_DISABLE is a whole number, and "yes" is read as 0 by NCCL @ {IN_SCRIPT}'
    ]


def test_what_a_script_keeps_to_itself_does_not_count() -> None:
    assert judge("ENV001", SCRIPT % "NCCL_P2P_DISABLE=yes") == []


def test_what_stands_before_a_program_counts_and_wins_over_env() -> None:
    assert judge("NCL043", SCRIPT % "export NCCL_SOCKET_NTHREADS=16") == [
        f"warning: NCCL_SOCKET_NTHREADS 16 x NCCL_NSOCKS_PERTHREAD 8 = 128, and NCCL takes 64 at most @ {IN_SCRIPT}"
    ]
    assert judge("NCL043", SCRIPT % "true") == []


def test_a_sourced_file_may_set_what_seems_to_be_missing() -> None:
    host = SCRIPT.replace("subdomain: sft", "subdomain: sft\n      hostNetwork: true")
    assert len(judge("ENV013", host % "export NCCL_SOCKET_IFNAME=ens5")) == 1
    assert judge("ENV013", host % "export NCCL_SOCKET_IFNAME=ens5; source /etc/gloo.sh") == []


def test_mca_words_are_variables_of_open_mpi() -> None:
    assert judge("ENV025", MPI % ("--mca, btl_tcp_if_exclude, docker0", "")) == [
        "warning: OMPI_MCA_btl_tcp_if_exclude is docker0, which brings loopback back"
        " @ MPIJob/bench spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[7]"
    ]
    assert judge("ENV025", MPI % ("-mca, btl, ^openib, -mca, pml, ob1", "")) == []


def test_a_name_that_the_containers_own_script_uses_is_read() -> None:
    assert judge("ENV032", SCRIPT % 'export NCCL_RANKS=32; echo "on ${NCCL_RANKS} ranks";') == []
    assert judge("ENV002", SCRIPT % "export NCCL_IB_TIMOUT=20; export NCCL_IB_TIMEOUT=$NCCL_IB_TIMOUT;") == []
    assert judge("ENV032", SCRIPT % """python -c 'os.environ["NCCL_RANKS"]'; export NCCL_RANKS=32;""") == []
    assert judge("ENV032", (SCRIPT + PROBE) % "export NCCL_RANKS=32;") == []
    assert len(judge("ENV032", SCRIPT % "export NCCL_RANKS=32;")) == 1


def test_a_librarys_fork_and_plugins_may_read_names_of_their_own() -> None:
    assert judge("ENV032", MPI % ("-x, NCCL_RING_SEARCH=1, -x, NCCL_NET_PLUGIN=spectrum", "")) == []
    assert judge("ENV032", (MPI % ("-x, NCCL_RING_SEARCH=1", "")).replace("nvidia.com/gpu", "amd.com/gpu")) == []
    assert len(judge("ENV032", MPI % ("-x, NCCL_RING_SEARCH=1, -x, NCCL_NET_PLUGIN=none", ""))) == 1


ACROSS = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bench, namespace: research}
spec:
  slotsPerWorker: 4
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - {name: launcher, image: "registry.example.com/mpi:1", command: [mpirun, -np, "8", -x, %s, ./train]}
    Worker:
      replicas: 2
      template:
        spec:
          %s
          containers:
          - name: worker
            image: registry.example.com/mpi:1
            %s
            resources: {limits: {nvidia.com/gpu: 4}}
"""
ON_THE_NODE = ("hostNetwork: true", "")
WITH_CHANNEL = ("resourceClaims: [{name: imex, resourceClaimTemplateName: bench}]", "")
WITH_LOGS = (
    "volumes: [{name: logs, persistentVolumeClaim: {claimName: logs}}]",
    "volumeMounts: [{name: logs, mountPath: /logs}]",
)
WITH_TOPOLOGY = (
    "volumes: [{name: topology, configMap: {name: topology}}]",
    "volumeMounts: [{name: topology, mountPath: /etc/topology}]",
)


@pytest.mark.parametrize(
    ("rule", "exported", "worker", "told"),
    [
        ("NCL077", "NCCL_MNNVL_ENABLE=1", WITH_CHANNEL, 0),
        ("NCL077", "NCCL_MNNVL_ENABLE=1", ("", ""), 1),
        ("ENV005", "NCCL_SOCKET_IFNAME=ens5", ON_THE_NODE, 0),
        ("ENV005", "NCCL_SOCKET_IFNAME=ens5", ("", ""), 1),
        ("NCL022", "NCCL_SOCKET_IFNAME=^lo", ON_THE_NODE, 1),
        ("NCL022", "NCCL_SOCKET_IFNAME=^lo", ("", ""), 0),
        ("NCL050", "NCCL_DEBUG_FILE=/logs/nccl.log", WITH_LOGS, 1),
        ("NCL050", "NCCL_DEBUG_FILE=/logs/nccl.log", ("", ""), 0),
        ("NCL046", "NCCL_HOSTID=bench", ("", ""), 1),
        ("NCL071", "NCCL_RAS_ADDR=localhost:28028", ON_THE_NODE, 1),
    ],
)
def test_what_mpirun_passes_on_is_judged_by_the_pods_of_the_ranks(
    rule: str, exported: str, worker: tuple[str, str], told: int
) -> None:
    assert len(judge(rule, ACROSS % (exported, *worker))) == told


def test_a_launcher_that_is_a_worker_too_is_a_pod_of_ranks() -> None:
    job = ACROSS.replace("slotsPerWorker: 4", "slotsPerWorker: 4\n  runLauncherAsWorker: true")
    assert len(judge("NCL077", job % ("NCCL_MNNVL_ENABLE=1", *WITH_CHANNEL))) == 1
