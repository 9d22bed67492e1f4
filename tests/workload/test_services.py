"""Which pod a host name means."""

import pytest

from tests.workload.manifests import INPUTS, workload
from trainyard.workload.services import (
    Endpoint,
    Means,
    endpoint,
    resolve,
    selects_pods,
    service_named,
    services_for,
    subdomain_service,
)

INDEXED = (INPUTS / "indexed-torchrun.yaml").read_text()
RANK_0 = """
---
apiVersion: v1
kind: Service
metadata: {name: rank-0, namespace: research}
spec:
  selector: {batch.kubernetes.io/job-name: gpt2-ddp, batch.kubernetes.io/job-completion-index: "0"}
---
apiVersion: v1
kind: Service
metadata: {name: store, namespace: research}
spec: {selector: {app: etcd}}
"""


@pytest.mark.parametrize(
    ("host", "means", "index"),
    [
        ("gpt2-ddp-0.gpt2-ddp", Means.POD, 0),
        ("gpt2-ddp-3.gpt2-ddp.research", Means.POD, 3),
        ("gpt2-ddp-3.gpt2-ddp.research.svc", Means.POD, 3),
        ("GPT2-DDP-3.gpt2-ddp.research.svc.cluster.local.", Means.POD, 3),
        ("gpt2-ddp-3.gpt2-ddp.research.svc.example.org", Means.POD, 3),
        ("gpt2-ddp-4.gpt2-ddp", Means.NO_SUCH_INDEX, 4),
        ("gpt2-ddp-0", Means.BARE_HOSTNAME, 0),
        ("gpt2-ddp-0.gpt2", Means.WRONG_SUBDOMAIN, 0),
        ("gpt2-ddp-0.gpt2-ddp.vision.svc", Means.ELSEWHERE, None),
        ("gpt2-ddp-0.gpt2-ddp.vision", Means.ELSEWHERE, None),
        ("gpt2-0.gpt2-ddp", Means.NOTHING, None),
        ("gpt2-ddp-00.gpt2-ddp", Means.NOTHING, None),
        ("gpt2-ddp", Means.SERVICE, None),
        ("gpt2-ddp.research", Means.SERVICE, None),
        ("gpt2-ddp.research.svc.cluster.local", Means.SERVICE, None),
        ("rank-0", Means.POD, 0),
        ("store", Means.SERVICE, None),
        ("absent", Means.NOTHING, None),
        ("etcd.rendezvous", Means.ELSEWHERE, None),
        ("etcd.rendezvous.svc", Means.ELSEWHERE, None),
        ("master.example.com", Means.ELSEWHERE, None),
        ("10.0.0.7", Means.ELSEWHERE, None),
        ("localhost", Means.LOOPBACK, None),
        ("127.0.0.1", Means.LOOPBACK, None),
        ("::1", Means.LOOPBACK, None),
        ("", Means.ELSEWHERE, None),
        (".", Means.ELSEWHERE, None),
        ("..", Means.ELSEWHERE, None),
    ],
)
def test_names_of_an_indexed_job(host: str, means: Means, index: int | None) -> None:
    found = resolve(workload(INDEXED + RANK_0), host)
    assert (found.means, found.index) == (means, index)


@pytest.mark.parametrize(
    ("manifest", "host", "means", "role", "index"),
    [
        ("pytorchjob-master", "reward-master-0", Means.POD, "master", 0),
        ("pytorchjob-master", "reward-worker-2.rlhf.svc.cluster.local", Means.POD, "worker", 2),
        ("pytorchjob-master", "reward-worker-1.rlhf", Means.POD, "worker", 1),
        ("pytorchjob-master", "reward-worker-3", Means.NO_SUCH_INDEX, "worker", 3),
        ("pytorchjob-master", "reward-master-0.reward", Means.WRONG_SUBDOMAIN, "master", 0),
        ("pytorchjob-master", "reward-chief-0", Means.NOTHING, "", None),
        ("tfjob", "ctr-ps-0.ads.svc", Means.POD, "ps", 0),
        ("mpijob", "allreduce-worker-1.allreduce.bench.svc", Means.POD, "worker", 1),
        ("mpijob", "allreduce-worker-1", Means.POD, "worker", 1),
        ("mpijob", "allreduce-launcher.allreduce", Means.POD, "launcher", 0),
        ("mpijob", "allreduce-worker-2.allreduce", Means.NO_SUCH_INDEX, "worker", 2),
        ("mpijob", "allreduce", Means.SERVICE, "", None),
    ],
)
def test_names_that_controllers_make(manifest: str, host: str, means: Means, role: str, index: int | None) -> None:
    found = resolve(workload((INPUTS / f"{manifest}.yaml").read_text()), host)
    assert (found.means, found.role, found.index) == (means, role, index)


def test_services_of_the_pods() -> None:
    found = workload(INDEXED + RANK_0)
    (pods,) = found.pod_sets
    assert [each.name for each in services_for(found, pods)] == ["gpt2-ddp", "rank-0"]
    service = subdomain_service(found, pods)
    assert service is not None
    assert service.name == "gpt2-ddp"
    store = service_named(found, "store")
    assert store is not None
    assert selects_pods(store, pods) is False


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("h:29400", "h", 29400),
        ("h.s.ns.svc:1", "h.s.ns.svc", 1),
        ("h", "h", None),
        ("h:", "h", None),
        ("h:port", "h", None),
        ("[fe80::1]:7", "fe80::1", 7),
        ("[::1]", "::1", None),
        ("::1", "::1", None),
        ("", "", None),
        ("h:1000000", "h", None),
    ],
)
def test_endpoints(text: str, host: str, port: int | None) -> None:
    assert endpoint(text) == Endpoint(host, port)
