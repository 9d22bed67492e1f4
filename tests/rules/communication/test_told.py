"""All that the ENV and NCL rules say about jobs with several faults."""

from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("communication"), ids=lambda file: file.stem)
def test_what_the_rules_tell(file: Path) -> None:
    check_told(file, "ENV", "NCL")
