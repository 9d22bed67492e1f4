"""Hostile pull requests and their honest neighbours, as data: each becomes a job folder of a copy of this repository.

An entry of the YAML files has `attack` and `near`, which are changes of a job, and `refused`, the rules that must speak
of the attack, at a line of the job folder unless `place` says where else. What a cluster says is the policy of the same
rule, unless `door` has other words. A change may have

    base        the way to launch it; torchrun otherwise
    team        vision and queued have a Team of their own, below
    run         its name
    training    fields of job.yaml
    pod         fields of the pod of a rank; trainer those of its container
    annotations annotations of pods, as the fabric gives them
    sidecar     fields of a second container
    volume      the source of a second volume
    objects     further objects; $job, $service ... are the spec of one that is whole otherwise, $name its name
    patches     JSON patches, each for a kind
    queue       true for the component base/queue/kueue

$RUN is the name of the run, $DIGEST a digest.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.bases.matrix import SOURCE, base_line, cluster_line, list_jobs, replace_in, replaced, without_jobs

HERE = Path(__file__).parent
CLUSTER = "gpu-east"
DIGEST = "7d0b1b5c3f6f9a52d6a2c1d84e0f7a9b3c5d7e9f1a2b3c4d5e6f708192a3b4c5"
TEAMS: Mapping[str, Mapping[str, Any]] = {
    "vision": {
        "fields": ["Pod.runtimeClassName", "Pod.hostNetwork", "Pod.dnsPolicy", "Volume.nfs"],
        "labels": {"project": "*"},
        "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/vision"},
        "audiences": ["sts.amazonaws.com"],
        "egress": [{"ipBlock": {"cidr": "10.70.0.0/16"}}],
    },
    "queued": {"queue": "training"},
}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attack:
    """One entry, with the folders that it becomes."""

    name: str
    refused: tuple[str, ...]
    """Rules, each of which speaks of the attack as an error."""
    door: tuple[str, ...]
    """Words, one of which the API server refuses it with."""
    place: str
    """How the file begins that the linter points to."""
    attack: Json
    near: Json
    folder: str
    near_folder: str


def attacks() -> list[Attack]:
    """All of them, in the order of the files."""
    entries = [each for file in sorted(HERE.glob("*.yaml")) for each in yaml.load(file.read_text(), yaml.CSafeLoader)]
    return [_attack(entry, index) for index, entry in enumerate(entries)]


def _attack(entry: Json, index: int) -> Attack:
    refused = _listed(entry["refused"])
    door = _listed(entry["door"]) if "door" in entry else tuple(f"{rule.lower()}.trainyard.dev" for rule in refused)
    folder, near = (
        f"jobs/{change.get('team', 'research')}/{change.get('run', f'{role}-{index}')}"
        for role, change in (("attack", entry["attack"]), ("near", entry["near"]))
    )
    place = entry.get("place", f"{folder}/")
    return Attack(entry["name"], refused, door, place, entry["attack"], entry["near"], folder, near)


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def repository(root: Path) -> None:
    """A repository below `root` with all of them, and with the teams that they need."""
    without_jobs(root)
    platform = root / "clusters" / CLUSTER / "platform"
    for team, spec in TEAMS.items():
        shutil.copytree(platform / "research", platform / team)
        replace_in(platform / team, "namespace: research\n", f"namespace: {team}\n")
        written = yaml.safe_load((platform / team / "team.yaml").read_text())
        written["spec"] |= {"secrets": [], **spec}
        (platform / team / "team.yaml").write_text(yaml.safe_dump(written))
    replace_in(platform, "- research\n", "".join(f"- {team}\n" for team in ("research", *TEAMS)))
    for attack in attacks():
        _write(root / attack.folder, attack.attack)
        _write(root / attack.near_folder, attack.near)
    list_jobs(root)


def _write(folder: Path, change: Json) -> None:
    folder.mkdir(parents=True)
    text = json.dumps(change).replace("$RUN", folder.name).replace("$DIGEST", DIGEST)
    change = json.loads(text)
    job = yaml.safe_load(replaced((SOURCE / "job.yaml").read_text(), "  name: gpt2-124m\n", f"  name: {folder.name}\n"))
    job["spec"] |= change.get("training", {})
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    shutil.copy(SOURCE / "kustomization.yaml", folder)
    replace_in(folder, base_line("torchrun"), base_line(change.get("base", "torchrun")))
    replace_in(folder, cluster_line("lab-west"), cluster_line(CLUSTER))
    replace_in(folder, "namespace: research", f"namespace: {folder.parent.name}")
    (folder / "objects.yaml").write_text(
        yaml.safe_dump_all(_object(each, folder.name) for each in change.get("objects", []))
    )
    if change.get("objects"):
        replace_in(folder, "patches:\n", "- objects.yaml\npatches:\n")
    if change.get("queue"):
        replace_in(folder, "patches:\n", "components:\n- ../../../base/queue/kueue\npatches:\n")
    annotated = [
        {"op": "add", "path": f"/spec/podAnnotations/{key.replace('/', '~1')}", "value": value}
        for key, value in change.get("annotations", {}).items()
    ]
    patches = "".join(
        f"- target:\n    kind: {each['kind']}\n  patch: |-\n    {json.dumps(each['patch'])}\n"
        for each in (*change.get("patches", ()), *([{"kind": "Fabric", "patch": annotated}] if annotated else ()))
    )
    template = _template(change)
    if template:
        (folder / "pod.yaml").write_text(yaml.safe_dump(template))
        patches += "- path: pod.yaml\n"
    replace_in(folder, "transformers:\n", f"{patches}transformers:\n")


def _template(change: Json) -> Json | None:
    """The patch on the pod of a rank."""
    spec: Json = dict(change.get("pod", {}))
    trainer: Json = {"name": "trainer", **change.get("trainer", {})}
    if "volume" in change:
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "extra", **change["volume"]}]
        trainer["volumeMounts"] = [*trainer.get("volumeMounts", ()), {"name": "extra", "mountPath": "/extra"}]
    if "sidecar" in change:
        spec["initContainers"] = [_merged(_SIDECAR, change["sidecar"])]
    if len(trainer) > 1:
        spec["containers"] = [trainer]
    if not spec:
        return None
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "training-job"}, "template": {"spec": spec}}


_SIDECAR: Json = {
    "name": "helper",
    "image": f"registry.example.com/helper@sha256:{DIGEST}",
    "command": ["sleep", "infinity"],
    "restartPolicy": "Always",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0", "memory": "0"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def _object(written: Json, run: str) -> Json:
    """An object as it is written, or one that is whole but for its spec."""
    short = next((key for key in written if key in _WHOLE), None)
    if short is None:
        return written
    made: Json = json.loads(json.dumps(_WHOLE[short]).replace("$RUN", run))
    made["metadata"]["name"] = written.get("$name", made["metadata"]["name"])
    made["spec"] = _merged(made["spec"], written[short])
    return made


def _merged(old: Any, new: Any) -> Any:
    """Maps merge, null deletes, everything else is replaced."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    found = {key: _merged(old.get(key), value) for key, value in new.items() if value is not None}
    return {key: value for key, value in old.items() if key not in new} | found


