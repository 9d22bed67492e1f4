from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("references"), ids=lambda file: file.stem)
def test_what_is_said_about_names_that_pods_use(file: Path) -> None:
    check_told(file, "REF")
