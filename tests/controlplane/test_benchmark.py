"""The benchmark chain on a real API server: Argo's controller orders its steps, which run with the rights they have.

What no kubelet does here the test does: it runs a step's command in a checkout, with a token of the chain's account; it
creates the job of a resource template as Argo's executor would, with the same token, and waits for the same conditions;
it says that pods ended, and what a step left in files, as the executor reports it. A rank's log is made up.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.checkout import make_checkout
from tests.controlplane.harness import HOME, Ground, ground, node_named, nodes_of, unit_of, volume_for
from trainyard.benchmark.collect import collect, ranks_of
from trainyard.benchmark.create import make
from trainyard.controlplane import Client, Refused
from trainyard.controlplane.supervisor import die_with
from trainyard.errors import Fault

pytestmark = pytest.mark.controlplane

ARGO = HOME / ".tools/workflows"
NAMESPACE = "benchmark"
CLUSTER = "gpu-east"
JOBS = ("collectives", "gpt-3", "llama-70b")
NODES = 16
SECONDS = 240

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


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("chain")
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


def drive(chain: Chain, name: str) -> str:
    """Plays the kubelet until the workflow has ended; returns its phase."""
    done: set[str] = set()
    deadline = time.monotonic() + SECONDS
    while (phase := chain.workflow(name).get("status", {}).get("phase", "")) not in ("Succeeded", "Failed", "Error"):
        if time.monotonic() > deadline:
            raise Fault(f"{name} is {phase or 'not begun'}\n{chain.ground.plane.log('workflow-controller')[-4000:]}")
        for pod in chain.client.list("v1", "Pod", NAMESPACE, f"workflows.argoproj.io/workflow={name}"):
            if pod["metadata"]["name"] not in done and pod["status"].get("phase") in ("Pending", "Running"):
                if not pod["spec"].get("nodeName"):
                    chain.ground.provision(NAMESPACE)
                    continue
                done.add(pod["metadata"]["name"])
                run_pod(chain, name, pod)
        time.sleep(0.1)
    return str(phase)


def run_pod(chain: Chain, workflow: str, pod: Json) -> None:
    """One step: what its main container does, what the executor reports, and its end."""
    containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    variables = {each["name"]: each.get("value", "") for one in containers for each in one.get("env", [])}
    template = json.loads(variables["ARGO_TEMPLATE"])
    chain.ran.append(template["name"])
    if "resource" in template:
        code = run_job(chain, workflow, template["resource"])
    elif template["name"] == "collect":
        code = run_collect(chain, template)
    else:
        code = run_command(chain, template["container"])
    outputs = {
        "parameters": [
            {"name": each["name"], "value": Path(each["valueFrom"]["path"]).read_text()}
            for each in template.get("outputs", {}).get("parameters", [])
        ]
    }
    labels = {"workflows.argoproj.io/workflow": workflow, "workflows.argoproj.io/report-outputs-completed": "true"}
    node = pod["metadata"]["annotations"]["workflows.argoproj.io/node-id"]
    chain.account.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "WorkflowTaskResult",
            "metadata": {"namespace": NAMESPACE, "name": node, "labels": labels},
            "outputs": outputs | {"exitCode": str(code)},
        }
    )
    ended(chain.client, pod, code)


def ended(client: Client, pod: Json, code: int) -> None:
    """Say that all containers of a pod have ended, as its node would."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {
        "terminated": {
            "exitCode": code,
            "startedAt": now,
            "finishedAt": now,
            "reason": "Completed" if code == 0 else "Error",
        }
    }
    status = [
        {"name": each["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        for each in pod["spec"]["containers"]
    ]
    phase = "Succeeded" if code == 0 else "Failed"
    client.patch(pod, {"status": {"phase": phase, "containerStatuses": status}}, below="status")


def run_command(chain: Chain, container: Json) -> int:
    """A step's command where its volumes would be."""
    words = [*container["command"], *container.get("args", [])]
    text = json.dumps(words).replace("/src/", f"{chain.checkout}/").replace("/results", str(chain.results))
    words = json.loads(text)
    if words[0] == "python":
        words[0] = sys.executable
        if words[3] != "assemble":
            words += ["--context=benchmark"]
    chain.results.mkdir(exist_ok=True)
    done = subprocess.run(words, env=chain.environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.returncode


def run_job(chain: Chain, workflow: str, resource: Json) -> int:
    """A resource template: creates the job, lets its pods end, and waits until Argo's condition holds."""
    job = yaml.safe_load(resource["manifest"])
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Workflow", workflow)
    chain.account.create(job)
    name = job["metadata"]["name"]
    bind(chain, name)
    wanted = NODES

    def running() -> list[Json] | None:
        chain.ground.provision(NAMESPACE)
        pods = ranks_of(chain.client.list("v1", "Pod", NAMESPACE, f"trainyard.dev/job={name}"))
        up = [each for each in pods if each["status"].get("phase") == "Running"]
        return pods if len(up) == wanted else None

    chain.client.until(f"{wanted} ranks of {name}", running, 60)
    everything = chain.client.list("v1", "Pod", NAMESPACE, f"trainyard.dev/job={name}")
    launchers = [each for each in everything if "launcher" in each["metadata"]["name"]]
    if job["kind"] == "MPIJob":
        launchers = chain.client.until("launcher", lambda: launcher(chain, name), 60)
    for each in launchers or everything:
        ended(chain.client, each, 0)
    chain.client.until(
        f"{name}: {resource['successCondition']}", lambda: holds(chain, job, resource["successCondition"]), 60
    )
    assert not holds(chain, job, resource["failureCondition"])
    return 0


def bind(chain: Chain, name: str) -> None:
    """A volume for the job's claim."""
    metadata = {"namespace": NAMESPACE, "name": f"{name}-checkpoints"}
    claim = chain.client.get({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
    chain.client.apply(volume_for(claim))


def launcher(chain: Chain, name: str) -> list[Json]:
    pods = chain.client.list("v1", "Pod", NAMESPACE, f"trainyard.dev/job={name}")
    return [
        each
        for each in pods
        if each["metadata"]["labels"].get("training.kubeflow.org/job-role") == "launcher"
        and each["status"].get("phase") == "Running"
    ]


def holds(chain: Chain, job: Json, condition: str) -> bool:
    """Argo's conditions of numbers: PATH == N or PATH > N."""
    path, sign, number = condition.split()
    value: Any = chain.account.get(job)
    for part in path.split("."):
        value = value.get(part, {}) if isinstance(value, dict) else {}
    if not isinstance(value, int):
        return False
    return value == int(number) if sign == "==" else value > int(number)


class WithLogs(Client):
    """The chain's client where there is a kubelet that keeps logs."""

    __slots__ = ("said",)
    said: str

    def text(self, path: str, query: Any = None) -> str:
        assert path.endswith("/log")
        assert query
        return self.said


def run_collect(chain: Chain, template: Json) -> int:
    """`collect` with the chain's rights, and a log that tells of ranks that met and of steps."""
    folder = Path(template["container"]["args"][0].replace("/results", str(chain.results)))
    created = json.loads((folder / "created.json").read_text())
    name = created["job"]["metadata"]["name"]
    asking = WithLogs(chain.account.server, chain.account.trust, token=chain.account.token)
    asking.said = log(folder.name, [f"{name}-worker-{at}" for at in range(NODES)])
    (folder / "collected.json").write_text(json.dumps(collect(asking, created["job"], None, None)))
    return 0


def log(job: str, hosts: list[str]) -> str:
    """What rank 0 says, with times."""
    now = datetime.now(UTC).timestamp()

    def line(after: float, text: str) -> str:
        return f"{datetime.fromtimestamp(now + after, UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')} {text}"

    if job == "collectives":
        ranks = [
            {"rank": 8 * at + gpu, "host": host, "product_tflops": 640.0 + gpu, "memory_gb_per_second": 2900.0}
            for at, host in enumerate(hosts)
            for gpu in range(8)
        ]
        row = {"collective": "all_reduce", "bytes": 1 << 30, "bus_gb_per_second": 310.5, "correct": True}
        return line(
            1, json.dumps({"collectives": [row], "ranks": ranks, "nccl": "2.27.7", "torch": "2.9.1", "backend": "nccl"})
        )
    steps = [
        {"step": step, "loss": 11.0 - step / 10, "step_seconds": 1.5, "tokens_per_second": 7e5} for step in (1, 2, 3)
    ]
    said = [line(10, "rendezvous: 128 ranks met after 9.8 s")]
    said += [line(12 + step["step"] * 1.5, json.dumps(step)) for step in steps]
    said.append(line(20, json.dumps({"steps": 3, "final_loss": 10.7, "tokens_per_second": 7e5, "world_size": 128})))
    return "\n".join(said)


def test_argo_finds_nothing_wrong_with_the_chain(tmp_path: Path) -> None:
    done = subprocess.run(
        [HOME / ".tools/bin/kustomize", "build", f"clusters/{CLUSTER}/platform/benchmark"],
        cwd=HOME,
        capture_output=True,
        check=True,
    )
    (tmp_path / "chain.yaml").write_bytes(done.stdout)
    said = subprocess.run([ARGO / "lint", tmp_path / "chain.yaml"], capture_output=True, text=True)
    assert (said.returncode, said.stdout.strip().splitlines()[-1:]) == (0, ["no linting errors found!"])


def test_the_chain_runs_in_order_with_the_rights_it_has(chain: Chain) -> None:
    submit(chain, "bench-1")
    assert drive(chain, "bench-1") == "Succeeded"
    each = ["create", "run", "collect"]
    assert chain.ran == ["nodes", *each, *each, *each, "assemble", "compare"]

    run = json.loads((chain.results / "runs/bench-1.json").read_text())
    assert run["measures"] == {
        "collectives/all_reduce_bus_gb_per_second": 310.5,
        "gpt-3/tokens_per_second": 7e5,
        "llama-70b/tokens_per_second": 7e5,
    }
    assert sorted(run["nodes"]) == sorted(f"{CLUSTER}-{number}" for number in range(NODES))
    assert all(len(node["ranks"]) == 8 for node in run["nodes"].values())
    assert run["fingerprint"]["driver"]["nvidia"] == "580.95.05"
    assert run["fingerprint"]["topology"] == {f"trainyard.dev/rack r{rack}": "8 nodes" for rack in (0, 1)}
    for job in ("gpt-3", "llama-70b"):
        parts = run["workloads"][job]["kubernetes"]
        assert list(parts) == ["pods", "scheduling", "start", "rendezvous", "first step"]
        assert parts["first step"] == pytest.approx(3.5, abs=0.01)


def test_a_second_run_has_the_same_fingerprint(chain: Chain) -> None:
    first = {
        job: make(
            chain.checkout / f"clusters/{CLUSTER}/benchmark/{job}", f"a-{job}", HOME / ".tools/bin/kustomize"
        ).digest
        for job in JOBS
    }
    second = {
        job: make(
            chain.checkout / f"clusters/{CLUSTER}/benchmark/{job}", f"b2-{job}", HOME / ".tools/bin/kustomize"
        ).digest
        for job in JOBS
    }
    assert first == second


def test_what_the_chain_made_is_the_workflows(chain: Chain) -> None:
    workflow = chain.workflow("bench-1")
    for kind, version in (
        ("ConfigMap", "v1"),
        ("PersistentVolumeClaim", "v1"),
        ("Job", "batch/v1"),
        ("MPIJob", "kubeflow.org/v2beta1"),
    ):
        made = [
            item
            for item in chain.client.list(version, kind, NAMESPACE)
            if item["metadata"]["name"].startswith("bench-1-")
        ]
        assert made
        for item in made:
            owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
            assert workflow["metadata"]["uid"] in owners or item["metadata"].get("ownerReferences"), item["metadata"][
                "name"
            ]


def test_the_chain_may_not_do_what_it_need_not(chain: Chain) -> None:
    for method, path in (
        ("GET", "/api/v1/namespaces/benchmark/secrets"),
        ("GET", "/api/v1/namespaces/research/pods"),
        ("DELETE", "/apis/batch/v1/namespaces/benchmark/jobs/bench-1-gpt-3"),
        ("GET", "/apis/apps/v1/namespaces/node-tuning/daemonsets"),
    ):
        with pytest.raises(Refused) as refused:
            chain.account.request(method, path)
        assert refused.value.code == 403, path


def test_a_node_without_its_gpus_ends_the_chain(chain: Chain) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{CLUSTER}-3"}}
    broken = {"allocatable": {"nvidia.com/gpu": "7"}}
    chain.client.patch(node, {"status": broken}, below="status")
    step = [
        sys.executable,
        "-m",
        "trainyard.benchmark",
        "nodes",
        f"--facts={chain.checkout}/clusters/{CLUSTER}/facts/cluster.yaml",
    ]
    done = subprocess.run(
        [*step, f"--out={chain.results}/x", "--context=benchmark"],
        env=chain.environment,
        capture_output=True,
        text=True,
    )
    chain.client.patch(node, {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}, below="status")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, f"{CLUSTER}-3: 7 of 8 GPUs can be had")
