"""Mistakes in the facts of a fabric or a cluster."""

import pytest

from tests.planted.checkout import GPT2, LLAMA, Checkout, Found

pytestmark = pytest.mark.commands

RDMA = "overlays/rdma/fabric.yaml"
ETHERNET = "overlays/ethernet/fabric.yaml"
EAST = "clusters/gpu-east/facts/cluster.yaml"
WEST = "clusters/lab-west/facts/cluster.yaml"
LLAMA_NCCL = "ConfigMap/research/llama-8b-sft-nccl"
LLAMA_TRAINER = "spec.template.spec.containers[0]"
LLAMA_JOB = "Job/research/llama-8b-sft"


@pytest.mark.parametrize(
    ("rule", "old", "new", "text", "key"),
    [
        ("ENV002", "NCCL_IB_HCA: mlx5", "NCCL_IB_HCAS: mlx5", "▸NCCL_IB_HCAS: mlx5", "NCCL_IB_HCAS"),
        (
            "ENV001",
            "NCCL_NET: IB",
            "NCCL_NET: IB\n    NCCL_IB_QPS_PER_CONNECTION: four",
            "CONNECTION: ▸four",
            "NCCL_IB_QPS_PER_CONNECTION",
        ),
        (
            "ENV010",
            "NCCL_NET: IB",
            'NCCL_NET: IB\n    NCCL_IB_DISABLE: "false"',
            'DISABLE: ▸"false"',
            "NCCL_IB_DISABLE",
        ),
        ("ENV003", "NCCL_NET: IB", "NCCL_NET: IB\n    NCCL_BUFFSIZE: 8M", "BUFFSIZE: ▸8M", "NCCL_BUFFSIZE"),
        ("NCL003", "NCCL_NET: IB", "NCCL_NET: Socket", "NCCL_NET: ▸Socket", "NCCL_NET"),
        ("NCL003", "NCCL_NET: IB", 'NCCL_IB_DISABLE: "1"', 'NCCL_IB_DISABLE: ▸"1"', "NCCL_IB_DISABLE"),
    ],
)
def test_nccl_setting_of_a_fabric(checkout: Checkout, rule: str, old: str, new: str, text: str, key: str) -> None:
    checkout.replace(RDMA, old, new)
    checkout.expect(Found(rule, RDMA, text, LLAMA_NCCL, f"data.{key}", (LLAMA,)))


def test_interface_of_a_cluster(checkout: Checkout) -> None:
    checkout.replace(EAST, "interface: eth0", "interface: lo")
    checkout.expect(
        Found("ENV005", EAST, "interface: ▸lo", LLAMA_NCCL, "data.NCCL_SOCKET_IFNAME", (LLAMA,)),
        Found("ENV005", EAST, "interface: ▸lo", LLAMA_NCCL, "data.GLOO_SOCKET_IFNAME", (LLAMA,)),
    )


def test_infiniband_on_ethernet(checkout: Checkout) -> None:
    checkout.replace(ETHERNET, "NCCL_NET: Socket", "NCCL_NET: IB")
    checkout.expect(
        Found("NCL019", ETHERNET, "NCCL_NET: ▸IB", "ConfigMap/research/gpt2-124m-nccl", "data.NCCL_NET", (GPT2,))
    )


def test_number_that_is_no_text(checkout: Checkout) -> None:
    checkout.replace(ETHERNET, 'NCCL_SOCKET_NTHREADS: "4"', "NCCL_SOCKET_NTHREADS: 4")
    checkout.expect(
        Found(
            "SCH003",
            ETHERNET,
            "NCCL_SOCKET_NTHREADS: ▸4",
            "Fabric/research/ethernet",
            "spec.nccl.NCCL_SOCKET_NTHREADS",
            (GPT2,),
        )
    )


