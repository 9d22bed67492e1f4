"""docs/matrix.md: a real API server takes every base on every cluster, with what the cluster holds."""

import json
from pathlib import Path

import pytest

from tests.bases.matrix import repository
from tests.controlplane.test_verify import verify

pytestmark = pytest.mark.controlplane


def test_the_server_takes_every_job_of_the_matrix(tmp_path: Path) -> None:
    jobs = repository(tmp_path)
    done = verify("--format", "json", "--fail-on", "warning", *jobs, cwd=tmp_path)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    told = [f"{each['rule']} {each['jobs']}: {each['message']}" for each in report["findings"]]
    assert (told, done.returncode) == ([], 0)
