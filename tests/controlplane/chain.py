"""The benchmark chain on a real API server, with Argo's controller, and the rights that the chain has."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.checkout import make_checkout
from tests.controlplane.harness import HOME, Ground, ground, node_named, nodes_of, unit_of
from trainyard.controlplane import Client
from trainyard.controlplane.supervisor import die_with

ARGO = HOME / ".tools/workflows"
NAMESPACE = "benchmark"
CLUSTER = "gpu-east"
NODES = 16

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chain:
    """A control plane with Argo's controller, the chain, and a checkout that its steps work in."""

    ground: Ground
    checkout: Path
    results: Path
    account: Client
    """The chain's own rights."""
    environment: dict[str, str]
    ran: list[str] = field(default_factory=list)
    """Templates whose pods ran, in their order."""

    @property
    def client(self) -> Client:
        return self.ground.client

    def workflow(self, name: str) -> Json:
        metadata = {"namespace": NAMESPACE, "name": name}
        return self.client.get({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata})


@contextlib.contextmanager
def chain_in(folder: Path) -> Iterator[Chain]:
    """The chain, its cluster's nodes and its account; results go below `folder`."""
    (folder / "src").mkdir()
    with ground() as made:
        for item in yaml.safe_load_all((ARGO / "definitions.yaml").read_text()):
            made.client.create(item)
        made.client.until("Argo's kinds", lambda: made.client.serves("argoproj.io/v1alpha1", "WorkflowTemplate"))
        for name in ("argo", "node-tuning"):
            made.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        unit = unit_of(f"clusters/{CLUSTER}/platform/benchmark")
        for item in sorted(unit.objects, key=lambda item: item.kind != "Namespace"):
            made.client.apply(item.data)
        made.provision(NAMESPACE)
        nodes(made)
        made.ensure("mpi-operator")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        secret = made.client.request(
            "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/benchmark/token", asked
        ).body["status"]["token"]
        account = replace(made.plane.client(), token=secret)
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(made, secret))
        environment = {**os.environ, "KUBECONFIG": str(config), "PYTHONPATH": str(HOME / "tools")}
        environment["PATH"] = f"{HOME / '.tools/bin'}:{environment['PATH']}"
        with controller(made, folder):
            yield Chain(made, make_checkout(folder / "src"), folder / "results", account, environment)


def nodes(made: Ground) -> None:
    """The cluster's nodes, tuned, with what their labels say of drivers and racks."""
    unit = unit_of(f"clusters/{CLUSTER}/benchmark/gpt-3")
    cluster, fabric = unit.fact("Cluster"), unit.fact("Fabric")
    assert cluster is not None
    assert fabric is not None
    for number, node in enumerate(nodes_of(cluster, fabric, NODES)):
        node["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.full": "580.95.05"}
        node["metadata"]["labels"] |= {"trainyard.dev/rack": f"r{number // 8}"}
        made.add_node(node)
    made.add_node(node_named("system", {"cpu": "64", "memory": "256Gi"}))
    (tuning,) = [
        item for item in unit_of(f"clusters/{CLUSTER}/platform/nodes/node-tuning").objects if item.kind == "DaemonSet"
    ]
    daemon = made.client.apply(tuning.data).body
    status = dict.fromkeys(
        ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled"), NODES
    )
    status |= {"numberMisscheduled": 0, "observedGeneration": daemon["metadata"]["generation"]}
    made.client.patch(daemon, {"status": status}, below="status")


def kubeconfig(made: Ground, token: str) -> str:
    """A kubeconfig with the chain's token."""
    cluster = {"server": made.plane.server, "certificate-authority": str(made.plane.folder / "ca.crt")}
    return json.dumps(
        {
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "benchmark", "user": {"token": token}}],
            "contexts": [{"name": "benchmark", "context": {"cluster": "here", "user": "benchmark"}}],
        }
    )


@contextlib.contextmanager
def controller(made: Ground, folder: Path) -> Iterator[None]:
    """Argo's workflow-controller, which keeps its settings in the namespace argo."""
    settings = {"metricsConfig": "enabled: false\n", "executor": "resources: {requests: {cpu: 10m, memory: 64Mi}}\n"}
    metadata = {"namespace": "argo", "name": "workflow-controller-configmap"}
    made.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": settings})
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "KUBECONFIG": str(made.plane.folder / "admin.kubeconfig"),
        "LEADER_ELECTION_DISABLE": "true",
        "ARGO_PPROF": "false",
        "DEFAULT_REQUEUE_TIME": "1s",
    }
    flags = ["--executor-image=argoexec", "--namespaced=false", "--loglevel=info"]
    with (made.plane.folder / "workflow-controller.log").open("wb") as log:
        process = subprocess.Popen(
            [ARGO / "workflow-controller", *flags, "--kubeconfig", environment["KUBECONFIG"], "--namespace", "argo"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with(os.getpid()),
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def submit(chain: Chain, name: str) -> None:
    """What `argo submit --from workflowtemplate/benchmark` creates."""
    chain.client.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"workflowTemplateRef": {"name": "benchmark"}},
        }
    )