def test_memory_may_not_be_locked(checkout: Checkout) -> None:
    checkout.replace(RDMA, "      add: [IPC_LOCK]\n", "")
    checkout.expect(
        Found(
            "NCL016",
            RDMA,
            "limits:\n      rdma/rdma_shared_device_a: ▸1",
            LLAMA_JOB,
            f"{LLAMA_TRAINER}.resources.limits[rdma/rdma_shared_device_a]",
            (LLAMA,),
        )
    )


def test_device_is_requested_otherwise_than_limited(checkout: Checkout) -> None:
    checkout.replace(
        RDMA, "requests:\n      rdma/rdma_shared_device_a: 1", "requests:\n      rdma/rdma_shared_device_a: 2"
    )
    checkout.expect(
        Found(
            "GPU001",
            RDMA,
            "requests:\n      rdma/rdma_shared_device_a: ▸2",
            LLAMA_JOB,
            f"{LLAMA_TRAINER}.resources.requests[rdma/rdma_shared_device_a]",
            (LLAMA,),
        )
    )


def test_device_is_misspelt(checkout: Checkout) -> None:
    checkout.replace(RDMA, "    limits:\n", "    limit:\n")
    checkout.expect(Found("SCH003", RDMA, "▸limit:", "Fabric/research/rdma", "spec.resources.limit", (LLAMA,)))


def test_shared_memory_above_memory(checkout: Checkout) -> None:
    checkout.replace(EAST, "sharedMemory: 256Gi", "sharedMemory: 2560Gi")
    checkout.expect(
        Found(
            "MEM002",
            EAST,
            "sharedMemory: ▸2560Gi",
            LLAMA_JOB,
            "spec.template.spec.volumes[shm].emptyDir.sizeLimit",
            (LLAMA,),
        )
    )


def test_fewer_gpus_than_ranks(checkout: Checkout) -> None:
    checkout.replace(WEST, "gpus: 8", "gpus: 4")
    checkout.expect(
        Found(
            "RDV002",
            f"{GPT2}/job.yaml",
            "gpusPerNode: ▸8",
            "Job/research/gpt2-124m",
            f"{LLAMA_TRAINER}.env[PET_NPROC_PER_NODE]",
        ),
        Found(
            "CTR033",
            "clusters/lab-west/platform/research/resource-quota.yaml",
            'requests.nvidia.com/gpu: ▸"128"',
            "ResourceQuota/research/team",
            "spec.hard[requests.nvidia.com/gpu]",
            jobs=(GPT2,),
        ),
    )


def test_fewer_nodes_than_a_job_takes(checkout: Checkout) -> None:
    checkout.replace(EAST, "nodes: 32", "nodes: 2")
    checkout.expect(
        Found("CTR011", f"{LLAMA}/job.yaml", "nodes: ▸4", "TrainingJob/research/llama-8b-sft", "spec.nodes"),
        Found(
            "CTR033",
            "clusters/gpu-east/platform/research/resource-quota.yaml",
            'requests.nvidia.com/gpu: ▸"256"',
            "ResourceQuota/research/team",
            "spec.hard[requests.nvidia.com/gpu]",
            jobs=(LLAMA,),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "text", "path"),
    [
        ("memory: 1800Gi", "memory: 1800GB", "memory: ▸1800GB", "spec.node.memory"),
        ("gpus: 8", "gpus: eight", "gpus: ▸eight", "spec.node.gpus"),
        ("    scratch: 500Gi\n", "", "▸node:", "spec.node"),
        ("checkpointClass", "checkpointsClass", "▸checkpointsClass", "spec.storage.checkpointsClass"),
    ],
)
def test_cluster_does_not_meet_its_schema(checkout: Checkout, old: str, new: str, text: str, path: str) -> None:
    checkout.replace(EAST, old, new)
    checkout.expect(Found("SCH003", EAST, text, "Cluster/research/gpu-east", path, (LLAMA,)))


def test_dns_that_only_the_cluster_knows_is_no_mistake(checkout: Checkout) -> None:
    checkout.replace(EAST, "k8s-app: kube-dns", "k8s-app: node-local-dns")
    checkout.expect()
