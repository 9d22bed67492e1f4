"""What controllers refuse or get wrong: operators, Jobs, launchers, queues and Ray, from real manifests."""

from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests

FAMILIES = {
    "launchers": ("ACC", "LCH"),
    "operators": ("GNG", "JBS", "JOB", "LOG", "NAM", "OPR", "RST", "TRJ", "VOL"),
    "queues": ("QUE",),
    "ray": ("RAY",),
}
FILES = [file for folder in FAMILIES for file in manifests(folder)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_is_said_about_controllers(file: Path) -> None:
    check_told(file, *FAMILIES[file.parent.name])
