"""What the API server's own functions refuse: whole manifests in, what lint-jobs says out."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from trainyard.coprocess import Coprocess
from trainyard.findings.finding import Finding, Severity
from trainyard.lint.pipeline import lint
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.repository.discover import discover
from trainyard.schemas import validation

HOME = Path(__file__).resolve().parents[2]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: train, image: registry.example.com/train:1, command: [sleep, "1"]%s}
"""
PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          %scontainers:
          - {name: pytorch, image: registry.example.com/train:1, command: [sleep, "1"]}
"""
RAY_CLUSTER = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: shared, namespace: vision}
spec:
  rayVersion: 2.53.0
  enableInTreeAutoscaling: %s
  gcsFaultToleranceOptions:
    redisAddress: redis:6379
    redisPassword: {value: a, valueFrom: {secretKeyRef: {name: redis, key: password}}}
  autoscalerOptions:
    resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}
    volumeMounts: [{name: logs, mountPath: /logs}]
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers: [{name: head, image: "registry.example.com/ray:2.53.0"}]
        volumes: [{name: logs, emptyDir: {}}]
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: sft, namespace: vision}
spec:
  volumeClaimPolicies:
  - templates:
    - metadata: {name: scratch}
      spec: {accessModes: [%s], resources: {requests: {storage: 1Ti}}}
  replicatedJobs:
  - name: node
    template:
      spec:
        template:
          spec:
            containers:
            - {name: node, image: "registry.example.com/train:1", volumeMounts: [{name: scratch, mountPath: /scratch}]}
"""


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)


def found(folder: Path, **files: str) -> list[Finding]:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return list(lint(folder, discover(["job.yaml"], folder, folder), use_cache=False).findings)


def told(folder: Path, **files: str) -> list[str]:
    return [line(finding) for finding in found(folder, **files) if finding.severity >= Severity.WARNING]


def line(finding: Finding) -> str:
    at = finding.place.position
    where = f"{at.file}:{at.line}:{at.column}" if at else ", ".join(finding.jobs)
    return f"{finding.severity.name.lower()} {finding.rule} {where} {finding.message}"


def test_fields_that_do_not_go_together(tmp_path: Path) -> None:
    both = ', env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]'

    assert told(tmp_path, job=JOB % both) == [
        'error SCH011 job.yaml:9:111 env[A].valueFrom: Invalid value: "": '
        "may not be specified when `value` is not empty"
    ]


def test_a_pod_template_in_a_custom_resource_is_a_pod(tmp_path: Path) -> None:
    assert told(tmp_path, job=PYTORCH_JOB % "hostname: A_b\n          ") == [
        'error SCH011 job.yaml:10:21 hostname: Invalid value: "A_b": a lowercase RFC 1123 label must consist of lower '
        "case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
        " or '123-abc')"
    ]


def test_a_pod_template_that_is_right_is_taken(tmp_path: Path) -> None:
    assert told(tmp_path, job=PYTORCH_JOB % "hostname: a-b\n          ") == []


def test_the_container_that_scales_a_ray_cluster_is_one_of_its_pods(tmp_path: Path) -> None:
    refused = [text for text in told(tmp_path, job=RAY_CLUSTER % "true") if "SCH011" in text]

    assert refused == [
        'error SCH011 job.yaml:9:31 env[REDIS_PASSWORD].valueFrom: Invalid value: "": '
        "may not be specified when `value` is not empty",
        'error SCH011 job.yaml:11:33 cpu: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ]


def test_a_ray_cluster_that_nothing_scales_has_no_such_container(tmp_path: Path) -> None:
    assert not [text for text in told(tmp_path, job=RAY_CLUSTER % "false") if "cpu limit" in text]


@pytest.mark.parametrize(("modes", "refused"), [("ReadWriteManny", 1), ("ReadWriteMany", 0)])
def test_a_claim_that_a_controller_makes_is_judged_where_it_is_written(
    tmp_path: Path, modes: str, refused: int
) -> None:
    said = [text for text in told(tmp_path, job=JOB_SET % modes) if "SCH011" in text]

    assert len(said) == refused
    assert all(text.startswith("error SCH011 job.yaml:8:28 ") and modes in text for text in said), said


def test_a_number_that_does_not_fit_its_field(tmp_path: Path) -> None:
    text = JOB.replace("spec:\n  template", f"spec:\n  backoffLimit: {2**40}\n  template", 1) % ""

    (finding,) = (each for each in found(tmp_path, job=text) if each.severity >= Severity.ERROR)

    assert line(finding).split()[2] == "job.yaml:5:17"


def test_an_object_without_a_name(tmp_path: Path) -> None:
    assert told(tmp_path, job=JOB.replace("{name: train}", "{labels: {a: b}}", 1) % "") == [
        "error SCH011 job.yaml:3:1 metadata.name: Required value: name or generateName is required"
    ]


def test_what_a_program_writes_later_is_information(tmp_path: Path) -> None:
    text = JOB.replace("{name: train}", '{name: "${NAME}"}', 1) % ""

    (finding,) = (each for each in found(tmp_path, job=text) if each.rule == "SCH011")

    assert finding.severity is Severity.INFO
    assert "envsubst" in finding.help


def refused(text: str) -> list[str]:
    unit = Unit("job.yaml", False, (Object.of(yaml.safe_load(text), 0),))
    return [problem.message for problem, _ in validation.check(unit, ())]


def test_a_validation_that_was_ended_has_a_successor() -> None:
    assert refused(JOB % "") == []
    process = validation._validation._process
    assert process
    process.kill()
    process.wait()

    assert refused(JOB % ", terminationMessagePolicy: Sometimes") == [
        'containers[0].terminationMessagePolicy: Unsupported value: "Sometimes": supported values: '
        '"File", "FallbackToLogsOnError"'
    ]


def test_no_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that the validation breaks on does not pass."""
    monkeypatch.setattr(validation, "_validation", Coprocess(["sleep", "60"]))
    monkeypatch.setattr("trainyard.limits.VALIDATION_SECONDS", 0.2)

    assert told(tmp_path, job=JOB % "") == [
        "error INP002 job.yaml:0:0 TimeoutError: the API server's validation took over 0.2 s, or too much memory "
        "(LINT_JOBS_TRACEBACK=1 shows where)"
    ]


def test_it_is_the_api_server_of_verify_jobs() -> None:
    versions = []
    for module in ("validation", "controlplane"):
        text = (HOME / "tools/go" / module / "go.mod").read_text()
        versions.append(re.findall(r"^\s*(?:require )?(k8s\.io/(?:kubernetes|apimachinery) \S+)", text, re.MULTILINE))
    assert versions[0]
    assert set(versions[0]) <= set(versions[1])
