"""Rules on what Git can track, and on what a job folder may hold: GIT001 and up."""

from collections.abc import Iterator
from pathlib import PurePath

from trainyard.fieldpath import Path, lookup
from trainyard.finding import Severity
from trainyard.objects import Object
from trainyard.rules.registry import Problem, rule
from trainyard.unit import Unit
from trainyard.workload.plain import mapping

_HOOK = "argocd.argoproj.io/hook"
_FLUX_OFF = "kustomize.toolkit.fluxcd.io/reconcile"
_QUEUE = "kueue.x-k8s.io/queue-name"
_RUN_POLICY_KINDS = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
_ALLOWED = {
    "": ("ConfigMap", "Service", "PersistentVolumeClaim", "ServiceAccount"),
    "batch": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("PyTorchJob", "TFJob", "MPIJob"),
    "trainer.kubeflow.org": ("TrainJob",),
    "ray.io": ("RayJob", "RayCluster"),
    "networking.k8s.io": ("NetworkPolicy",),
    "scheduling.x-k8s.io": ("PodGroup",),
    "scheduling.volcano.sh": ("PodGroup",),
    "scheduling.k8s.io": ("PodGroup",),
    "external-secrets.io": ("ExternalSecret",),
    "monitoring.coreos.com": ("PodMonitor",),
}


@rule("GIT001", "ttl-on-tracked-job", Severity.ERROR, needs=Object)
def ttl_on_tracked_job(obj: Object) -> Iterator[Problem]:
    """A job that Git tracks deletes itself after it ends.

    Argo CD and Flux then see an object that Git has and the cluster has not, and create it again: the training runs a
    second time. An Argo CD hook is exempt, since hooks are not compared.

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
    path = _ttl_path(obj)
    if path is None or _untracked(obj):
        return
    seconds = _value(obj, *path)
    if seconds is not None:
        yield Problem(
            f"{obj.kind} {obj.name} is deleted {seconds} s after it ends, and Git then creates it again",
            obj.at(*path, label="the training runs a second time"),
            help="remove it: a finished job holds no GPU",
        )


@rule("GIT002", "generated-name", Severity.ERROR, needs=Object)
def generated_name(obj: Object) -> Iterator[Problem]:
    """An object has generateName instead of a name.

    kubectl apply, Flux and kustomize refuse it, because nothing says which object the next sync should compare with.
    Only Argo CD's hooks are created anew each time.

    Bad:
        # whole
        apiVersion: batch/v1
        kind: Job
        metadata: {generateName: smoke-test-, namespace: research}
    Good:
        # whole
        apiVersion: batch/v1
        kind: Job
        metadata: {name: smoke-test-1, namespace: research}
    Near miss:
        # whole
        apiVersion: batch/v1
        kind: Job
        metadata:
          generateName: smoke-test-
          namespace: research
          annotations: {argocd.argoproj.io/hook: PostSync}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_hooks/
    """
    metadata = mapping(obj.data.get("metadata"))
    if metadata.get("generateName") and not metadata.get("name") and not _annotation(obj, _HOOK):
        yield Problem(
            f"{obj.kind} {metadata['generateName']}* has no fixed name, so nothing can be compared with Git",
            obj.at("metadata", "generateName"),
            help="write metadata.name, a new one for each run",
        )


@rule("GIT003", "suspended", Severity.ERROR, needs=Object)
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
    if path is not None and _value(obj, *path) is True and not _label(obj, _QUEUE):
        yield Problem(
            f"{obj.kind} {obj.name} is suspended, and has no {_QUEUE} label by which a queue would start it",
            obj.at(*path, label="waits for ever"),
            help=f"remove suspend, or add the label {_QUEUE}",
        )


@rule("GIT007", "suspend-beside-queue", Severity.WARNING, needs=Object)
def suspend_beside_queue(obj: Object) -> Iterator[Problem]:
    """Git sets `suspend` on a job that a queue starts and stops.

    Kueue suspends the job when it is created and resumes it on admission. A value in Git is drift from then on: with
    self-heal on, the sync suspends the running job again.

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
    path = _suspend_path(obj)
    if path is not None and _value(obj, *path) is True and _label(obj, _QUEUE):
        yield Problem(
            f"{obj.kind} {obj.name} is suspended in Git, but queue {_label(obj, _QUEUE)} decides when it runs",
            obj.at(*path),
            related=(obj.at("metadata", "labels", _QUEUE, label="this queue suspends it by itself"),),
            help="remove suspend",
        )


@rule("GIT004", "kind-not-for-jobs", Severity.ERROR, needs=Unit)
def kind_not_for_jobs(unit: Unit) -> Iterator[Problem]:
    """A job folder holds an object that is not a researcher's to write.

    A folder may hold what one job needs: its job object, ConfigMaps, Services, claims, a ServiceAccount, policies,
    a PodGroup, external secrets and a PodMonitor. Rights, quotas, queues and anything that runs on every node belong
    to the cluster's folder, where the platform team reviews them.

    Bad:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: llama-sft, namespace: research}
    Good:
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: llama-sft, namespace: research}
    Near miss:
        # whole
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: platform, namespace: research}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/projects/
    """
    if not unit.is_job:
        return
    for obj in unit.objects:
        if obj.kind not in _ALLOWED.get(obj.group, ()) and not _is_full_secret(obj):
            yield Problem(
                f"a job folder may not hold a {obj.kind} ({obj.api_version})",
                obj.at("kind"),
                help="objects of this kind belong to clusters/",
            )


@rule("GIT005", "other-namespace", Severity.ERROR, needs=Unit)
def other_namespace(unit: Unit) -> Iterator[Problem]:
    """A job folder holds an object outside its team's namespace.

    The folder is jobs/<team>/<job>, and the team is the namespace. An object elsewhere would act on another team's
    quota, secrets or policies; one without a namespace is the cluster's.

    Bad:
        kind: Service
        metadata: {name: llama-sft, namespace: vision}
    Good:
        kind: Service
        metadata: {name: llama-sft, namespace: research}
    Near miss:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: llama-sft, namespace: vision}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/projects/
    """
    team = _team(unit)
    if not team:
        return
    for obj in unit.objects:
        if obj.namespace == team or obj.kind not in _ALLOWED.get(obj.group, ()):
            continue
        where = f"is in namespace {obj.namespace}" if obj.namespace else "has no namespace"
        yield Problem(
            f"{obj.kind} {obj.name} {where}, but this folder belongs to {team}",
            obj.at("metadata", "namespace"),
            help=f"keep namespace: {team} in kustomization.yaml, and no other in the folder",
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


def _value(obj: Object, *path: str | int) -> object:
    try:
        return lookup(obj.data, path)
    except KeyError:
        return None


def _annotation(obj: Object, key: str) -> object:
    return _value(obj, "metadata", "annotations", key)


def _label(obj: Object, key: str) -> object:
    return _value(obj, "metadata", "labels", key)


def _untracked(obj: Object) -> bool:
    return bool(_annotation(obj, _HOOK)) or _annotation(obj, _FLUX_OFF) == "disabled"


def _is_full_secret(obj: Object) -> bool:
    """A Secret with content has a rule of its own."""
    return obj.kind == "Secret" and bool(obj.data.get("data") or obj.data.get("stringData"))


def _team(unit: Unit) -> str:
    """The team of a job folder: jobs/<team>/<job>, else the namespace that its TrainingJob got."""
    if not unit.is_job:
        return ""
    parts = PurePath(unit.name).parts
    if len(parts) >= 3 and parts[-3] == "jobs":
        return parts[-2]
    job = unit.fact("TrainingJob")
    return job.namespace if job is not None else ""
