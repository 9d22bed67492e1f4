"""What holds for all tests."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.by_day import draw, of_this_shard

INSTALLED_GO = Path(__file__).resolve().parents[1] / ".tools" / "go" / "go" / "bin"
SESSIONS = "OMPI_MCA_orte_tmpdir_base"
"""Where Open MPI keeps a folder for each run of mpirun."""
MEMORY = 6 << 30
"""Bytes that one pytest process may hold. What tests start counts for itself."""


class Watched:
    """This pytest process, whose watcher is told which test it runs (tests/watcher.py)."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("watcher.py")), str(MEMORY)]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def _tell(self, what: str | None) -> None:
        assert self._watcher.stdin is not None
        with contextlib.suppress(OSError):
            self._watcher.stdin.write(json.dumps(what).encode() + b"\n")
            self._watcher.stdin.flush()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Say which test runs."""
        self._tell(item.nodeid)
        try:
            return (yield)
        finally:
            self._tell("")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Say that the tests are done."""
        self._tell(None)
        self._watcher.communicate()


def pytest_configure(config: pytest.Config) -> None:
    """Give every program that a test starts what it has on a terminal: Go on PATH, and an interrupt that ends it.

    Whoever runs the tests in the background may have them ignore interrupts, and what they start would do the same.
    Tests that are told to end clean up as interrupted ones do.
    No test depends on how fast the machine is: hypothesis sets no deadline.
    No run hangs: a worker that ends is not started again, to run the same test again, and each process is watched. What
    takes too long is ended by pytest (faulthandler_timeout).
    """
    if hasattr(config.option, "maxworkerrestart"):
        config.option.maxworkerrestart = "0"
    config.pluginmanager.register(Watched())
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if shutil.which("go") is None and INSTALLED_GO.is_dir():
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{INSTALLED_GO}"


@pytest.fixture(scope="session", autouse=True)
def _sessions_of_open_mpi() -> Generator[None, None, None]:
    """Each pytest process has a folder for the sessions of mpirun: one that ends removes what another will use."""
    with tempfile.TemporaryDirectory(prefix="mpi-", dir="/tmp") as folder:  # paths of its sockets have to be short
        os.environ[SESSIONS] = folder
        yield
        del os.environ[SESSIONS]


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    draw(items)
    items[:] = of_this_shard(items)
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))
