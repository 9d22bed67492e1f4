from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("mpi"), ids=lambda file: file.stem)
def test_what_is_said_about_mpi(file: Path) -> None:
    check_told(file, "MPI", "RDV")
