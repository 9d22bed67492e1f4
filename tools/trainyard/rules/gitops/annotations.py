"""Rules on annotations by which a run would be lost, or its sync would fail: GIT013 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Remedy, all_of, put, remove
from trainyard.objects.unit import Unit
from trainyard.rules.gitops.fields import HOOK, annotation, label, value
from trainyard.rules.registry import Problem, rule

_SYNC = "argocd.argoproj.io/sync-options"
_HOOK_DELETED = "argocd.argoproj.io/hook-delete-policy"
_FLUX_FORCE = "kustomize.toolkit.fluxcd.io/force"
_FLUX_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
_FLUX_APPLY = "kustomize.toolkit.fluxcd.io/ssa"
_RUN = "trainyard.dev/job"
_TRAINING = {
    "batch": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("MPIJob", "PyTorchJob", "TFJob"),
    "ray.io": ("RayCluster", "RayJob"),
    "trainer.kubeflow.org": ("TrainJob",),
}
_HOOKS = {("", "Pod"), *((group, kind) for group, kinds in _TRAINING.items() for kind in kinds)}
"""What cannot be changed once it exists."""


@rule("GIT013", "replace-without-force", Severity.ERROR, needs=Object)
def replace_without_force(obj: Object) -> Iterator[Problem]:
    """Argo CD is told to replace a Job that exists, which no API server allows.

    A replacement comes without the selector and the labels that the Job got when it was created, and those are
    immutable: the first change of the manifest makes every later sync fail.

    Bad:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/sync-options: Replace=true}}
    Good:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true}}
    Near miss:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/sync-options: "Force=true, Replace=true"}}

    Source: https://github.com/argoproj/argo-cd/issues/5882
    """
    options = _options(obj, _SYNC)
    if (obj.group, obj.kind) == ("batch", "Job") and "Replace=true" in options and "Force=true" not in options:
        yield Problem(
            f"Job {obj.name} is replaced when its manifest changes, but its selector and pod template are immutable",
            obj.at("metadata", "annotations", _SYNC, label="the next change fails to sync"),
            help="remove it and give each run a new name, or write Force=true,Replace=true to delete the old one first",
        )


@rule("GIT014", "hook-kept-after-failure", Severity.WARNING, needs=Object, fix="safe")
def hook_kept_after_failure(obj: Object) -> Iterator[Problem]:
    """A hook Job of a fixed name is deleted after one outcome only, so the other blocks the syncs that follow.

    With HookSucceeded a Job that failed stays, and the next sync cannot change its pod template, even if the mistake is
    mended. BeforeHookCreation, which is also the default, deletes the old one first.

    Bad:
        # on: job
        metadata:
          name: fill-cache
          annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}
    Good:
        # on: job
        metadata:
          name: fill-cache
          annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: BeforeHookCreation}
    Near miss:
        # on: job
        metadata:
          name: null
          generateName: fill-cache-
          annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_hooks/
    """
    policies = _options(obj, _HOOK_DELETED)
    if (obj.group, obj.kind) not in _HOOKS or not annotation(obj, HOOK) or not value(obj, "metadata", "name"):
        return
    if policies in ({"HookSucceeded"}, {"HookFailed"}):
        (policy,) = policies
        kept = "fails" if policy == "HookSucceeded" else "succeeds"
        yield Problem(
            f"hook {obj.kind} {obj.name} stays where it {kept}, and the next sync cannot change it",
            obj.at("metadata", "annotations", _HOOK_DELETED),
            help="write BeforeHookCreation, or leave the annotation out: it is the default",
            fix=put(obj.at("metadata", "annotations", _HOOK_DELETED), f"BeforeHookCreation,{policy}"),
        )


@rule("GIT015", "run-in-a-hook", Severity.ERROR, needs=Unit, fix="safe")
def run_in_a_hook(unit: Unit) -> Iterator[Problem]:
    """The run of a job folder is an Argo CD hook.

    A hook is deleted and created again at every sync, so a merge elsewhere in the repository starts the training anew.
    It is not a part of the application either: its health is not shown, and removing the folder does not end it.

    Bad:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/hook: Sync}}
    Good:
        kind: Job
        metadata: {annotations: {argocd.argoproj.io/sync-wave: "1"}}
    Near miss:
        # on: job
        metadata: {annotations: {argocd.argoproj.io/hook: PostSync}}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_hooks/
    """
    for obj in _runs(unit):
        if annotation(obj, HOOK):
            yield Problem(
                f"{obj.kind} {obj.name} is a hook: Argo CD deletes it and trains again at every sync",
                obj.at("metadata", "annotations", HOOK),
                help="remove the annotation: a job is created once",
                fix=remove(obj.at("metadata", "annotations", HOOK)),
            )


@rule("GIT016", "forced-run", Severity.ERROR, needs=Unit)
def forced_run(unit: Unit) -> Iterator[Problem]:
    """The run of a job folder is deleted and created again when its manifest changes.

    A base or a cluster's facts may change while it trains; whoever edits them does not know that a run of days dies of
    it. A job is created once, and a change is a new job.

    Bad:
        kind: Job
        metadata: {annotations: {kustomize.toolkit.fluxcd.io/force: enabled}}
    Good:
        kind: Job
        metadata: {annotations: {kustomize.toolkit.fluxcd.io/ssa: IfNotPresent}}
    Near miss:
        # on: job
        metadata: {annotations: {kustomize.toolkit.fluxcd.io/force: enabled}}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """
    for obj in _runs(unit):
        for key, forces in ((_SYNC, "Force=true"), (_FLUX_FORCE, "enabled")):
            if _says(obj, key, forces):
                yield Problem(
                    f"{obj.kind} {obj.name} is deleted while it trains, should a base or its cluster's facts change",
                    obj.at("metadata", "annotations", key),
                    help=f"remove {forces}: a job is created once, and a change is a new job",
                )


@rule("GIT017", "claim-unprotected", Severity.ERROR, needs=Unit, fix="safe")
def claim_unprotected(unit: Unit) -> Iterator[Problem]:
    """The claim of a run goes when its folder goes, and the checkpoints with it.

    Removing the folder is how a run is stopped, and it must be possible to resume it. Argo CD keeps what says
    `Prune=false` and `Delete=false`, Flux what says `prune: disabled`; a base's claims say all three.

    Bad:
        kind: PersistentVolumeClaim
        metadata:
          name: llama-sft-checkpoints
          labels: {trainyard.dev/job: llama-sft}
          annotations: {argocd.argoproj.io/sync-options: Prune=false}
    Good:
        kind: PersistentVolumeClaim
        metadata:
          name: llama-sft-checkpoints
          labels: {trainyard.dev/job: llama-sft}
          annotations:
            argocd.argoproj.io/sync-options: Prune=false,Delete=false
            kustomize.toolkit.fluxcd.io/prune: disabled
    Near miss:
        kind: PersistentVolumeClaim
        metadata:
          name: llama-sft-scratch
          annotations: {}

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/
    """
    for obj in unit.objects:
        if not unit.is_job or (obj.group, obj.kind) != ("", "PersistentVolumeClaim") or not label(obj, _RUN):
            continue
        wanted = [(_SYNC, "Prune=false"), (_SYNC, "Delete=false"), (_FLUX_PRUNE, "disabled")]
        missing = [f"{key}: {option}" for key, option in wanted if not _says(obj, key, option)]
        if missing:
            yield Problem(
                f"claim {obj.name} is deleted with its folder: it lacks {', '.join(missing)}",
                obj.at("metadata", "annotations"),
                help="keep the annotations that the base gives it",
                fix=_protected(obj),
            )


@rule("GIT018", "run-not-create-only", Severity.ERROR, needs=Unit, fix="safe")
def run_not_create_only(unit: Unit) -> Iterator[Problem]:
    """Flux may change the run of a job folder after it was created.

    Its pod template is immutable, so the first change of a base, an overlay or a cluster's facts makes every later
    sync of the job fail; what is not immutable changes under the training. `ssa: IfNotPresent` says: create, then
    leave alone.

    Bad:
        kind: Job
        metadata: {labels: {trainyard.dev/job: llama-sft}, annotations: {kustomize.toolkit.fluxcd.io/ssa: Merge}}
    Good:
        kind: Job
        metadata: {labels: {trainyard.dev/job: llama-sft}, annotations: {kustomize.toolkit.fluxcd.io/ssa: IfNotPresent}}
    Near miss:
        kind: Service
        metadata: {labels: {trainyard.dev/job: llama-sft}}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """
    for obj in _runs(unit):
        if label(obj, _RUN) and not _says(obj, _FLUX_APPLY, "IfNotPresent"):
            yield Problem(
                f"{obj.kind} {obj.name} lacks {_FLUX_APPLY}: IfNotPresent, so Flux would apply every change to it",
                obj.at("metadata", "annotations"),
                help="keep the annotation that the base gives it",
                fix=put(obj.at("metadata", "annotations", _FLUX_APPLY), "IfNotPresent"),
            )


def _protected(obj: Object) -> Remedy | None:
    """The annotations that are missing, beside what Argo CD is told already."""
    options = _options(obj, _SYNC) - {"Prune=true", "Delete=true"} | {"Prune=false", "Delete=false"}
    spot = obj.at("metadata", "annotations")
    told = {_SYNC: ",".join(sorted(options, reverse=True)), _FLUX_PRUNE: "disabled"}
    if annotation(obj, _SYNC) is None and annotation(obj, _FLUX_PRUNE) is None and not value(obj, *spot.path):
        return put(spot, told)
    return all_of(put(spot.below(key), text) for key, text in told.items() if annotation(obj, key) != text)


def _runs(unit: Unit) -> Iterator[Object]:
    """The objects of a job folder that train."""
    if unit.is_job:
        yield from (obj for obj in unit.objects if obj.kind in _TRAINING.get(obj.group, ()))


def _options(obj: Object, key: str) -> set[str]:
    """What an annotation lists, which commas part."""
    written = annotation(obj, key)
    return {option.strip() for option in written.split(",")} - {""} if isinstance(written, str) else set()


def _says(obj: Object, key: str, option: str) -> bool:
    """Whether an annotation says so. Flux reads its own in any case of letters, Argo CD as they are."""
    options = _options(obj, key)
    return option in options or (key != _SYNC and option.lower() in {each.lower() for each in options})
