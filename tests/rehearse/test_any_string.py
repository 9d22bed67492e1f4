"""Whatever stands in any string of a manifest, a rehearsal changes nothing outside of the run's own folder.

Every string of a pod, keys included, is exchanged for one that means harm, each in a pod of its own, and so are those
of the objects beside it. What refuses a run before its pods start is switched off: it is the second wall that is tried.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearse.host import SECRET, host
from tests.rehearse.hostile import IMAGE, WITHOUT_A_WALL, Json, config_map, job_set, pod, rehearse

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]
SEED = 20_260
AT_ONCE = 8
"""Strings that are exchanged in one pod; twice, so that one that ends a pod early hides another only once."""
SHOWN = ("/", "/etc", "/home", "/opt", "/root", "/usr", "/var")
"""Folders of the machine whose entries are compared."""
MOUNT = {"name": "own", "mountPath": "/own", "subPath": "below"}
POD: Json = {
    "restartPolicy": "Never",
    "hostname": "any",
    "subdomain": "service",
    "nodeName": "node",
    "serviceAccountName": "account",
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {
        "nameservers": ["10.0.0.9"], "searches": ["example.com"], "options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "10.0.0.8", "hostnames": ["alias"]}],
    "initContainers": [
        {"name": "first", "image": IMAGE, "command": ["ln", "-s", "OUTSIDE", "/own/link"], "volumeMounts": [MOUNT]},
    ],
    "containers": [
        {
            "name": "main",
            "image": IMAGE,
            "command": ["sh", "-c", "id; ls -laR /own /object /down /mixed; cat /own/link/* /object/*"],
            "args": ["word"],
            "workingDir": "/work",
            "env": [
                {"name": "PLAIN", "value": "value"},
                {"name": "HOME", "value": "/home/any"},
                {"name": "PYTHONPATH", "value": "/modules"},
                {"name": "TRAINER_DATASET", "value": "/own/dataset"},
                {"name": "TRAINER_CHECKPOINT_DIR", "value": "/own/checkpoints"},
                {"name": "TRAINER_RUN", "value": "run"},
                {"name": "TRAINER_MODEL", "value": "gpt-tiny"},
                {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "keys", "key": "key"}}},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "of-token"}}},
            ],
            "envFrom": [{"prefix": "FROM_", "configMapRef": {"name": "keys"}}],
            "ports": [{"name": "port", "containerPort": 29400, "protocol": "TCP"}],
            "startupProbe": {"exec": {"command": ["true"]}},
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [
                MOUNT,
                {"name": "shared", "mountPath": "/shared", "subPathExpr": "$(PLAIN)"},
                {"name": "object", "mountPath": "/object"},
                {"name": "down", "mountPath": "/down"},
                {"name": "mixed", "mountPath": "/mixed/here"},
                {"name": "host", "mountPath": "/host"},
                {"name": "memory", "mountPath": "/dev/shm"},
            ],
        }
    ],
    "volumes": [
        {"name": "own", "emptyDir": {}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "object", "configMap": {"name": "keys", "items": [{"key": "key", "path": "path/file"}]}},
        {"name": "down", "downwardAPI": {"items": [{"path": "label", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "mixed", "projected": {"sources": [
            {"secret": {"name": "token", "items": [{"key": "of-token", "path": "secret"}]}},
            {"serviceAccountToken": {"path": "bearer"}}]}},
        {"name": "host", "hostPath": {"path": "/var/lib", "type": "Directory"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ],
}  # fmt: skip
KEPT = {"Never", IMAGE, "sh", "ln"}
"""What has a meaning without which there is no run."""


def harmful(home: Path) -> list[str]:
    """Strings that mean harm to a folder of this machine."""
    upwards = "../../../../../../../../../.."
    return [
        f"{home}/thesis",
        f"{upwards}{home}/thesis",
        f"/{upwards}/oldroot{home}/made",
        f"x/{upwards}{home}/.ssh/authorized_keys",
        f"--bind {home}\n{home}/made",
        f"$(touch {home}/made) `touch {home}/made` %s * ~",
        f"{home}/made\0",
        "..",
        "",
        "a" * 5000,
    ]


def strings(value: Any) -> Iterator[str]:
    """Every string of plain data that a program reads, keys of free choice among them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from strings(each)
            if key in ("cpu", "memory", "key"):
                yield key
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def exchanged(value: Any, old: str, new: str) -> Any:
    """Data in which a string is another one, wherever it stands, so that what refers to it still does."""
    if isinstance(value, dict):
        renamed = {new if key == old and key in ("cpu", "memory") else key: each for key, each in value.items()}
        return {key: exchanged(each, old, new) for key, each in renamed.items()}
    if isinstance(value, list):
        return [exchanged(each, old, new) for each in value]
    return new if value == old else value


