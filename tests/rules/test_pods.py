from pathlib import Path

import pytest

from tests.rules.telling import check_told, manifests

MODULES = (
    "amounts",
    "capacity",
    "host_network",
    "hugepages",
    "placement",
    "podsecurity",
    "rbac",
    "second_networks",
    "sidecars",
)


@pytest.mark.parametrize("file", manifests("pods"), ids=lambda file: file.stem)
def test_what_is_said_about_pods(file: Path) -> None:
    check_told(file, *MODULES)
