"""The pages of the rules are tests: what a page calls bad fires its rule, what it calls good or near miss does not."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.telling import HERE
from trainyard.objects.unit import Unit
from trainyard.rules.examples import HEADINGS, Example, examples, good_job, good_names, unit_of
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Rule
from trainyard.workload.of_unit import workloads

RULES = [rule for rule in all_rules().values() if not rule.declared]
CASES = [(rule, example) for rule in RULES for example in examples(rule.page)]


def said(rule: Rule, unit: Unit) -> list[str]:
    return [problem.message for problem in problems(rule, unit, tuple(workloads(unit)))]


@pytest.mark.claim("examples-are-tests", "tfjob-shards-nothing")
@pytest.mark.parametrize(("rule", "example"), CASES, ids=[f"{rule.id}-{example.heading}" for rule, example in CASES])
def test_examples_do_what_the_page_says(rule: Rule, example: Example) -> None:
    messages = said(rule, example.unit)

    assert bool(messages) == (example.heading == "Bad"), messages


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_good_manifests_are_good(rule: Rule) -> None:
    assert [problem for name in good_names() for problem in said(rule, good_job(name))] == []


def test_each_good_manifest_has_examples() -> None:
    assert {example.manifest or "folder" for _, example in CASES} == set(good_names())


def test_a_block_without_a_kind_changes_the_first_document_of_the_manifest_that_it_names() -> None:
    good, changed = good_job("trainjob"), Example("Bad", "# on: trainjob\nspec: {trainer: {numNodes: 2}}\n").unit

    assert [item.kind for item in good.objects] == ["TrainJob", "ClusterTrainingRuntime"]
    assert changed.objects[0].data["spec"]["trainer"] == {"numNodes": 2, "numProcPerNode": 8}
    assert changed.objects[1] == good.objects[1]


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_pages_are_complete(rule: Rule) -> None:
    lines = rule.page.strip().splitlines()
    headings = {example.heading for example in examples(rule.page)}

    assert lines[0].endswith("."), "the first line says what the rule says"
    assert headings == set(HEADINGS)
    assert "\n    Source: " in rule.page


def test_good_job_is_a_job_folder_with_its_facts() -> None:
    unit = good_job()

    assert unit.is_job
    assert [fact.kind for fact in unit.facts] == ["TrainingJob", "Fabric", "Cluster"]
    assert [workload.pods for workload in workloads(unit)] == [4]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind: [", "the example is not YAML"),
        ("spec: {}", "each document of an example needs a kind"),
        ("kind: ConfigMap\ndata: {}", "holds several documents of kind ConfigMap"),
        ("# on: mpijobs\nspec: {}", "no good manifest is called 'mpijobs': there are folder, job, "),
    ],
)
def test_broken_examples_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Example("Bad", text).unit  # noqa: B018


def test_a_block_is_merged_as_kustomize_would() -> None:
    block = """
        kind: Job
        spec:
          completionMode: null
          template:
            spec:
              containers:
              - name: trainer
                args: [-m, other]
                env:
                - name: PET_NNODES
                  value: "5"
                - name: PET_RDZV_ID
                  $patch: delete
                resources:
                  limits:
                    $replace:
                      nvidia.com/gpu: 4
    """
    before = next(item.data["spec"] for item in good_job().objects if item.kind == "Job")
    after = next(item.data["spec"] for item in Example("Bad", block).unit.objects if item.kind == "Job")
    was, trainer = (spec["template"]["spec"]["containers"][0] for spec in (before, after))

    assert "completionMode" not in after
    assert after["completions"] == before["completions"]
    assert trainer["args"] == ["-m", "other"]
    assert [item["name"] for item in trainer["env"]] == [
        item["name"] for item in was["env"] if item["name"] != "PET_RDZV_ID"
    ]
    assert trainer["env"][0] == {"name": "PET_NNODES", "value": "5"}
    assert trainer["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert trainer["resources"]["requests"] == was["resources"]["requests"]


def test_a_whole_block_stands_alone() -> None:
    unit = Example("Bad", "# whole\napiVersion: v1\nkind: Service\nmetadata:\n  name: a\n").unit

    assert not unit.is_job
    assert [item.title for item in (*unit.objects, *unit.facts)] == ["Service/a"]


def _paths(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for step, below in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*path, step)
        yield from _paths(below, (*path, step))


JOBS = [
    [item.data for item in (*unit.facts, *unit.objects)]
    for unit in (
        good_job(),
        Example("Bad", (HERE / "mpi" / "more-processes-than-slots.yaml").read_text()).unit,
        Example("Bad", (HERE / "rendezvous" / "pytorchjob-left-to-the-operator.yaml").read_text()).unit,
    )
]
FIELDS = [(job, path) for job, documents in enumerate(JOBS) for path in _paths(documents) if len(path) > 1]
JUNK = st.sampled_from([None, "", "x", "9" * 30, 0, -1, 1.5, True, [], {}, [None], ["a"], {"a": 1}])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(field=st.sampled_from(FIELDS), junk=JUNK)
def test_no_rule_raises_whatever_a_field_holds(field: tuple[int, tuple[str | int, ...]], junk: Any) -> None:
    job, path = field
    documents: Any = deepcopy(JOBS[job])
    parent = documents
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = junk
    unit = unit_of(documents)
    found = tuple(workloads(unit))

    for rule in RULES:
        list(problems(rule, unit, found))
