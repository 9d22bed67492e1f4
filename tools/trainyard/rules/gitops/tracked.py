"""Rules on objects whose life Git and a controller would fight over: GIT001 to GIT003, GIT007."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import remove
from trainyard.objects.unit import Unit
from trainyard.rules.gitops.fields import HOOK, QUEUE, annotation, label, value
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import mapping, text
from trainyard.yaml.fieldpath import Path

_FLUX_OFF = "kustomize.toolkit.fluxcd.io/reconcile"
_RUN_POLICY_KINDS = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")


@rule("GIT001", "ttl-on-tracked-job", Severity.ERROR, needs=Unit, fix="safe")
def ttl_on_tracked_job(unit: Unit) -> Iterator[Problem]:
    """A job that Git tracks deletes itself after it ends.

    Argo CD and Flux then see an object that Git has and the cluster has not, and create it again: the training runs a
    second time. An Argo CD hook is exempt, since hooks are not compared. Of manifests that nothing shows to be synced
    it is information: with `kubectl create` the time does what it says.

    Bad:
        kind: Job
        spec: {ttlSecondsAfterFinished: 3600}
    Good:
        kind: Job
        spec: {activeDeadlineSeconds: 86400}
    Near miss:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/hook: PostSync}}
        spec: {ttlSecondsAfterFinished: 3600}

    Source: https://github.com/argoproj/argo-cd/issues/8586
    """
    for obj in unit.objects:
        path = _ttl_path(obj)
        seconds = None if path is None or _untracked(obj) else value(obj, *path)
        if path is not None and isinstance(seconds, int):
            yield Problem(
                f"{obj.kind} {obj.name} is deleted {seconds} s after it ends, and Argo CD or Flux creates it again",
                obj.at(*path, label="the training runs a second time"),
                help="remove it: a finished job holds no GPU",
                fix=remove(obj.at(*path)),
                severity=None if unit.is_synced else Severity.INFO,
            )


@rule("GIT002", "generated-name", Severity.ERROR, needs=Unit)
def generated_name(unit: Unit) -> Iterator[Problem]:
    """An object has generateName instead of a name.

    kubectl apply, Argo CD, Flux and kustomize refuse it, because nothing says which object the next sync should compare
    with. Only Argo CD's hooks are created anew each time. Of manifests that nothing shows to be synced it is
    information: `kubectl create` takes them.

    Bad:
        # on: job
        metadata: {name: null, generateName: smoke-test-}
    Good:
        # on: job
        metadata: {name: smoke-test-1}
    Near miss:
        # on: job
        metadata: {name: null, generateName: smoke-test-, annotations: {argocd.argoproj.io/hook: PostSync}}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_hooks/
    """
    for obj in unit.objects:
        metadata = mapping(obj.data.get("metadata"))
        if text(metadata.get("generateName")) and not metadata.get("name") and not annotation(obj, HOOK):
            yield Problem(
                f"{obj.kind} {metadata['generateName']}* has no fixed name, "
                "which kubectl apply, Argo CD and Flux refuse",
                obj.at("metadata", "generateName"),
                help="write metadata.name, a new one for each run",
                severity=None if unit.is_synced else Severity.INFO,
            )


@rule("GIT003", "suspended", Severity.ERROR, needs=Object, fix="unsafe")
def suspended(obj: Object) -> Iterator[Problem]:
    """A job is suspended, and no queue will start it.

    Kueue resumes jobs that carry a queue label. A suspended job without one waits for ever.

    Bad:
        kind: Job
        spec: {suspend: true}
    Good:
        kind: Job
        spec: {suspend: false}
    Near miss:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        spec: {suspend: true}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
    """
    path = _suspend_path(obj)
    if path is not None and value(obj, *path) is True and not label(obj, QUEUE):
        yield Problem(
            f"{obj.kind} {obj.name} is suspended, and has no {QUEUE} label by which a queue would start it",
            obj.at(*path, label="waits for ever"),
            help=f"remove suspend, or add the label {QUEUE}",
            fix=remove(obj.at(*path)).saying("remove suspend").unsafe(),
        )


@rule("GIT007", "suspend-beside-queue", Severity.WARNING, needs=Unit, fix="safe")
def suspend_beside_queue(unit: Unit) -> Iterator[Problem]:
    """Git sets `suspend` on a job that a queue starts and stops.

    Kueue suspends the job when it is created and resumes it on admission. A value in Git is drift from then on: with
    self-heal on, the sync suspends the running job again. Manifests that nothing shows to be synced are left alone.

    Bad:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        spec: {suspend: true}
    Good:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
    Near miss:
        kind: Job
        spec: {suspend: false}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
    """
    for obj in unit.objects if unit.is_synced else ():
        path = _suspend_path(obj)
        if path is not None and value(obj, *path) is True and text(label(obj, QUEUE)):
            yield Problem(
                f"{obj.kind} {obj.name} is suspended in Git, but queue {label(obj, QUEUE)} decides when it runs",
                obj.at(*path),
                related=(obj.at("metadata", "labels", QUEUE, label="this queue suspends it by itself"),),
                help="remove suspend",
                fix=remove(obj.at(*path)),
            )


def _ttl_path(obj: Object) -> Path | None:
    """Where a kind holds the time after which it deletes itself. RayJob and MPIJob v2 delete only what they made."""
    if obj.kind in _RUN_POLICY_KINDS and obj.api_version == "kubeflow.org/v1":
        return ("spec", "runPolicy", "ttlSecondsAfterFinished")
    if obj.kind in ("Job", "JobSet") and obj.group in ("batch", "jobset.x-k8s.io", "batch.volcano.sh"):
        return ("spec", "ttlSecondsAfterFinished")
    return None


def _suspend_path(obj: Object) -> Path | None:
    if obj.kind in _RUN_POLICY_KINDS:
        return ("spec", "runPolicy", "suspend")
    return ("spec", "suspend") if obj.kind in ("Job", "JobSet", "TrainJob", "RayJob", "RayCluster") else None


def _untracked(obj: Object) -> bool:
    return bool(annotation(obj, HOOK)) or annotation(obj, _FLUX_OFF) == "disabled"
