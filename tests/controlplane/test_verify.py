"""tools/verify-jobs: what a real API server refuses is said at the line that is wrong."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.checkout import GOOD, add_job, add_refused, make_checkout
from tests.controlplane.harness import HOME, Ground, ground_for, unit_of

pytestmark = pytest.mark.controlplane
SNAPSHOT = Path(__file__).parent / "snapshots/refused.txt"


def verify(*arguments: str | Path, cwd: Path = HOME, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs verify-jobs with nothing in its environment that could help it."""
    return subprocess.run(
        [HOME / "tools/verify-jobs", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(Path.home()), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_repository_passes() -> None:
    done = verify("--webhooks", "--format", "json", "--fail-on", "warning")

    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, []), done.stdout + done.stderr


@pytest.mark.claim("refused-at-its-line")
def test_what_is_refused_is_said_at_its_line(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    refused = add_refused(root)

    done = verify(*refused, "--color", "never", cwd=root, COLUMNS="120")

    assert done.returncode == 1, done.stderr
    assert done.stdout == SNAPSHOT.read_text()


def test_what_changed_alone_is_asked_about(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), ("commit", "--quiet", "-m", "state")):
        subprocess.run([*git, *words], cwd=root, check=True)
    nothing = verify("--changed", "main", cwd=root)
    folder = add_job(root, "one-more")

    done = verify("--changed", "main", "--format", "junit", cwd=root)

    assert (nothing.returncode, nothing.stdout) == (0, "no job reads what changed since main\n"), nothing.stderr
    assert done.returncode == 0, done.stderr
    assert re.findall(r'<testcase[^>]* name="([^"]*)"', done.stdout) == [folder]


def test_lint_jobs_asks_the_server_where_it_is_told_to(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    folder = add_job(root, "over-quota", spec={"nodes": 7, "batch": {"micro": 15, "accumulation": 1, "global": 840}})
    lint = [str(HOME / "tools/lint-jobs"), "--no-cache", "--format", "json", folder]

    alone, asked = (
        subprocess.run([*lint, *more], cwd=root, capture_output=True, text=True, check=False)
        for more in ([], ["--server"])
    )

    before, after = (json.loads(done.stdout)["findings"] for done in (alone, asked))
    added = [finding for finding in after if finding not in before]
    assert [finding["rule"] for finding in added] == ["API001"]
    assert added[0]["message"].startswith("the API server refuses pod 7 of 7: exceeded quota: team")


def test_input_that_cannot_be_judged_is_told_apart(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    (root / "jobs/research" / GOOD / "job.yaml").write_text("kind: [")

    done = verify("jobs/research/" + GOOD, "nothing-here", cwd=root)

    assert done.returncode == 2
    assert "nothing-here" in done.stdout
    assert f"jobs/research/{GOOD}/job.yaml" in done.stdout


def test_a_comment_with_a_reason_silences_a_refusal(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    folder = add_job(root, "over-quota", spec={"nodes": 7, "batch": {"micro": 15, "accumulation": 1, "global": 840}})
    job = root / folder / "job.yaml"
    reason = "# lint-jobs: ignore[API001] two nodes are being added"
    job.write_text(job.read_text().replace("nodes: 7", f"nodes: 7 {reason}"))

    done = verify(folder, "--format", "json", cwd=root)

    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["summary"]["suppressed"] == 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ground]:
    """A cluster of somebody's own that already runs the good job."""
    unit = unit_of(f"jobs/research/{GOOD}")
    with ExitStack() as stack:
        ground = stack.enter_context(ground_for(unit, "kube-controller-manager", nodes=0))
        ground.apply(unit)
        yield ground


def names(cluster: Ground, api_version: str, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.client.list(api_version, kind)]


@pytest.mark.claim("asks-your-cluster")
def test_a_context_asks_that_cluster_and_changes_nothing(cluster: Ground, tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    add_job(root, "newcomer")
    config = str(cluster.plane.folder / "admin.kubeconfig")
    before = names(cluster, "batch/v1", "Job")

    done = verify("--context", "own", "jobs/research/newcomer", cwd=root, KUBECONFIG=config)

    assert done.returncode == 0, done.stdout + done.stderr
    assert names(cluster, "batch/v1", "Job") == before
    assert "newcomer" not in names(cluster, "v1", "Service")


def test_an_immutable_field_is_refused_where_the_job_runs_already(cluster: Ground, tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    job = root / "jobs/research" / GOOD / "job.yaml"
    job.write_text(job.read_text().replace("nodes: 4", "nodes: 2").replace("global: 480", "global: 240"))
    config = str(cluster.plane.folder / "admin.kubeconfig")

    done = verify("--context", "own", f"jobs/research/{GOOD}", "--format", "json", cwd=root, KUBECONFIG=config)

    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 1, done.stdout + done.stderr
    assert [(finding["path"], finding["message"]) for finding in findings if finding["object"].startswith("Job/")] == [
        ("spec.template", "the API server refuses this Job: field is immutable")
    ]
    assert {finding["object"].split("/")[0] for finding in findings if "SEC013" in finding["message"]} == {"ConfigMap"}


def test_a_program_of_the_kubeconfig_may_sign_in(cluster: Ground, tmp_path: Path) -> None:
    config = json.loads((cluster.plane.folder / "admin.kubeconfig").read_text())
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer = {**kind, "status": {"token": cluster.plane.token}}
    config["users"][0]["user"] = {"exec": {"command": "echo", "args": [json.dumps(answer)]}}
    (tmp_path / "config").write_text(json.dumps(config))

    done = verify("--context", "own", f"jobs/research/{GOOD}", KUBECONFIG=str(tmp_path / "config"))

    assert (done.returncode, done.stdout) == (0, "1 job passes\n"), done.stderr


def test_somebody_without_rights_is_told_so(cluster: Ground) -> None:
    config = str(cluster.plane.folder / "admin.kubeconfig")

    done = verify("--context", "own", "--as", "eve", f"jobs/research/{GOOD}", "--format", "json", KUBECONFIG=config)

    said = {finding["message"].partition(": ")[2] for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert all(text.startswith('User "eve" cannot patch resource ') for text in said)


def test_an_unknown_context_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: east, context: {}}]")

    unknown = verify("--context", "west", KUBECONFIG=str(config))
    absent = verify("--context", "west", KUBECONFIG=str(tmp_path / "none"))

    assert (unknown.returncode, absent.returncode) == (2, 2)
    assert unknown.stderr == "verify-jobs: the kubeconfig has no context 'west'; there are east\n"
    assert re.fullmatch(r"verify-jobs: no kubeconfig: \S+ does not exist\n", absent.stderr)


def test_a_cluster_that_does_not_answer_is_a_fault(tmp_path: Path, cluster: Ground) -> None:
    config = tmp_path / "config"
    shutil.copy(cluster.plane.folder / "admin.kubeconfig", config)
    config.write_text(config.read_text().replace(cluster.plane.server, "https://127.0.0.1:1"))

    done = verify("--context", "own", f"jobs/research/{GOOD}", KUBECONFIG=str(config))

    assert done.returncode == 3
    assert done.stderr.startswith("verify-jobs: fault: https://127.0.0.1:1 cannot be reached: ")


REFUSED_BY_WEBHOOKS = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: default}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: trainer, image: trainer}]}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: bert, namespace: default}
spec:
  replicatedJobs:
  - {name: a, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}
  - name: b
    dependsOn: [{name: c, status: Ready}]
    template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}
"""


@pytest.mark.claim("webhooks-are-asked")
def test_webhooks_are_asked_where_one_says_so(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(REFUSED_BY_WEBHOOKS)

    alone, asked = (verify(*more, "--color", "never", "jobs.yaml", cwd=tmp_path) for more in ([], ["--webhooks"]))
    both = verify("--webhooks", "--context", "own", "jobs.yaml", cwd=tmp_path)

    assert (alone.returncode, alone.stdout) == (0, "1 target passes\n"), alone.stdout + alone.stderr
    assert asked.returncode == 1, asked.stderr
    findings = re.findall(r"^error\[API001\] the API server refuses (.*)\n +--> (\S+)$", asked.stdout, re.MULTILINE)
    assert findings == [
        (
            'this PyTorchJob: admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the'
            " request: spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value: must have at least"
            " one container with name pytorch",
            "jobs.yaml:9:25",
        ),
        ("this JobSet: Internal error: replicatedJob: b cannot depend on replicatedJob: c", "jobs.yaml:11:1"),
    ]
    assert (both.returncode, both.stderr) == (
        2,
        "verify-jobs: --webhooks is for the own server: the cluster of --context has its webhooks\n",
    )