def entries() -> set[str]:
    """What lies in some folders of the machine."""
    return {str(path) for folder in SHOWN if Path(folder).is_dir() for path in Path(folder).iterdir()}


def test_no_string_of_a_pod_changes_the_machine(tmp_path: Path) -> None:
    with host() as reviewer:
        chance, bad = random.Random(SEED), harmful(reviewer.home)
        whole = json.loads(json.dumps(POD).replace("OUTSIDE", str(reviewer.home)))
        words = [word for word in dict.fromkeys(strings(whole)) if word not in KEPT]
        pods = {}
        for turn in range(2):
            chance.shuffle(words)
            for first in range(0, len(words), AT_ONCE):
                changed = whole
                for word in words[first : first + AT_ONCE]:
                    changed = exchanged(changed, word, chance.choice(bad))
                pods[f"strings-{turn}-{first}"] = changed
        before = entries()

        done = rehearse(tmp_path, [*job_set(pods), config_map("keys", {"key": "value"})], before=WITHOUT_A_WALL)

        assert reviewer.touched() == [], done.stderr
        assert done.returncode in (0, 1), done.stderr
        assert SECRET not in done.stdout + done.stderr
    assert entries() == before


def of(kind: str, name: str, version: str = "v1", **fields: Any) -> Json:
    """An object of the job's namespace."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "research"}, **fields}


LISTS = {**POD, "containers": [{**POD["containers"][0], "command": ["sh", "-c", "ls -la /object"]}]}
FROM = [
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    {"namespaceSelector": {"matchLabels": {"team": "research"}}},
]
POLICY = {
    "podSelector": {"matchLabels": {"app": "any"}},
    "policyTypes": ["Ingress"],
    "ingress": [{"from": FROM, "ports": [{"port": "port", "protocol": "TCP"}]}],
}
SERVICE = {
    "clusterIP": "None",
    "selector": {"app": "any"},
    "ports": [{"name": "port", "port": 1, "protocol": "TCP"}],
}
BESIDE: list[Json] = [
    *job_set({"any": LISTS}),
    config_map("keys", {"key": "value"}),
    of("Secret", "token", data={"of-token": "YQ=="}),
    of("Service", "service", spec=SERVICE),
    of("NetworkPolicy", "policy", "networking.k8s.io/v1", spec=POLICY),
]
NAMES = (
    "hostile", "research", "any", "keys", "key", "token", "of-token", "YQ==", "service", "port", "policy", "10.0.0.0/8",
    "10.1.0.0/16", "None", "claim", "TCP",
)  # fmt: skip


@pytest.mark.parametrize("part", range(2))
def test_no_string_beside_a_pod_changes_the_machine(tmp_path: Path, part: int) -> None:
    with host() as reviewer:
        chance, bad = random.Random(SEED + part), harmful(reviewer.home)
        objects: Any = json.loads(json.dumps(BESIDE).replace("OUTSIDE", str(reviewer.home)))
        for name in NAMES[part::2]:
            objects = exchanged(objects, name, chance.choice(bad))
        before = entries()

        done = rehearse(tmp_path, objects, "--once", "--logs", "logs", before=WITHOUT_A_WALL)

        assert reviewer.touched() == [], done.stderr
        assert done.returncode in (0, 1, 2), done.stderr
        assert SECRET not in done.stdout + done.stderr
    assert entries() == before


def test_a_probe_with_a_word_that_no_program_takes_fails_as_it_would_on_a_node(tmp_path: Path) -> None:
    done = _probed(tmp_path, ["test", "-e", "/a\0b"])

    assert "the startup probe of main ends it" in done.stdout + done.stderr


def test_a_container_with_an_environment_that_no_program_takes_fails_and_so_does_its_probe(tmp_path: Path) -> None:
    done = _probed(tmp_path, ["true"], env=[{"name": "OWN", "value": "a\0b"}])

    assert "error: sleep: embedded null byte" in done.stdout + done.stderr


def _probed(folder: Path, words: list[str], **container: Any) -> Any:
    """What comes of a pod that a startup probe asks by these words; it is refused."""
    container["startupProbe"] = {"exec": {"command": words}, "periodSeconds": 1, "failureThreshold": 1}
    pods = {"asked": pod(["sleep", "60"], container=container, terminationGracePeriodSeconds=1)}
    done = rehearse(folder, job_set(pods), before=WITHOUT_A_WALL)
    assert done.returncode == 1, done.stderr
    return done
