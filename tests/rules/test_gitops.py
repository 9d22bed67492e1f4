"""GIT rules: what Git can track, and what a job folder may hold."""

from dataclasses import replace

import pytest

from tests.rules.judging import judge, judge_good_job_with
from trainyard.objects.objects import Object
from trainyard.rules.examples import good_job
from trainyard.rules.gitops.folder import other_namespace

OBJECT = "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a, namespace: research{more}}}\nspec: {{{spec}}}\n"


def manifest(api: str, kind: str, spec: str = "", more: str = "") -> str:
    return OBJECT.format(api=api, kind=kind, spec=spec, more=more)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (manifest("batch/v1", "Job", "ttlSecondsAfterFinished: 60"), "Job/a spec.ttlSecondsAfterFinished"),
        (manifest("batch/v1", "Job", "ttlSecondsAfterFinished: 0"), "Job/a spec.ttlSecondsAfterFinished"),
        (
            manifest("jobset.x-k8s.io/v1alpha2", "JobSet", "ttlSecondsAfterFinished: 60"),
            "JobSet/a spec.ttlSecondsAfterFinished",
        ),
        (
            manifest("kubeflow.org/v1", "PyTorchJob", "runPolicy: {ttlSecondsAfterFinished: 60}"),
            "PyTorchJob/a spec.runPolicy.ttlSecondsAfterFinished",
        ),
        (manifest("kubeflow.org/v2beta1", "MPIJob", "runPolicy: {ttlSecondsAfterFinished: 60}"), None),
        (manifest("ray.io/v1", "RayJob", "ttlSecondsAfterFinished: 60"), None),
        (
            manifest(
                "batch/v1", "Job", "ttlSecondsAfterFinished: 60", ", annotations: {argocd.argoproj.io/hook: Sync}"
            ),
            None,
        ),
    ],
)
def test_jobs_that_delete_themselves(text: str, field: str | None) -> None:
    found = judge("GIT001", text)
    assert [line.rpartition(" @ ")[2] for line in found] == ([field] if field else [])


SYNCED = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: jobs}\n---\n"
BY_FLUX = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: jobs}\n---\n"
GENERATED = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: smoke-, namespace: ci%s}\n"
WAVE = ", annotations: {argocd.argoproj.io/sync-wave: '1'}"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (SYNCED + GENERATED % "", "error"),
        (BY_FLUX + GENERATED % "", "error"),
        (GENERATED % WAVE, "error"),
        (GENERATED % "", "info"),
        (GENERATED.replace("batch/v1\nkind: Job", "argoproj.io/v1alpha1\nkind: Workflow") % "", "info"),
    ],
)
def test_a_generated_name_breaks_a_sync(text: str, severity: str) -> None:
    [found] = judge("GIT002", text)
    assert found.startswith(f"{severity}: ")
    assert "smoke-* has no fixed name, which kubectl apply, Argo CD and Flux refuse @ " in found


def test_a_job_that_deletes_itself_runs_again_where_git_is_followed() -> None:
    job = manifest("batch/v1", "Job", "ttlSecondsAfterFinished: 60")
    said = "Job a is deleted 60 s after it ends, and Argo CD or Flux creates it again"
    where = "Job/a spec.ttlSecondsAfterFinished"
    assert judge("GIT001", SYNCED + job) == [f"error: {said} @ {where}"]
    assert [line.partition(":")[0] for line in judge("GIT001", job)] == ["info"]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (manifest("batch/v1", "Job", "suspend: true"), ["GIT003"]),
        (manifest("batch/v1", "Job", "suspend: true", ", labels: {kueue.x-k8s.io/queue-name: q}"), []),
        (
            manifest("batch/v1", "Job", "suspend: true", ", labels: {kueue.x-k8s.io/queue-name: q}")
            + "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: jobs}\n",
            ["GIT007"],
        ),
        (manifest("batch/v1", "Job", "suspend: false"), []),
        (manifest("kubeflow.org/v1", "PyTorchJob", "runPolicy: {suspend: true}"), ["GIT003"]),
        (manifest("trainer.kubeflow.org/v1alpha1", "TrainJob", "suspend: true"), ["GIT003"]),
        (manifest("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "suspend: true"), []),
    ],
)
def test_suspended_jobs(text: str, rules: list[str]) -> None:
    assert [rule for rule in ("GIT003", "GIT007") if judge(rule, text)] == rules


@pytest.mark.parametrize(
    ("api", "kind", "allowed"),
    [
        ("v1", "ConfigMap", True),
        ("monitoring.coreos.com/v1", "PodMonitor", True),
        ("external-secrets.io/v1", "ExternalSecret", True),
        ("kueue.x-k8s.io/v1beta2", "LocalQueue", False),
        ("rbac.authorization.k8s.io/v1", "Role", False),
        ("apps/v1", "DaemonSet", False),
        ("serving.knative.dev/v1", "Service", False),
        ("v1", "Namespace", False),
    ],
)
def test_kinds_of_a_job_folder(api: str, kind: str, allowed: bool) -> None:
    said = f"error: a job folder may not hold a {kind} ({api}) @ {kind}/a kind"
    assert judge_good_job_with("GIT004", manifest(api, kind)) == ([] if allowed else [said])


def test_plain_manifests_may_hold_any_kind() -> None:
    assert judge("GIT004", manifest("apps/v1", "DaemonSet")) == []


def test_a_secret_has_its_own_rule() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: research}\nstringData: {k: v}\n"
    assert judge_good_job_with("GIT004", secret) == []
    assert judge_good_job_with("GIT004", secret.replace("stringData: {k: v}\n", "")) != []


@pytest.mark.parametrize(
    ("folder", "count"), [("jobs/research/llama-sft", 0), ("/tmp/copy/jobs/vision/llama-sft", 10), ("job", 0)]
)
def test_the_folder_says_whose_namespace_it_is(folder: str, count: int) -> None:
    assert len(list(other_namespace(replace(good_job(), name=folder)))) == count


def test_an_object_without_a_namespace_is_the_cluster_s() -> None:
    unit = good_job()
    claim = Object.of({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}, 99)
    found = list(other_namespace(replace(unit, objects=(*unit.objects, claim))))
    assert [problem.message for problem in found] == [
        "PersistentVolumeClaim a has no namespace, but this folder belongs to research"
    ]
