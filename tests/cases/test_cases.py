"""Failures from public threads in our own words: what breaks is said at its field, and what is mended is left alone.

A file of a family holds one cause in one layout: `rule`, the `field` it is said at, the `bad` and the `good` manifests.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.findings.finding import Finding, Severity
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover
from trainyard.rules.examples import examples
from trainyard.rules.index import all_rules

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.yaml"))
Told = dict[str, list[Finding]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Warnings and errors by manifest, `FAMILY/CAUSE.bad.yaml` and `.good.yaml`: all are linted at once."""
    root = tmp_path_factory.mktemp("cases")
    names = []
    for file in FILES:
        for half in ("bad", "good"):
            name = f"{file.parent.name}/{file.stem}.{half}.yaml"
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(case(file)[half], encoding="utf-8")
            names.append(name)
    found: Told = {name: [] for name in names}
    for finding in lint(root, discover(names, root, root), use_cache=False).findings:
        for name in finding.jobs:
            found[name].append(finding)
    return found


def case(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return data


def field(finding: Finding) -> str:
    """Kind, name and path of a finding's place."""
    kind, *_, name = finding.place.object.split("/")
    return f"{kind}/{name} {finding.place.path}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_cause_is_said_at_its_field(told: Told, file: Path) -> None:
    expected = case(file)

    found = [(each.rule, field(each)) for each in told[f"{file.parent.name}/{file.stem}.bad.yaml"]]

    assert (expected["rule"], expected["field"]) in found


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_nothing_is_said_where_it_is_mended(told: Told, file: Path) -> None:
    found = told[f"{file.parent.name}/{file.stem}.good.yaml"]

    assert [(each.rule, each.message) for each in found if each.severity >= Severity.WARNING] == []


@pytest.mark.parametrize(
    "entry", yaml.safe_load((HERE / "by-example.yaml").read_text()), ids=lambda entry: entry["rule"]
)
def test_other_causes_stand_on_the_pages_of_rules(entry: dict[str, str]) -> None:
    rule = all_rules()[entry["rule"]]

    assert rule.severity >= Severity.WARNING
    assert {example.heading for example in examples(rule.page)} >= {"Bad", "Good"}
