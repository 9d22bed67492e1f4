"""A manifest that is a part of a kustomization: a patch is not an object, and what is listed is completed by others."""

from pathlib import Path

import pytest

from trainyard.lint.outcome import Outcome
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  template:
    spec:
      containers:
      - {name: manager, image: manager:1, args: [--fast]}
"""
WITHOUT_SELECTOR = PATCH
MISSPELT = PATCH.replace("metadata:", "spek: {}\nmetadata:")
PATCHES = "patches:\n- path: more.yaml\n"
MERGED = "patchesStrategicMerge: [more.yaml]\n"
JSON = "patchesJson6902:\n- {path: more.yaml, target: {kind: Job}}\n"
OF_OLD = "nameprefix: a-\npatches: [more.yaml]\n"
LISTED = "resources: [more.yaml]\n"


def judged(root: Path, files: dict[str, str], name: str, *, use_cache: bool = False) -> Outcome:
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return lint(root, discover([name], root, root), use_cache=use_cache)


def told(outcome: Outcome) -> list[str]:
    return [f"{finding.rule} {finding.message}" for finding in outcome.findings]


def left(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in outcome.not_judged]


@pytest.mark.parametrize(
    "listing", [PATCHES, MERGED, OF_OLD, "patchesJson6902:\n- {path: more.yaml, target: {kind: Job}}\n"]
)
@pytest.mark.parametrize("text", [PATCH, "- {op: remove, path: /spec}\n", "spec: {replicas: 2}\n"])
def test_a_patch_is_not_judged_as_an_object(tmp_path: Path, listing: str, text: str) -> None:
    outcome = judged(tmp_path, {"default/kustomization.yaml": listing, "default/more.yaml": text}, "default/more.yaml")
    assert told(outcome) == []
    assert left(outcome) == [("more.yaml", "a patch of default/kustomization.yaml")]


def test_a_kustomization_above_names_its_patches_too(tmp_path: Path) -> None:
    files = {"kustomization.yaml": "patches:\n- path: ./below/more.yaml\n", "below/more.yaml": PATCH}
    assert left(judged(tmp_path, files, "below/more.yaml")) == [("more.yaml", "a patch of kustomization.yaml")]


@pytest.mark.parametrize("directive", ["$patch: delete", "$retainKeys: [name]", "$setElementOrder/containers: []"])
def test_what_directs_a_merge_is_a_patch(tmp_path: Path, directive: str) -> None:
    outcome = judged(tmp_path, {"more.yaml": f"{PATCH}  {directive}\n"}, "more.yaml")
    assert (told(outcome), left(outcome)) == ([], [("more.yaml", "a patch")])


def test_a_script_that_names_a_directive_is_none(tmp_path: Path) -> None:
    outcome = judged(tmp_path, {"more.yaml": PATCH.replace("--fast", "$patch")}, "more.yaml")
    assert told(outcome) == ['SCH001 spec: missing required field "selector"']


def test_what_a_kustomization_lists_may_get_its_fields_there(tmp_path: Path) -> None:
    files = {"default/kustomization.yaml": LISTED, "default/more.yaml": WITHOUT_SELECTOR}
    outcome = judged(tmp_path, files, "default/more.yaml")
    assert told(outcome) == []
    assert left(outcome) == [("required fields", "default/kustomization.yaml may add them")]


def test_a_name_that_says_patch_asks_for_no_field(tmp_path: Path) -> None:
    outcome = judged(tmp_path, {"manager_config_patch.yaml": PATCH}, "manager_config_patch.yaml")
    assert left(outcome) == [("required fields", "its name says that it is a patch")]
    assert told(outcome) == []


@pytest.mark.parametrize("name", ["default/more.yaml", "manager_patch.yaml"])
def test_its_other_fields_are_judged(tmp_path: Path, name: str) -> None:
    outcome = judged(tmp_path, {"default/kustomization.yaml": LISTED, name: MISSPELT}, name)
    assert told(outcome) == ['SCH001 unknown field "spek": did you mean "spec"?']


@pytest.mark.parametrize("listing", ["resources: [other.yaml]\n", "[", "resources: 1\n", ""])
def test_a_manifest_of_its_own_lacks_what_it_lacks(tmp_path: Path, listing: str) -> None:
    files = {"default/kustomization.yaml": listing} if listing else {}
    outcome = judged(tmp_path, {**files, "default/more.yaml": WITHOUT_SELECTOR}, "default/more.yaml")
    assert told(outcome) == ['SCH001 spec: missing required field "selector"']


def test_the_cache_sees_that_a_kustomization_comes_or_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "repository"
    alone = {"default/more.yaml": WITHOUT_SELECTOR}
    assert len(told(judged(root, alone, "default/more.yaml", use_cache=True))) == 1
    assert told(judged(root, {"default/kustomization.yaml": PATCHES}, "default/more.yaml", use_cache=True)) == []
    (root / "default/kustomization.yaml").unlink()
    assert len(told(judged(root, alone, "default/more.yaml", use_cache=True))) == 1
