"""Texts of an editor stand for those of files: what is found is what would be found once they are saved."""

from pathlib import Path

import pytest

from tests.cli.command import LLAMA
from tests.copies import copy_parts
from trainyard.cache import Digests
from trainyard.findings.finding import Finding
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover
from trainyard.yaml.sources import Sources

PARTS = ("base", "overlays", "clusters/gpu-east", LLAMA)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_parts(tmp_path, *PARTS)
    return tmp_path


def found(root: Path, unsaved: dict[str, str] | None = None) -> tuple[Finding, ...]:
    return lint(root, discover([LLAMA], root, root), use_cache=False, unsaved=unsaved).findings


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (f"{LLAMA}/job.yaml", "global: 128", "global: 96"),
        (f"{LLAMA}/job.yaml", "spec:", "spec: ["),
        (f"{LLAMA}/kustomization.yaml", "base/torchrun", "base/nowhere"),
        ("clusters/gpu-east/facts/cluster.yaml", "kind: Cluster", "kind: Clusters"),
        ("base/torchrun/kustomization.yaml", "resources:", "resource:"),
    ],
)
def test_it_is_judged_as_if_it_were_saved(root: Path, file: str, before: str, after: str) -> None:
    text = (root / file).read_text()
    assert before in text
    unsaved = found(root, {file: text.replace(before, after)})
    (root / file).write_text(text.replace(before, after))

    assert unsaved
    assert unsaved == found(root)
    assert found(root, {file: text}) == ()


def test_a_symlink_leads_to_the_unsaved_text(root: Path) -> None:
    (root / "link.yaml").symlink_to(f"{LLAMA}/job.yaml")
    unsaved = {f"{LLAMA}/job.yaml": "typed: true\n"}

    assert Sources(root, unsaved).text("link.yaml") == "typed: true\n"
    assert Digests(root, unsaved).of(f"{LLAMA}/job.yaml") != Digests(root).of(f"{LLAMA}/job.yaml")
    assert Digests(root, unsaved).of("link.yaml") == Digests(root).of("link.yaml")
