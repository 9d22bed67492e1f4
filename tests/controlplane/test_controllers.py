"""Every kind of job on its real controllers: what the adapters say of the manifests in tests/workload/inputs is so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.comparison import differences
from tests.controlplane.harness import CONTROLLERS_OF, HOME, Ground, Run, ground, node_named, workload_of
from tests.controlplane.mistakes import MISTAKES, wrong
from tests.workload.manifests import unit
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.workload.adapters import ADAPTERS, PLAIN, adapter

pytestmark = pytest.mark.controlplane

INPUTS = HOME / "tests/workload/inputs"
NODES = 12
OTHERS = {
    ("kubeflow.org", "JAXJob"),
    ("kubeflow.org", "PaddleJob"),
    ("kubeflow.org", "XGBoostJob"),
    ("ray.io", "RayService"),
}
"""Kinds that the linter reads in the manifests of others, and no base makes."""
NOT_RUN = {("batch.volcano.sh", "Job")} | OTHERS | {kind for kind in ADAPTERS if kind[1] in PLAIN}
"""Volcano does not build from the module proxy: its own module volcano.sh/apis is not there in its version."""


def manifests() -> list[str]:
    """The inputs that hold a job whose controllers run here, those of one kind after one another."""
    kinds = {path.name: kind_of(path) for path in sorted(INPUTS.glob("*.yaml"))}
    return sorted(
        (name for name, kind in kinds.items() if kind in CONTROLLERS_OF), key=lambda name: (kinds[name], name)
    )


def kind_of(path: Path) -> tuple[str, str]:
    """Group and kind of the job in a file, or two empty strings."""
    found = (Object.of(data, 0) for data in yaml.safe_load_all(path.read_text()) if data)
    return next(((item.group, item.kind) for item in found if adapter(item) is not None), ("", ""))


@pytest.fixture(scope="module")
def plain() -> Iterator[Ground]:
    """Large nodes, each with every resource and label that the inputs ask for."""
    capacity: dict[str, Any] = {"cpu": "10k", "memory": "100Ti", "ephemeral-storage": "100Ti"}
    labels: dict[str, str] = {}
    for name in manifests():
        for pod_set in workload_of(unit((INPUTS / name).read_text())).pod_sets:
            labels |= pod_set.spec.get("nodeSelector") or {}
            for container in (*pod_set.containers, *pod_set.init_containers):
                capacity = dict.fromkeys(container.requests, "1k") | capacity
    with ground() as made:
        for index in range(NODES):
            made.add_node(node_named(f"node-{index}", capacity, labels))
        yield made


@pytest.fixture(scope="module", params=manifests())
def run(plain: Ground, request: pytest.FixtureRequest) -> Iterator[Run]:
    with plain.job(in_a_namespace(plain, unit((INPUTS / request.param).read_text(), request.param))) as made:
        yield made


def in_a_namespace(plain: Ground, found: Unit) -> Unit:
    """The unit, once its namespaces are there."""
    for name in sorted({item.namespace for item in found.objects} - {""}):
        plain.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        default = {"namespace": name, "name": "default"}
        plain.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": default})
    return found


def test_every_kind_is_among_the_inputs() -> None:
    assert ADAPTERS.keys() - NOT_RUN == {kind_of(INPUTS / name) for name in manifests()}
    assert ADAPTERS.keys() - NOT_RUN == CONTROLLERS_OF.keys()


@pytest.mark.claim("one-workload")
def test_the_workload_predicts_what_the_controllers_make(run: Run) -> None:
    found = differences(run.workload, run.pods, run.ground.client)

    assert not found, "\n".join(["", *found])


def test_a_wrong_prediction_is_noticed(run: Run) -> None:
    """Every mistake that the job can have is said; where none of its pod sets has what one is about, it is none."""
    possible = 0
    for name, (change, said) in MISTAKES.items():
        mistaken = wrong(run.workload, change)
        if mistaken.pod_sets == run.workload.pod_sets:
            continue
        possible += 1
        found = differences(mistaken, run.pods, run.ground.client)
        assert any(said in text for text in found), (name, found)

    assert possible > len(MISTAKES) // 2
