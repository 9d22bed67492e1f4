"""What holds for all tests."""

import os
import shutil
import signal
from pathlib import Path

import hypothesis
import pytest

INSTALLED_GO = Path(__file__).resolve().parents[1] / ".tools" / "go" / "go" / "bin"


def pytest_configure() -> None:
    """Give every program that a test starts what it has on a terminal: Go on PATH, and an interrupt that ends it.

    Whoever runs the tests in the background may have them ignore interrupts, and what they start would do the same.
    Tests that are told to end clean up as interrupted ones do.
    No test depends on how fast the machine is: hypothesis sets no deadline.
    """
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if shutil.which("go") is None and INSTALLED_GO.is_dir():
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{INSTALLED_GO}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))
