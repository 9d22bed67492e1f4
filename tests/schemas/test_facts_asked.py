"""What our code asks of facts (TrainingJob, Cluster, Fabric) is in their schemas: a wrong key would just be absent."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.bases.matrix import REPOSITORY
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.plan.forecast import Overrides, forecast
from trainyard.plan.job import job_of, run_of
from trainyard.rules.examples import examples, good_job
from trainyard.rules.index import all_rules, problems
from trainyard.workload.of_unit import workloads


class Asked(dict[str, Any]):
    """A map of a fact that notes which keys it is asked for, and cannot have."""

    def __init__(self, data: dict[str, Any], schema: dict[str, Any], path: str, unknown: set[str]) -> None:
        self._schema, self._path, self._unknown = schema, path, unknown
        super().__init__({key: self._below(key, value) for key, value in data.items()})

    def _below(self, key: str, value: Any) -> Any:
        below = self._schema.get("properties", {}).get(key) or self._schema.get("additionalProperties")
        if isinstance(value, dict) and isinstance(below, dict):
            return Asked(value, below, f"{self._path}.{key}", self._unknown)
        return value

    def _note(self, key: Any) -> None:
        if not self._schema.get("additionalProperties", True) and key not in self._schema["properties"]:
            self._unknown.add(f"{self._path}.{key}")

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)


def noting(fact: Object, unknown: set[str]) -> Object:
    schema = json.loads((REPOSITORY / f"schemas/trainyard.dev/{fact.kind.lower()}_v1alpha1.json").read_text())
    return replace(fact, data=Asked(deepcopy(fact.data), schema, fact.kind, unknown))


def watched(unit: Unit, unknown: set[str]) -> Unit:
    return replace(unit, facts=tuple(noting(fact, unknown) for fact in unit.facts))


def test_rules_ask_facts_for_what_their_schemas_hold() -> None:
    unknown: set[str] = set()

    for rule in (rule for rule in all_rules().values() if not rule.declared):
        for unit in (example.unit for example in examples(rule.page)):
            if unit.facts:
                list(problems(rule, seen := watched(unit, unknown), tuple(workloads(seen))))

    assert unknown == set()


def test_a_forecast_asks_facts_for_what_their_schemas_hold() -> None:
    unknown: set[str] = set()
    unit = good_job()
    filled = {
        "Cluster": {"node": {"gpu": "H100-SXM-80GB", "gpus": 8}, "forecast": {"networkGbps": 400}},
        "TrainingJob": {
            "model": "llama-3-8b",
            "parallelism": "fsdp",
            "precision": "bf16",
            "sequenceLength": 4096,
            "steps": 100,
        },
        "Fabric": {},
    }
    facts = {}
    for fact in unit.facts:
        data = deepcopy(fact.data)
        data["spec"] |= filled[fact.kind]
        facts[fact.kind] = noting(replace(fact, data=data), unknown).data

    job = job_of(facts["TrainingJob"], facts["Cluster"], facts["Fabric"], {})
    forecast(job, run_of(job), Overrides(), None)

    assert unknown == set()


def test_a_misspelt_key_is_noticed() -> None:
    unknown: set[str] = set()
    job = noting(good_job().facts[0], unknown)

    assert job.data.get("spec").get("batch").get("globl") is None  # type: ignore[union-attr]
    assert "steps_" not in job.data["spec"]

    assert unknown == {"TrainingJob.spec.batch.globl", "TrainingJob.spec.steps_"}
