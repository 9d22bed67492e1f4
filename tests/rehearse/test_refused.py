"""What is refused before a rehearsal starts is what a real API server refuses, name by name and path by path."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trainyard.controlplane import Client, Refused, running
from trainyard.objects.objects import Object
from trainyard.rehearse.refused import of_object, of_pod

pytestmark = pytest.mark.controlplane
NAMESPACE = "research"
Json = dict[str, Any]
STRINGS = (
    "data", "a", "a-b", "a.b", "-a", "a-", "A", "a_b", "a b", "9", "1.2", "x" * 63, "x" * 64, "x" * 253, "x" * 254, "",
    ".", "..", "...", "..data", ".data", "a..b", "a/b", "a//b", "./a", "a/./b", "a/../b", "../a", "a/..", "/a", "/",
    "//a", "/a/../b", "a\\b", "a:b", "a=b", "~", "$(NAME)", "ä", "a\n", "a\tb",
)  # fmt: skip


def pod(volume: Json, mount: Json | None = None, **more: Any) -> Json:
    """A pod of one container and one volume."""
    mounts = [{"name": volume["name"], "mountPath": "/data", **(mount or {})}]
    container = {"name": "main", "image": "any", "volumeMounts": mounts, **more.pop("container", {})}
    spec = {"containers": [container], "volumes": [volume], "automountServiceAccountToken": False, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any", "namespace": NAMESPACE}, "spec": spec}


def of(kind: str, name: str, **fields: Any) -> Json:
    """An object beside the job."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **fields}


EMPTY: Json = {"name": "data", "emptyDir": {}}
FIELD = {"fieldPath": "metadata.name"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
FIELDS: dict[str, Callable[[str], Json]] = {
    "volume": lambda text: pod({"name": text, "emptyDir": {}}),
    "container": lambda text: pod(EMPTY, container={"name": text}),
    "init container": lambda text: pod(EMPTY, initContainers=[{"name": text, "image": "any"}]),
    "mounted volume": lambda text: pod(EMPTY, {"name": text}),
    "mountPath": lambda text: pod(EMPTY, {"mountPath": text}),
    "subPath": lambda text: pod(EMPTY, {"subPath": text}),
    "subPathExpr": lambda text: pod(EMPTY, {"subPathExpr": text}),
    "item": lambda text: pod({"name": "data", "configMap": {"name": "any", "items": [{"key": "any", "path": text}]}}),
    "secret item": lambda text: pod(
        {"name": "data", "secret": {"secretName": "any", "items": [{"key": "any", "path": text}]}}
    ),
    "label": lambda text: pod({"name": "data", "downwardAPI": {"items": [{"path": text, "fieldRef": FIELD}]}}),
    "token": lambda text: pod({"name": "data", "projected": {"sources": [{"serviceAccountToken": {"path": text}}]}}),
    "projected item": lambda text: pod(
        {
            "name": "data",
            "projected": {"sources": [{"configMap": {"name": "any", "items": [{"key": "a", "path": text}]}}]},
        }
    ),
    "variable": lambda text: pod(EMPTY, container={"env": [{"name": text, "value": "any"}]}),
    "hostname": lambda text: pod(EMPTY, hostname=text),
    "subdomain": lambda text: pod(EMPTY, subdomain=text),
    "key of a ConfigMap": lambda text: of("ConfigMap", "any", data={text: "any"}),
    "key of a Secret": lambda text: of("Secret", "any", stringData={text: "any"}),
    "ConfigMap": lambda text: of("ConfigMap", text),
    "Secret": lambda text: of("Secret", text),
    "PersistentVolumeClaim": lambda text: of("PersistentVolumeClaim", text, spec=CLAIM),
    "Service": lambda text: of("Service", text, spec={"clusterIP": "None", "ports": [{"port": 1}]}),
}
PAIRS: dict[str, Json] = {
    "two volumes of a name": pod(EMPTY, volumes=[EMPTY, EMPTY]),
    "two containers of a name": pod(EMPTY, initContainers=[{"name": "main", "image": "any"}]),
    "two mounts in a place": pod(EMPTY, container={"volumeMounts": [{"name": "data", "mountPath": "/data"}] * 2}),
    "a volume of two kinds": pod({**EMPTY, "configMap": {"name": "any"}}),
    "a good pod": pod(EMPTY),
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with a namespace, and an account for its pods."""
    with running() as plane:
        client = plane.client()
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        client.create(of("ServiceAccount", "default"))
        yield client


def refused_by_server(client: Client, data: Json) -> str:
    """The server's words; empty where it takes an object."""
    try:
        client.create(data, dry_run=True)
    except Refused as refused:
        return str(refused)
    return ""


def refused_here(data: Json) -> list[str]:
    """What is refused of an object before a rehearsal."""
    item = Object.of(data, 0)
    found = of_pod(data["spec"], item.at("spec")) if item.kind == "Pod" else of_object(item)
    return [message for message, _ in found]


@pytest.mark.parametrize("field", FIELDS)
def test_a_string_is_refused_where_the_server_refuses_it(client: Client, field: str) -> None:
    differ = {}
    for text in STRINGS:
        data = FIELDS[field](text)
        server, here = refused_by_server(client, data), refused_here(data)
        if bool(server) != bool(here):
            differ[text] = server or here
    assert not differ


@pytest.mark.parametrize("what", PAIRS)
def test_what_clashes_is_refused_where_the_server_refuses_it(client: Client, what: str) -> None:
    assert bool(refused_here(PAIRS[what])) == bool(refused_by_server(client, PAIRS[what])) == (what != "a good pod")


@pytest.mark.parametrize("name", STRINGS)
def test_a_claim_that_no_server_takes_is_refused_in_the_pod_already(client: Client, name: str) -> None:
    mounted = pod({"name": "data", "persistentVolumeClaim": {"claimName": name}})

    assert bool(refused_here(mounted)) == bool(refused_by_server(client, FIELDS["PersistentVolumeClaim"](name)))
