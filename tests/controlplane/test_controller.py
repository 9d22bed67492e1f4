"""A controller lives as long as the block that it was started for, however that ends, and says why it cannot start."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.harness import HOME
from trainyard.controlplane import Plane, controllers, running
from trainyard.controlplane.controllers import CONTROLLERS, PROGRAMS, controller
from trainyard.controlplane.definitions import load_definitions
from trainyard.errors import Fault

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

NAME = "mpi-operator"
ENDED_SECONDS = 10.0
STARTED = f"""
import sys, time
sys.path[:0] = [{str(HOME)!r}, {str(HOME / "tools")!r}]
from trainyard.controlplane.controllers import controller
from trainyard.controlplane import running
with running() as plane, controller({NAME!r}, plane):
    print(plane.folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def running_in(folder: Path) -> list[int]:
    """Processes of the controller that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                Path(os.readlink(process / "exe")) == PROGRAMS / NAME
                and folder in Path(os.readlink(process / "cwd")).parents
            ):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError])
def test_it_ends_with_its_block(plane: Plane, end: type[BaseException]) -> None:
    seen: list[int] = []

    with pytest.raises(end):
        run_until(end, plane, seen)

    assert len(seen) == 1
    assert running_in(plane.folder) == []


def test_the_training_operator_works_beside_pod_groups_of_others(plane: Plane) -> None:
    """Where the API server has PodGroups it watches them, whatever it is told of gangs: it has to know their kind."""
    with contextlib.closing(plane.client()) as client:
        load_definitions(client, CONTROLLERS["coscheduling"].kinds)

        with controller("training-operator", plane):
            at_work = client.until("workers", lambda: plane.log("training-operator").count("Starting workers") == 2)

    assert at_work


def run_until(end: type[BaseException], plane: Plane, seen: list[int]) -> None:
    with controller(NAME, plane):
        seen += running_in(plane.folder)
        raise end


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_the_process_that_started_it(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        assert len(running_in(folder)) == 1

        process.send_signal(how)
        process.wait(ENDED_SECONDS)

    deadline = time.monotonic() + ENDED_SECONDS
    while (running_in(folder) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running_in(folder) == []
    assert not folder.exists()


def test_one_that_cannot_start_says_why(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stamp").touch()
    (tmp_path / NAME).write_text("#!/bin/sh\necho no such flag\nexit 3\n")
    (tmp_path / NAME).chmod(0o755)
    monkeypatch.setattr(controllers, "PROGRAMS", tmp_path)

    with pytest.raises(Fault, match=f"{NAME} ended with 3\n-- {NAME}.log\nno such flag"), controller(NAME, plane):
        pass


def test_what_was_not_built_is_one_line(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "PROGRAMS", tmp_path)

    said = "run python3 tools/bootstrap.py controllers, which builds it"
    with pytest.raises(Fault, match=said), controller(NAME, plane):
        pass
