"""Whole manifests in, the whole Workload out."""

from pathlib import Path

import pytest

from tests.recorded import hold
from tests.workload.manifests import HERE, INPUTS, readable, unit
from trainyard.workload.of_unit import workloads


@pytest.mark.parametrize("manifest", sorted(INPUTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_workload_is_what_the_controllers_run(manifest: Path) -> None:
    found = "\n".join(readable(each) for each in workloads(unit(manifest.read_text())))
    hold(HERE / "snapshots" / f"{manifest.stem}.txt", found)


def test_every_snapshot_has_its_manifest() -> None:
    stems = {path.stem for path in INPUTS.glob("*.yaml")}
    assert {path.stem for path in (HERE / "snapshots").glob("*.txt")} == stems


def test_jobs_of_a_unit_come_in_rendered_order() -> None:
    text = "\n---\n".join((INPUTS / name).read_text() for name in ("tfjob.yaml", "indexed-script.yaml"))
    assert [each.object.title for each in workloads(unit(text))] == ["TFJob/ads/ctr", "Job/diffusion/sdxl-lora"]
