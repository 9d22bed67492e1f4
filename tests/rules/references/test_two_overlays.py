"""A name that kustomize changes for each of two overlays, in a field of a custom resource that it does not know."""

import re
import subprocess
from pathlib import Path

import yaml

from trainyard.findings.finding import Severity
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: asr}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/asr:1
            command: [python, train.py]
            envFrom: [{configMapRef: {name: settings}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {EPOCHS: "3"}
"""


def told(root: Path) -> list[str]:
    """Help of each error about names that were not carried."""
    targets = discover(["prod", "staging"], root, root)
    found = lint(root, targets, use_cache=False).findings
    errors = [each for each in found if each.severity >= Severity.ERROR]
    assert {each.rule for each in errors} <= {"REF002"}, errors
    return [each.help for each in errors]


def test_the_configuration_that_the_help_names_is_right_for_both(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("base", "prod", "staging"):
        (tmp_path / name).mkdir()
    (tmp_path / "base/job.yaml").write_text(JOB)
    (tmp_path / "base/kustomization.yaml").write_text("namespace: speech\nresources: [job.yaml]\n")
    overlay = "nameSuffix: -{}\nresources: [../base]\n"
    for name in ("prod", "staging"):
        (tmp_path / name / "kustomization.yaml").write_text(overlay.format(name))

    helps = told(tmp_path)
    assert helps
    (reference,) = {found[1] for text in helps if (found := re.search(r"nameReference: \[(\{.*\})\]", text))}

    names = yaml.safe_dump({"nameReference": [yaml.safe_load(reference)]})
    for name in ("prod", "staging"):
        (tmp_path / name / "names.yaml").write_text(names)
        (tmp_path / name / "kustomization.yaml").write_text(overlay.format(name) + "configurations: [names.yaml]\n")
    assert told(tmp_path) == []
