"""No number of a manifest is how much the toolkit does: any field may hold 10^9, 10^30, one below 0 or a part of one.

Each manifest is judged in a process with little memory and time, by every rule, as lint-jobs does.
"""

import copy
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.attacks.fields import FIRST, Steps, changed, fields
from tests.workload.manifests import INPUTS, readable
from trainyard import limits
from trainyard.bounded import Here, ItemEnd, each
from trainyard.lint.result import found_by_rules
from trainyard.lint.unjudged import gaps
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules.examples import good_job
from trainyard.rules.index import all_rules
from trainyard.schemas.schema import schema_of
from trainyard.workload.of_unit import workloads

HOME = Path(__file__).resolve().parents[2]
NUMBERS: tuple[Any, ...] = (10**9, 10**30, -1, 0.5)
MOST_FINDINGS = 100
"""A number is one mistake, of which a few rules speak."""
_OF_PODS = {"containers", "initContainers", "ephemeralContainers", "volumes"}
Documents = list[Any]
Place = tuple[int, tuple[Any, ...]]


def manifests() -> dict[str, Documents]:
    """What is judged, by name."""
    job = good_job()
    found = {file.name: list(yaml.safe_load_all(file.read_text())) for file in sorted(INPUTS.glob("*.yaml"))}
    return found | {"a job of the rules' pages": [item.data for item in (*job.facts, *job.objects)]}


MANIFESTS = manifests()


def numbers(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where whole numbers stand, as such or as text."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdecimal()):
            yield (*above, key)
        yield from numbers(value, (*above, key))


def put(documents: Documents, places: Sequence[Place], number: Any) -> Documents:
    """The documents with a number in some places; as text where a text stood."""
    made = copy.deepcopy(documents)
    for index, (*above, last) in places:
        tree = made[index]
        for step in above:
            tree = tree[step]
        tree[last] = str(number) if isinstance(tree[last], str) else number
    return made


def written(name: str) -> Iterator[Documents]:
    """Manifests in which one number after the other is another, and then all of them."""
    documents = MANIFESTS[name]
    places = [(index, place) for index, document in enumerate(documents) for place in numbers(document)]
    for number in NUMBERS:
        for place in places:
            yield put(documents, [place], number)
        yield put(documents, places, number)


def unwritten(name: str) -> Iterator[Documents]:
    """Manifests with a number in one more field that their schemas have for one, after the other."""
    for index, document in enumerate(MANIFESTS[name]):
        file = schema_of(HOME / "schemas", document.get("apiVersion", ""), document.get("kind", ""))
        if file is None:
            continue
        there = {tuple(FIRST if isinstance(step, int) else step for step in place) for place in numbers(document)}
        for steps in integers(json.loads(file.read_text())):
            if steps not in there and (document["kind"] == "Job" or _OF_PODS.isdisjoint(steps)):
                made = changed(document, steps, 10**30)
                yield [*MANIFESTS[name][:index], made, *MANIFESTS[name][index + 1 :]]


def integers(schema: Any) -> list[Steps]:
    """The fields of a schema that hold a number."""
    return [steps for steps, value in fields(schema, 8) if value == 7 and steps[0] not in ("metadata", "status")]


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("made", [written, unwritten])
def test_a_number_is_judged_in_little_memory_and_time(
    name: str, made: Callable[[str], Iterator[Documents]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JUDGE_BYTES", 1 << 30)
    monkeypatch.setattr(limits, "JUDGE_SECONDS", 10)
    every = list(made(name))
    rules = all_rules()

    def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
        for item in items:
            here.begin(item, "workloads")
            unit = Unit(name, False, tuple(Object.of(data, index) for index, data in enumerate(every[item])))
            for workload in workloads(unit):
                readable(workload)
            found = list(found_by_rules(rules, unit, here.doing))
            here.doing("what was not judged")
            gaps(unit, found)
            yield item, b"%d" % len(found)

    for item, answer in each(len(every), work):
        assert not isinstance(answer, ItemEnd), (answer, yaml.safe_dump_all(every[item]))
        assert int(answer) < MOST_FINDINGS, yaml.safe_dump_all(every[item])
