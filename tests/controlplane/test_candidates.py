"""What verify-jobs holds in memory while it asks about many jobs."""

import gc
import tempfile
from pathlib import Path

from tests.controlplane.checkout import GOOD, add_job, make_checkout
from trainyard.findings.finding import Position
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


def test_a_key_that_stands_twice_is_told_and_the_object_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nkind: ConfigMap\nmetadata: {name: a, name: b}\n")
    targets = discover(["a.yaml"], tmp_path, tmp_path).targets

    with tempfile.TemporaryFile() as file:
        shelf = Shelf(tmp_path, Sources(tmp_path), file)
        made = shelf.put(targets, lambda _: None)
        ((_, unit, origin),) = shelf.taken(made)

    assert [(item.kind, item.name) for item in unit.objects] == [("ConfigMap", "b")]
    assert [(found.rule, found.input_error, found.place.position) for found in made[0].findings] == [
        ("INP001", True, Position("a.yaml", 3, 1, 1)),
        ("INP001", True, Position("a.yaml", 4, 21, 1)),
    ]
    at = origin.position(unit.objects[0], ("metadata", "name"))
    assert at is not None
    assert (at.line, at.column) == (4, 27)
