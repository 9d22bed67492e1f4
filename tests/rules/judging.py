"""What one rule says about manifests, as lines: severity, message, field."""

import yaml

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.unit import Unit
from trainyard.rules.examples import good_job, merge, unit_of
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Problem, Rule
from trainyard.workload.of_unit import workloads
from trainyard.yaml.fieldpath import format_path


def judge(rule_id: str, text: str) -> list[str]:
    """What the rule says about these manifests alone."""
    return _lines(rule_id, unit_of(list(yaml.safe_load_all(text))))


def judge_good_job_with(rule_id: str, text: str) -> list[str]:
    """What the rule says about the good job of the rule pages with these lines merged onto it."""
    good = [item.data for item in (*good_job().facts, *good_job().objects)]
    return _lines(rule_id, unit_of(merge(good, list(yaml.safe_load_all(text)))))


def judge_variable(rule_id: str, name: str, value: str) -> list[str]:
    """What the rule says about the good job with one more variable in its NCCL ConfigMap."""
    config = {"kind": "ConfigMap", "metadata": {"name": "llama-sft-nccl"}, "data": {name: value}}
    return judge_good_job_with(rule_id, yaml.safe_dump(config))


def _lines(rule_id: str, unit: Unit) -> list[str]:
    rule = all_rules()[rule_id]
    found = problems(rule, unit, tuple(workloads(unit)))
    return [f"{severity_of(rule, problem).label}: {problem.message} @ {_field(problem.spot)}" for problem in found]


def severity_of(rule: Rule, problem: Problem) -> Severity:
    """How much a problem matters: as its rule says, or less."""
    assert problem.severity is None or problem.severity < rule.severity
    return problem.severity or rule.severity


def _field(spot: Spot) -> str:
    return f"{spot.object.kind}/{spot.object.name} {format_path(spot.object.data, spot.path)}"
