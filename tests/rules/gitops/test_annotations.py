"""GIT013 and up: annotations by which a run would be lost, or its sync would fail."""

import pytest

from tests.rules.judging import judge, judge_good_job_with

RUN = "metadata: {{name: {name}, labels: {{trainyard.dev/job: llama-sft}}, annotations: {{{notes}}}}}\n"


def job(notes: str, kind: str = "Job", api: str = "batch/v1") -> str:
    return f"apiVersion: {api}\nkind: {kind}\n" + RUN.format(name="llama-sft", notes=notes)


def claim(notes: str) -> str:
    return "apiVersion: v1\nkind: PersistentVolumeClaim\n" + RUN.format(name="llama-sft-checkpoints", notes=notes)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("Replace=true", True),
        ("Validate=false,Replace=true", True),
        ("Validate=false, Replace=true", True),
        ("Replace=true,Force=true", False),
        ("Replace=false", False),
        ("Force=true", False),
        ("", False),
    ],
)
def test_a_job_that_is_replaced(options: str, found: bool) -> None:
    said = judge("GIT013", job(f'argocd.argoproj.io/sync-options: "{options}"'))

    message = (
        "error: Job llama-sft is replaced when its manifest changes, but its selector and pod template are immutable"
    )
    assert said == (
        [f"{message} @ Job/llama-sft metadata.annotations[argocd.argoproj.io/sync-options]"] if found else []
    )


def test_what_is_no_job_may_be_replaced() -> None:
    notes = "argocd.argoproj.io/sync-options: Replace=true"

    assert judge("GIT013", job(notes, "ConfigMap", "v1")) == []
    assert judge("GIT013", job(notes, "Job", "batch.volcano.sh/v1alpha1")) == []


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("HookSucceeded", "fails"),
        ("HookFailed", "succeeds"),
        ("HookSucceeded,HookFailed", ""),
        ("BeforeHookCreation,HookSucceeded", ""),
        ("", ""),
    ],
)
def test_a_hook_that_blocks_the_next_sync(policy: str, kept: str) -> None:
    notes = f'argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: "{policy}"'

    said = judge("GIT014", job(notes))

    message = f"warning: hook Job llama-sft stays where it {kept}, and the next sync cannot change it"
    where = "Job/llama-sft metadata.annotations[argocd.argoproj.io/hook-delete-policy]"
    assert said == ([f"{message} @ {where}"] if kept else [])


def test_a_policy_of_what_is_no_hook_means_nothing() -> None:
    assert judge("GIT014", job("argocd.argoproj.io/hook-delete-policy: HookSucceeded")) == []


def test_a_run_in_a_hook() -> None:
    notes = "argocd.argoproj.io/hook: Sync"

    assert judge_good_job_with("GIT015", job(notes)) == [
        "error: Job llama-sft is a hook: Argo CD deletes it and trains again at every sync"
        " @ Job/llama-sft metadata.annotations[argocd.argoproj.io/hook]"
    ]
    assert judge("GIT015", job(notes)) == [], "plain manifests may hold hooks"


@pytest.mark.parametrize(
    ("notes", "what"),
    [
        ('argocd.argoproj.io/sync-options: "Force=true,Replace=true"', "Force=true"),
        ("argocd.argoproj.io/sync-options: Force=true", "Force=true"),
        ("kustomize.toolkit.fluxcd.io/force: enabled", "enabled"),
        ("kustomize.toolkit.fluxcd.io/force: Enabled", "enabled"),
        ("kustomize.toolkit.fluxcd.io/force: disabled", ""),
        ("argocd.argoproj.io/sync-options: force=true", ""),
    ],
)
def test_a_run_that_a_change_would_delete(notes: str, what: str) -> None:
    said = [line.partition(" @ ")[0] for line in judge_good_job_with("GIT016", job(notes))]

    message = "error: Job llama-sft is deleted while it trains, should a base or its cluster's facts change"
    assert said == ([message] if what else [])


@pytest.mark.parametrize(
    ("notes", "missing"),
    [
        (
            "",
            "argocd.argoproj.io/sync-options: Prune=false, argocd.argoproj.io/sync-options: Delete=false, "
            "kustomize.toolkit.fluxcd.io/prune: disabled",
        ),
        (
            'argocd.argoproj.io/sync-options: "Delete=false,Prune=confirm", '
            "kustomize.toolkit.fluxcd.io/prune: Disabled",
            "argocd.argoproj.io/sync-options: Prune=false",
        ),
        (
            'argocd.argoproj.io/sync-options: "Delete=false, Prune=false", kustomize.toolkit.fluxcd.io/prune: disabled',
            "",
        ),
    ],
)
def test_a_claim_that_goes_with_its_folder(notes: str, missing: str) -> None:
    said = judge_good_job_with("GIT017", claim(notes))

    message = f"error: claim llama-sft-checkpoints is deleted with its folder: it lacks {missing}"
    assert said == (
        [f"{message} @ PersistentVolumeClaim/llama-sft-checkpoints metadata.annotations"] if missing else []
    )
    assert judge("GIT017", claim(notes)) == [], "plain manifests keep what they like"


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ("kustomize.toolkit.fluxcd.io/ssa: null", True),
        ("kustomize.toolkit.fluxcd.io/ssa: Merge", True),
        ("kustomize.toolkit.fluxcd.io/ssa: IfNotPresent", False),
        ("kustomize.toolkit.fluxcd.io/ssa: ifnotpresent", False),
    ],
)
def test_a_run_that_flux_would_change(notes: str, found: bool) -> None:
    said = judge_good_job_with("GIT018", job(notes))

    message = (
        "error: Job llama-sft lacks kustomize.toolkit.fluxcd.io/ssa: IfNotPresent, "
        "so Flux would apply every change to it @ Job/llama-sft metadata.annotations"
    )
    assert said == ([message] if found else [])
