"""No message prints an object, or more of a value than its reader needs to know it again."""

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.findings.brief import MESSAGE, brief
from trainyard.lint.pipeline import lint
from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.repository.discover import discover
from trainyard.rules.examples import examples
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Problem, Rule
from trainyard.workload.of_unit import workloads
from trainyard.yaml.fieldpath import lookup

RULES = [rule for rule in all_rules().values() if not rule.declared]
A_MAP = {"key": {"below": "value"}}
PRINTED = re.compile(r"\{['\"]")


LONG = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: %s
  template:
    spec:
      containers:
      - name: trainer
        image: registry.example.com/trainer:1
        command: [torchrun, --nnodes=%s, train.py]
        env: [{name: NCCL_ALGO, value: %s}]
"""


def said(rule: Rule, unit: Unit) -> Iterator[Problem]:
    yield from problems(rule, unit, tuple(workloads(unit)))


def with_value(unit: Unit, spot: Spot, value: Any) -> Unit:
    """The unit with another value at a field."""

    def changed(item: Object) -> Object:
        if (item.index, item.kind) != (spot.object.index, spot.object.kind):
            return item
        data: Any = copy.deepcopy(item.data)
        lookup(data, spot.path[:-1])[spot.path[-1]] = value
        return Object.of(data, item.index)

    platform = None if unit.platform is None else tuple(map(changed, unit.platform))
    objects, facts = tuple(map(changed, unit.objects)), tuple(map(changed, unit.facts))
    return replace(unit, objects=objects, facts=facts, platform=platform)


def places(problem: Problem) -> Iterator[Spot]:
    for spot in (problem.spot, *problem.related):
        try:
            lookup(spot.object.data, spot.path)
        except KeyError:
            continue
        if spot.path:
            yield spot


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_a_map_where_a_text_belongs_is_not_printed(rule: Rule) -> None:
    units = [example.unit for example in examples(rule.page) if example.heading == "Bad"]
    spots = [(unit, spot) for unit in units for problem in said(rule, unit) for spot in places(problem)]
    told = [problem for unit, spot in spots for problem in said(rule, with_value(unit, spot, A_MAP))]
    assert [text for each in told for text in (each.message, each.help) if PRINTED.search(text)] == []


@given(st.text(max_size=3000))
def test_any_text_is_shown_in_a_line_or_two(text: str) -> None:
    shown = brief(text)
    assert len(shown) <= MESSAGE
    assert shown == text or "..." in shown
    assert brief(shown) == shown


def test_the_end_of_a_long_text_is_kept() -> None:
    assert brief("x" * 300 + " = 512, but global is 256").endswith(" = 512, but global is 256")


def test_long_values_do_not_make_long_findings(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "job.yaml").write_text(LONG % ("n" * 5000, "{a: {b: c}}", "9" * 1000, "R" * 5000))
    found = lint(tmp_path, discover(["job.yaml"], tmp_path, tmp_path), use_cache=False).findings
    assert found
    assert max(len(text) for each in found for text in (each.message, each.help)) <= MESSAGE
