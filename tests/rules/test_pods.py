from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests

FAMILIES = ("PLC", "PSA", "RBA", "RES", "SIC", "SNW")


@pytest.mark.parametrize("file", manifests("pods"), ids=lambda file: file.stem)
def test_what_is_said_about_pods(file: Path) -> None:
    check_told(file, *FAMILIES)
