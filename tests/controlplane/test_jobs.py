"""Every job below jobs/ on its real controllers, on the nodes of its cluster: the Workload predicts what they make."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.controlplane.comparison import differences
from tests.controlplane.harness import HOME, Ground, Run, ground_for, unit_of
from tests.controlplane.kubelet import environment
from trainyard.objects.unit import Unit

pytestmark = pytest.mark.controlplane


def jobs() -> list[str]:
    """Job folders, those of one cluster after one another."""
    files = sorted((HOME / "jobs").glob("*/*/kustomization.yaml"))
    facts = {file: yaml.safe_load(file.read_text())["resources"][1] for file in files}
    return [str(file.parent.relative_to(HOME)) for file in sorted(files, key=lambda file: (facts[file], file))]


@pytest.fixture(scope="module")
def ground_of() -> Iterator[Callable[[Unit], Ground]]:
    """The control plane for a job: the last one, unless that is another cluster's."""
    grounds: dict[str, Ground] = {}
    with contextlib.ExitStack() as ends:

        def found(unit: Unit) -> Ground:
            cluster = unit.fact("Cluster")
            assert cluster is not None
            if cluster.name not in grounds:
                ends.close()
                grounds.clear()
                grounds[cluster.name] = ends.enter_context(ground_for(unit))
            return grounds[cluster.name]

        yield found


@pytest.fixture(scope="module", params=jobs())
def run(ground_of: Callable[[Unit], Ground], request: pytest.FixtureRequest) -> Iterator[Run]:
    unit = unit_of(request.param)
    with ground_of(unit).job(unit) as made:
        yield made


@pytest.mark.claim(
    "torchrun-gives",
    "jobset-gives",
    "pytorchjob-gives",
    "tfjob-gives",
    "mpijob-gives",
    "rayjob-gives",
    "trainjob-gives",
)
def test_the_workload_predicts_what_the_controllers_make(run: Run) -> None:
    found = differences(run.workload, run.pods, run.ground.client)

    assert not found, "\n".join(["", *found])


def test_pods_that_take_a_whole_node_have_one_each(run: Run) -> None:
    cluster = run.workload.cluster
    assert cluster is not None
    whole = cluster.data["spec"]["node"]["gpus"]
    large = [pod for pod in run.pods if gpus(pod) == whole]

    assert len({pod["spec"]["nodeName"] for pod in large}) == len(large)


def gpus(pod: dict[str, object]) -> int:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    limits = (each.get("resources", {}).get("limits", {}) for each in spec["containers"])
    return sum(int(each.get("nvidia.com/gpu", 0)) for each in limits)


def test_rendezvous_is_the_name_of_rank_0_at_the_open_port(run: Run) -> None:
    """A Job's pods meet at the first of them; for the other kinds it is their controllers that write the address."""
    if run.workload.object.kind != "Job":
        pytest.skip("its controller writes the address")
    client, namespace = run.ground.client, run.workload.object.namespace
    first = min(run.pods, key=lambda pod: pod["metadata"]["name"])
    host, domain = first["spec"]["hostname"], first["spec"]["subdomain"]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": domain}}
    port = client.get(service)["spec"]["ports"][0]["port"]
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in client.list("v1", "ConfigMap", namespace)}

    found = environment(first["spec"]["containers"][0], first, maps)

    assert f"{host}.{domain}:{port}" in (found.get("PET_RDZV_ENDPOINT"), f"{found.get('MASTER_ADDR')}:{port}")
