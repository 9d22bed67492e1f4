"""Custom resources: the server learns their definitions, validation rules included, before it is asked about them."""

import json
from pathlib import Path

import pytest

from tests.controlplane.test_verify import verify
from trainyard.controlplane.definitions import without_descriptions

pytestmark = pytest.mark.controlplane

JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: workers
  namespace: research
spec:
  replicatedJobs:
  - name: worker
    replicas: 1
    template:
      spec:
        completions: 2
        parallelism: 2
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: trainer
              image: registry.example.com/trainer:1
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: NAME
  namespace: research
spec:
  runtimeRef:
    name: torch-distributed
"""


def findings(folder: Path, manifest: str) -> list[tuple[str, int, str]]:
    """What verify-jobs says of a manifest: rule, line and field."""
    (folder / "manifest.yaml").write_text(manifest)
    done = verify("manifest.yaml", "--format", "json", cwd=folder)
    assert done.stdout, done.stderr
    return [(found["rule"], found["line"], found["path"]) for found in json.loads(done.stdout)["findings"]]


def test_a_good_custom_resource_is_taken(tmp_path: Path) -> None:
    assert findings(tmp_path, JOB_SET) == []


def test_a_field_that_the_definition_lacks_is_refused(tmp_path: Path) -> None:
    [(rule, line, _)] = findings(tmp_path, JOB_SET.replace("    replicas: 1", "    replica: 1"))
    assert (rule, line) == ("API001", 9)


def test_a_rule_of_the_definition_is_asked(tmp_path: Path) -> None:
    """A TrainJob's name becomes a DNS label: only a validation rule of its definition says so."""
    assert findings(tmp_path, TRAIN_JOB.replace("NAME", "bert")) == []
    [(rule, line, _)] = findings(tmp_path, TRAIN_JOB.replace("NAME", "bert.large"))
    assert (rule, line) == ("API001", 4)


def test_a_kind_that_is_not_known_is_said(tmp_path: Path) -> None:
    [(rule, line, path)] = findings(tmp_path, TRAIN_JOB.replace("TrainJob", "TrainJobs"))
    assert (rule, line, path) == ("API001", 2, "kind")


def test_only_what_is_for_readers_is_left_out() -> None:
    """A field may be called description, and the values that a schema knows may have one."""
    texts = {"description": "For readers.", "type": "object"}
    properties = {"description": {"type": "string", "description": "Of what."}, "image": texts}
    schema = {**texts, "properties": properties, "default": {"description": "none"}, "enum": [{"description": "a"}]}

    assert without_descriptions({"versions": [{"schema": schema}]}) == {
        "versions": [
            {
                "schema": {
                    "type": "object",
                    "properties": {"description": {"type": "string"}, "image": {"type": "object"}},
                    "default": {"description": "none"},
                    "enum": [{"description": "a"}],
                }
            }
        ]
    }
