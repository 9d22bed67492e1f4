"""Rules that know the release of NCCL in the image."""

import pytest

from tests.rules.judging import judge_good_job_with


@pytest.mark.parametrize(
    ("release", "name", "value", "said"),
    [
        ("2.22.3", "NCCL_ALGO", "^Tree", "NCCL_ALGO=^Tree needs NCCL 2.24, but the image has 2.22.3"),
        ("2.22.3", "NCCL_ALGO", "Ring,PAT", "NCCL_ALGO=PAT needs NCCL 2.23, but the image has 2.22.3"),
        ("2.16.2", "NCCL_NVLS_ENABLE", "1", "NCCL_NVLS_ENABLE needs NCCL 2.17, but the image has 2.16.2"),
        ("2.24.3", "NCCL_ALGO", "^Tree", ""),
        ("2.24.3", "NCCL_DEBUG", "WARN", ""),
    ],
)
def test_what_a_release_does_not_know(release: str, name: str, value: str, said: str) -> None:
    facts = f"kind: Cluster\nspec: {{ncclVersion: '{release}'}}"
    config = f"kind: ConfigMap\nmetadata: {{name: llama-sft-nccl}}\ndata: {{{name}: '{value}'}}"
    found = judge_good_job_with("NCL074", f"{facts}\n---\n{config}")
    assert found == ([f"warning: {said} @ ConfigMap/llama-sft-nccl data.{name}"] if said else [])


def test_a_release_that_knows_no_gid_selection_may_pin_the_index() -> None:
    config = "kind: ConfigMap\nmetadata: {name: llama-sft-nccl}\ndata: {NCCL_IB_GID_INDEX: '3'}"
    assert judge_good_job_with("NCL010", f"kind: Cluster\nspec: {{ncclVersion: 2.18.5}}\n---\n{config}") == []


def test_a_job_s_own_release_wins_over_the_cluster_s() -> None:
    facts = "kind: Cluster\nspec: {ncclVersion: 2.18.5}\n---\nkind: TrainingJob\nspec: {ncclVersion: 2.24.3}"
    config = "kind: ConfigMap\nmetadata: {name: llama-sft-nccl}\ndata: {NCCL_ALGO: ^Tree}"
    assert judge_good_job_with("NCL074", f"{facts}\n---\n{config}") == []
