"""Every field that the API has below what a job folder may hold, one after the other, on both sides.

No list of ours says which fields there are: the schemas of the API do. What the statement lets through, the linter and
the policies let through; what it does not, both refuse. Custom resources take anything here, so nobody else speaks.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.attacks.fields import Steps, changed, fields
from tests.controlplane.test_policy import definition
from trainyard.allowed.statement import statement
from trainyard.allowed.team import Context, spec_of
from trainyard.allowed.walk import Refusal, refusals
from trainyard.controlplane import Client, Refused, running
from trainyard.objects.objects import Object
from trainyard.policy.files import stream
from trainyard.policy.job_folder import POLICIES
from trainyard.schemas.schema import schema_of
from trainyard.verify.dry_run import gitops, wait_for

pytestmark = pytest.mark.controlplane

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
RUN, TEAM = "llama", "research"
SPEC = {
    "images": ["registry.example.com/"],
    "largestClaim": "1Ti",
    "storageClasses": ["nfs"],
    "secrets": [{"kind": "ClusterSecretStore", "name": "vault", "key": "a/"}],
}
CONTEXT = Context(run=RUN, namespace=TEAM, team=spec_of(SPEC))
OPEN = [kind for kind in statement().kinds if "." in kind[0] and not kind[0].endswith("k8s.io/v1")]
"""Kinds that an operator brings."""
BUILT_IN = [kind for kind in statement().kinds if kind not in OPEN]
Json = dict[str, Any]
_OF_PODS = {"containers", "initContainers", "volumes"}


def whole(api_version: str, kind: str) -> Json:
    """An object of which nothing is refused."""
    labels = {"kustomize.toolkit.fluxcd.io/name": RUN, "trainyard.dev/job": RUN}
    item: Json = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": RUN, "namespace": TEAM, "labels": labels},
    }
    return item | WHOLE.get(kind, {"spec": {}})


OWN = {"trainyard.dev/job": RUN}
POD: Json = {
    "metadata": {"labels": OWN},
    "spec": {
        "restartPolicy": "Never",
        "serviceAccountName": RUN,
        "securityContext": {"runAsNonRoot": True},
        "containers": [{"name": "trainer", "image": "registry.example.com/x"}],
    },
}
WHOLE: Mapping[str, Json] = {
    "ConfigMap": {"data": {}},
    "ExternalSecret": {"spec": {"secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"}}},
    "Job": {"spec": {"template": POD}},
    "JobSet": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": POD}}}]}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": OWN}}},
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "nfs",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "PodMonitor": {"spec": {"selector": {"matchLabels": OWN}, "podMetricsEndpoints": []}},
    "RayCluster": {"spec": {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"template": POD}]}},
    "RayJob": {"spec": {"rayClusterSpec": {"headGroupSpec": {"template": POD}}, "submitterPodTemplate": POD}},
    "Service": {"spec": {"selector": OWN, "ports": [{"port": 80}]}},
    "ServiceAccount": {"automountServiceAccountToken": False},
}


@pytest.fixture(scope="module")
def account() -> Iterator[Client]:
    """The team's account, with every right in its namespace, on a server with the policies."""
    with running() as plane, contextlib.closing(plane.client()) as client:
        labels = {"trainyard.dev/team": TEAM}
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}})
        kinds = {(kind.group, kind.version, kind.name): kind for policy in POLICIES for kind in policy.kinds}
        for api_version, kind in OPEN:
            group, _, version = api_version.rpartition("/")
            client.create(definition(kinds[group, version, kind]))
            client.until(kind, partial(client.serves, api_version, kind))
        wanted = {policy.name for policy in POLICIES}
        for document in yaml.safe_load_all(stream()):
            if document["kind"] == "CustomResourceDefinition":
                client.apply(document)
                wait_for(client, Object.of(document, 0))
            elif document["metadata"]["name"] in wanted:
                client.apply(document)
        team = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "Team", "metadata": {"name": "team", "namespace": TEAM}}
        client.apply({**team, "spec": SPEC})
        metadata = {"name": "gitops", "namespace": TEAM}
        client.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", **metadata}],
            }
        )
        account = client.acting_as(gitops(TEAM))
        for policy in BAD:
            client.until(f"{policy} in force", partial(is_in_force, account, policy))
        yield account


