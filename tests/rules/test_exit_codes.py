from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("exit_codes"), ids=lambda file: file.stem)
def test_what_is_said_about_exit_codes(file: Path) -> None:
    check_told(file, "RST")
