"""A checkout whose jobs a real API server refuses, each for the reason that it is named after."""

import shutil
from pathlib import Path

import yaml

from tests.copies import copy_parts

SOURCES = ("base", "overlays", "clusters", "jobs")
GOOD = "gpt2-124m"

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  namespace: research
  name: scratch
spec:
  accessModes: [ReadWriteMany]
  storageClassName: cephfs
{rest}"""

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: reads-secrets
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
"""


def make_checkout(place: Path) -> Path:
    """The repository's own bases, clusters and jobs at `place`; lab-west gives its team six nodes of sixteen."""
    copy_parts(place, *SOURCES)
    quota = place / "clusters/lab-west/platform/research/resource-quota.yaml"
    text = quota.read_text()
    for whole, part in (("1424", "544"), ("14464Gi", "5464Gi"), ('"128"', '"48"')):
        assert whole in text
        text = text.replace(whole, part)
    quota.write_text(text)
    return place


def add_job(
    root: Path,
    name: str,
    *,
    spec: dict[str, object] | None = None,
    extra: str = "",
    patch: list[dict[str, object]] | None = None,
) -> str:
    """A job like the good one but for parts of its spec, one resource more, or a JSON patch on its PodTemplate."""
    folder = root / "jobs/research" / name
    shutil.copytree(root / "jobs/research" / GOOD, folder)
    job = yaml.safe_load((folder / "job.yaml").read_text())
    job["metadata"]["name"] = name
    job["spec"] |= spec or {}
    (folder / "job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if extra:
        (folder / "extra.yaml").write_text(extra)
        kustomization["resources"].append("extra.yaml")
    if patch:
        (folder / "patch.yaml").write_text(yaml.safe_dump(patch, sort_keys=False))
        kustomization["patches"].append({"path": "patch.yaml", "target": {"kind": "PodTemplate"}})
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization, sort_keys=False))
    return f"jobs/research/{name}"


def add_manifest(root: Path, name: str, text: str) -> str:
    """A plain manifest file."""
    (root / "manifests").mkdir(exist_ok=True)
    (root / f"manifests/{name}.yaml").write_text(text)
    return f"manifests/{name}.yaml"


def add_refused(root: Path) -> list[str]:
    """One job or manifest for each way to be refused."""
    pod = "/template/spec"
    helper = {
        "name": "fetch",
        "image": f"registry.example.com/fetch@sha256:{'0' * 64}",
        "resources": {"limits": {"cpu": "200", "memory": "1Gi"}},
    }
    helper["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return [
        add_manifest(root, "bad-quantity", CLAIM.format(rest="  resources: {requests: {storage: 10Gb}}\n")),
        add_manifest(root, "claim-without-size", CLAIM.format(rest="")),
        add_job(root, "kind-of-the-platform", extra=ROLE),
        add_job(root, "larger-than-a-node", patch=[{"op": "add", "path": f"{pod}/initContainers", "value": [helper]}]),
        add_job(root, "over-quota", spec={"nodes": 7, "batch": {"micro": 15, "accumulation": 1, "global": 840}}),
        add_job(root, "pod-security", patch=[{"op": "add", "path": f"{pod}/hostNetwork", "value": True}]),
        add_job(root, "unknown-field", patch=[{"op": "add", "path": f"{pod}/restartsPolicy", "value": "Never"}]),
    ]