BAD: Mapping[str, tuple[str, Any]] = {
    "sec005": ("hostPID", True),
    "sec010": ("overhead", {"cpu": "1"}),
    "sec011": ("dnsPolicy", "Default"),
    "sec012": ("automountServiceAccountToken", True),
}
"""A field of a pod for each policy, of which that policy alone speaks."""


def is_in_force(account: Client, policy: str) -> bool:
    """Whether a policy refuses by now what it alone speaks of."""
    field, value = BAD[policy]
    return policy in answer(account, changed(whole("batch/v1", "Job"), ("spec", "template", "spec", field), value))


def answer(account: Client, item: Json) -> str:
    """Why an object is refused; empty where it is not."""
    try:
        account.create(item, dry_run=True)
    except Refused as refused:
        return str(refused)
    return ""


def told(item: Json) -> list[str]:
    """What the linter's side refuses of an object."""
    return [found.name for found in _refused(item)]


def _refused(item: Json) -> list[Refusal]:
    return list(refusals(statement().kinds[item["apiVersion"], item["kind"]], item, CONTEXT))


@pytest.mark.parametrize("kind", statement().kinds, ids="/".join)
def test_a_whole_object_is_let_through_by_both(account: Client, kind: tuple[str, str]) -> None:
    item = whole(*kind)

    assert (told(item), answer(account, item)) == ([], "")


@pytest.mark.claim("fields-that-nobody-thought-of")
@pytest.mark.parametrize("kind", OPEN, ids="/".join)
def test_both_say_the_same_of_every_field(account: Client, kind: tuple[str, str]) -> None:
    differing, refused = [], 0
    for steps, value in fields_of(*kind):
        item = changed(whole(*kind), steps, value)
        ours, theirs = told(item), answer(account, item)
        refused += bool(ours)
        if bool(ours) != bool(theirs) or "fail" in theirs:
            differing.append((".".join(steps), value, ours, theirs[-300:]))

    assert differing == []
    assert refused or "PodGroup" in kind


@pytest.mark.claim("fields-that-nobody-thought-of")
@pytest.mark.parametrize("kind", BUILT_IN, ids="/".join)
def test_what_the_linter_refuses_no_server_takes(account: Client, kind: tuple[str, str]) -> None:
    """Where the API server has a word of its own, which may come first, it is enough that it does not take the object;
    fields of features that it does not have it drops."""
    differing = []
    for steps, value in fields_of(*kind):
        item = changed(whole(*kind), steps, value)
        ours, theirs = told(item), answer(account, item)
        if ours and not theirs and ".".join(steps) not in DROPPED:
            differing.append((".".join(steps), value, str(ours)))
        if not ours and "ValidatingAdmissionPolicy" in theirs:
            differing.append((".".join(steps), value, theirs[-300:]))

    assert differing == []


DROPPED = ("spec.dataSource", "spec.template.spec.schedulingGroup", "spec.template.spec.serviceAccount")
"""What the API server takes and leaves out: objects without any field, and an old name beside its new one."""


def fields_of(api_version: str, kind: str) -> Iterator[tuple[Steps, Any]]:
    """Every field of a kind but those of its metadata, each with a value of its type."""
    file = schema_of(SCHEMAS, api_version, kind)
    assert file is not None
    schema = json.loads(file.read_text())
    unknown: set[Steps] = set()
    for steps, value in fields(schema):
        above = {steps[:length] for length in range(1, len(steps))}
        if steps[0] in ("apiVersion", "kind", "metadata", "status") or not unknown.isdisjoint(above):
            continue
        if kind not in ("Job", "JobSet") and not _OF_PODS.isdisjoint(steps):
            continue  # pods are the same everywhere
        item = changed(whole(api_version, kind), steps, value)
        if any(found.is_unknown for found in _refused(item)):
            unknown.add(steps)  # what lies below is refused with it
        yield steps, value
