"""The replay against kustomize's engine: they agree on where a value stands, or differ for a reason that is written."""

from pathlib import Path

import pytest

from tests.bases.matrix import replace_in, repository
from tests.kustomize.replay.cases import CASES
from tests.kustomize.replay.engine import REASONS, Scalar, counted, scalars
from tests.kustomize.replay.support import write
from tests.kustomize.replay.test_foreign import FOLDERS, FOREIGN
from tests.kustomize.replay.test_merge_at_random import trees
from tests.kustomize.replay.test_repository import JOBS, ROOT
from trainyard.kustomize.replay.resources import LOCAL_CONFIG


def test_jobs_of_this_repository() -> None:
    counts = counted(scalars(ROOT, JOBS))
    assert counts["same"] > 0.5 * counts.total()
    assert counts["same"] + counts["wired"] > 0.9 * counts.total()


def test_every_base_on_every_cluster(tmp_path: Path) -> None:
    counts = counted(scalars(tmp_path, repository(tmp_path)))
    assert counts["same"] + counts["wired"] > 0.9 * counts.total()


def test_facts_and_objects_before_they_are_wired(tmp_path: Path) -> None:
    folders = repository(tmp_path)
    for folder in folders:
        replace_in(tmp_path / folder, "transformers:\n- ../../../base/wiring\n", "")
    for file in tmp_path.rglob("*.yaml"):  # local objects, which kustomize does not print
        file.write_text(file.read_text().replace(f'{LOCAL_CONFIG}: "true"', f'{LOCAL_CONFIG}: "false"'))
    found = list(scalars(tmp_path, folders))
    assert {"TrainingJob", "PodTemplate", "Fabric", "Cluster"} <= {each.title.partition("/")[0] for each in found}
    counts = counted(found)
    assert counts["same"] > 0.85 * counts.total()
    assert counts["wired"] < 0.01 * counts.total()  # a base has some replacements of its own


def test_kustomizations_of_others() -> None:
    counts = counted(scalars(FOREIGN, FOLDERS))
    assert counts["same"] > 0.4 * counts.total()


def test_every_kind_of_field(tmp_path: Path) -> None:
    found: list[Scalar] = []
    for name, (tree, _) in CASES.items():
        write(tmp_path / name, tree)
        found += scalars(tmp_path / name, ["over"])
    counts = counted(found)
    assert counts.keys() | {"added"} == REASONS.keys()


@pytest.mark.parametrize("seed", range(3))
def test_random_patches(seed: int, tmp_path: Path) -> None:
    counts = counted(scalars(tmp_path, trees(tmp_path, seed)))
    assert counts.keys() == {"same", "set", "key", "identity", "added"}
    assert counts["same"] > 0.7 * counts.total()
