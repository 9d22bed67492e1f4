"""Fixes for one job: no file that is a default of other jobs is written."""

from pathlib import Path

import pytest

from tests.fixes.pages import RULES, Page
from trainyard.findings.finding import Fix
from trainyard.fixes.plan import plan
from trainyard.objects.manifests import ManifestOrigin
from trainyard.rules.examples import Example, examples
from trainyard.rules.registry import Rule
from trainyard.yaml.sources import Sources

FOLDER = "jobs/research/llama-sft"
JOB = """\
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama-sft}
spec:
  nodes: 4
"""
CASES = [
    (rule, example)
    for rule in RULES.values()
    if rule.fix != "none" and not rule.declared
    for example in examples(rule.page)
    if example.heading == "Bad" and example.unit.fact("TrainingJob") is not None
]


def _fixes(rule: Rule, example: Example) -> list[Fix]:
    """The fixes of a job that has all of its values from a base, and a job.yaml that says next to nothing."""
    page = Page.of(example)
    sources = Sources(Path("/"))
    sources.add("example.yaml", page.text)
    sources.add(f"{FOLDER}/job.yaml", JOB)
    origin = ManifestOrigin(page.nodes)
    return [
        plan(problem.fix, problem.help, origin, sources, FOLDER)
        for problem in page.problems(rule)
        if problem.fix is not None and all(change.spot.object.kind == "TrainingJob" for change in problem.fix.changes)
    ]


@pytest.mark.parametrize(("rule", "example"), CASES, ids=[f"{rule.id}-{i}" for i, (rule, _) in enumerate(CASES)])
def test_what_a_job_has_from_a_default_is_set_in_its_own_file(rule: Rule, example: Example) -> None:
    for fix in _fixes(rule, example):
        assert {edit.file for edit in fix.edits} == (set() if fix.refused else {f"{FOLDER}/job.yaml"})


def test_some_rules_set_values_of_a_job() -> None:
    fixes = [fix for rule, example in CASES for fix in _fixes(rule, example)]
    assert sum(not fix.refused for fix in fixes) >= 2