_RUN = {"trainyard.dev/job": "$RUN"}
_WHOLE: Mapping[str, Json] = {
    "$job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "$RUN-2",
            "labels": _RUN,
            "annotations": {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"},
        },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": _RUN},
                "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": "$RUN",
                    "automountServiceAccountToken": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [{key: value for key, value in _SIDECAR.items() if key != "restartPolicy"}],
                },
            },
        },
    },
    "$service": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "$RUN-2"},
        "spec": {"selector": _RUN, "ports": [{"name": "metrics", "port": 9090, "targetPort": "metrics"}]},
    },
    "$policy": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "$RUN-2"},
        "spec": {"podSelector": {"matchLabels": _RUN}},
    },
    "$secret": {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": "wandb"},
        "spec": {
            "refreshInterval": "1h",
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"},
            "target": {"name": "wandb"},
            "data": [{"secretKey": "k", "remoteRef": {"key": "teams/research/wandb"}}],
        },
    },
    "$monitor": {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "$RUN", "labels": {"release": "kube-prometheus-stack"}},
        "spec": {
            "selector": {"matchLabels": _RUN},
            "podMetricsEndpoints": [{"port": "metrics"}],
        },
    },
    "$claim": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "$RUN-2"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "nfs-csi",
            "resources": {"requests": {"storage": "1Ti"}},
        },
    },
}
