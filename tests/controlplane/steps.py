"""Plays the kubelet and the executor of the benchmark chain's steps.

It runs a step's command in a checkout, with a token of the chain's account; it creates the job of a resource template
as Argo's executor would, with the same token, and waits for the same conditions; it says that pods ended, and what a
step left in files, as the executor reports it. A rank's log is made up.
"""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.chain import NAMESPACE, NODES, Chain, Json
from tests.controlplane.harness import volume_for
from trainyard.benchmark.collect import collect, ranks_of
from trainyard.controlplane import Client
from trainyard.errors import Fault

SECONDS = 240


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
    name = job["metadata"]["name"]
    bind(chain, name)
    chain.account.create(job)
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
