"""What a failed test of real controllers shows beside its own words: the end of their logs."""

from collections.abc import Generator

import pytest

from tests.controlplane.harness import Ground, Run
from trainyard.controlplane.controllers import log_of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        for ground in filter(None, map(_ground, item.funcargs.values())):
            report.sections += [(f"{name}.log", log_of(ground.plane, name)) for name in ground.controllers]
    return report


def _ground(argument: object) -> Ground | None:
    if isinstance(argument, Run):
        return argument.ground
    return argument if isinstance(argument, Ground) else None
