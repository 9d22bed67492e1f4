from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("network"), ids=lambda file: file.stem)
def test_what_is_said_about_network(file: Path) -> None:
    check_told(file, "NET")
