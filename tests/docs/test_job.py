"""docs/job.md has every key of job.yaml, what the wiring makes of it, and the rules that read it."""

import json
import re
import textwrap

import pytest
import yaml

from trainyard.docs.job import PAGE, SCHEMA, UNITS, anchor, keys, page, readers, sets
from trainyard.home import HOME
from trainyard.schemas.violation import validator_of


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run tools/update-docs"


@pytest.mark.claim("job-page-has-every-key")
def test_every_key_has_a_section() -> None:
    def leaves(schema: object, path: str = "") -> list[str]:
        assert isinstance(schema, dict)
        if "properties" not in schema:
            return [path]
        return [
            leaf for name, each in schema["properties"].items() for leaf in leaves(each, f"{path}.{name}".strip("."))
        ]

    text = PAGE.read_text()

    for path in leaves(json.loads(SCHEMA.read_text())):
        assert f"\n### {path}\n" in text
        assert f"[`{path}`](#{anchor(path)})" in text


def test_units_are_of_keys_that_are_there() -> None:
    assert UNITS.keys() <= {key.path for key in keys()}


def test_rules_that_read_a_key_are_found_by_running_them() -> None:
    found = readers()

    assert {"BAT001", "CTR011"} <= set(found["spec.nodes"])
    assert "BAT005" in found["spec.warmupSteps"]
    assert "RDV003" not in found["spec.nodes"]


def test_what_a_key_sets_is_what_the_wiring_says() -> None:
    filled = sets()
    job = yaml.safe_load((HOME / "base/wiring/table.yaml").read_text())["job.yaml"]["Job.batch/training-job"]

    assert job["spec.completions"] == "TrainingJob spec.nodes"
    assert "Job" in filled["spec.nodes"]["spec.completions"]
    assert filled["spec.checkpoint.size"] == {"spec.resources.requests.storage": ["PersistentVolumeClaim"]}
    assert filled["spec.batch.micro"] == {"data.TRAINER_MICRO_BATCH": ["ConfigMap"]}


def test_the_job_that_the_page_shows_is_one() -> None:
    [shown] = re.findall(r"\n\n((?:    .*\n)+)", PAGE.read_text().partition("## Keys")[0])

    assert validator_of(SCHEMA)[0].is_valid(yaml.safe_load(textwrap.dedent(shown)))
