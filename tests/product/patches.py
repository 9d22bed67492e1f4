"""The kinds of change that a researcher makes beside job.yaml.

Names are near those of the bases on purpose: what is called trainer-watch is not trainer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

IMAGE = f"registry.example.com/tools/shell@sha256:{'5c' * 32}"
POD = "apiVersion: v1\nkind: PodTemplate\nmetadata:\n  name: training-job\ntemplate:\n  spec:\n"
RANK = "    containers:\n    - name: trainer\n"
VARIABLE = "MY_JOB_KIND"
SIDECAR, INIT, VOLUME, FILE, SECRET = "trainer-watch", "prepare-dataset-cache", "dataset-two", "mixture", "HF_TOKEN"
ANNOTATION, LABEL = "example.com/owner", "example.com/project"
_KINDS = "  target:\n    kind: Job|JobSet|TrainJob|PyTorchJob|TFJob|MPIJob|RayJob\n"


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch of a job's kustomization."""

    text: str
    """Of patch.yaml."""
    target: str = ""
    """Of the patch, where it does not name its object itself."""
    generates: str = ""
    """What kustomization.yaml says beside it."""
    files: Mapping[str, str] = field(default_factory=dict)


def _beside(name: str, more: str) -> str:
    """A container of the pod that asks for nothing of its own: the rank takes the whole node."""
    return f"""\
    initContainers:
    - name: {name}
      image: {IMAGE}
{more}\
      resources:
        limits: {{cpu: "1", memory: 1Gi}}
        requests: {{cpu: "0", memory: "0"}}
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: {{drop: [ALL]}}
"""


_MOUNTED = "      volumeMounts:\n      - name: {name}\n        mountPath: /{name}\n    volumes:\n    - name: {name}\n"

PATCHES: Mapping[str, Patch] = {
    "variable": Patch(f"{POD}{RANK}      env:\n      - name: JOB\n      - name: {VARIABLE}\n        value: $(JOB)-1\n"),
    "secret": Patch(
        f"{POD}{RANK}      env:\n      - name: JOB\n      - name: {SECRET}\n        valueFrom:\n"
        "          secretKeyRef:\n            name: hugging-face\n            key: HF_TOKEN\n"
    ),
    "file": Patch(
        f"{POD}{RANK}{_MOUNTED.format(name=FILE)}      configMap:\n        name: {FILE}\n",
        generates=f"configMapGenerator:\n- name: {FILE}\n  files: [mixture.json]\n"
        "  options:\n    disableNameSuffixHash: true\n",
        files={"mixture.json": '{"web": 0.7, "books": 0.3}\n'},
    ),
    "volume": Patch(f"{POD}{RANK}{_MOUNTED.format(name=VOLUME)}      emptyDir:\n        sizeLimit: 10Gi\n"),
    "json-patch": Patch(
        f"- op: add\n  path: /template/spec/containers/0/env/-\n  value:\n    name: {VARIABLE}\n    value: $(JOB)-1\n",
        "  target:\n    kind: PodTemplate\n",
    ),
    "sidecar": Patch(POD + _beside(SIDECAR, "      restartPolicy: Always\n      command: [sleep, infinity]\n")),
    "init-container": Patch(POD + _beside(INIT, "      command: [sh, -c, date]\n")),
    "annotation": Patch(
        "apiVersion: trainyard.dev/v1alpha1\nkind: Fabric\nmetadata:\n  name: any\nspec:\n  podAnnotations:\n"
        f"    {ANNOTATION}: whales\n",
        "  target:\n    kind: Fabric\n",
    ),
    "metadata": Patch(
        f"- op: add\n  path: /metadata/labels/{LABEL.replace('/', '~1')}\n  value: whales\n"
        f"- op: add\n  path: /metadata/annotations/{ANNOTATION.replace('/', '~1')}\n  value: whales\n",
        _KINDS,
    ),
}
