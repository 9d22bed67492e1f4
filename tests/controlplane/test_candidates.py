"""What verify-jobs holds in memory while it asks about many jobs."""

import gc
import tempfile
from pathlib import Path

from tests.controlplane.checkout import GOOD, add_job, make_checkout
from trainyard.objects.unit import Unit
from trainyard.repository.discover import discover
from trainyard.verify.candidates import Shelf
from trainyard.yaml.sources import Sources


def units_alive() -> int:
    gc.collect()
    return sum(isinstance(each, Unit) for each in gc.get_objects())


def test_one_job_is_in_memory_at_a_time(tmp_path: Path) -> None:
    root = make_checkout(tmp_path)
    folders = [f"jobs/research/{GOOD}", *(add_job(root, f"more-{number}") for number in range(5))]
    targets = discover(folders, root, root).targets
    before = units_alive()
    rendered, asked = [], []

    with tempfile.TemporaryFile() as file:
        shelf = Shelf(root, Sources(root), file)
        made = shelf.put(targets, lambda line: rendered.append((line, units_alive() - before)))
        between = units_alive() - before
        for job, unit, _ in shelf.taken(made):
            assert job.target.name == unit.name
            asked.append((unit.name, units_alive() - before))

    assert rendered == [(f"rendered {target.name}", 1) for target in targets]
    assert between == 0
    assert asked == [(target.name, 1) for target in targets]
