"""Alert rules: Prometheus' own evaluation of made-up series, and a page for whoever is woken."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observability.catalogue import BASE, HOME, alerts, read
from tests.observability.programs import promtool

TESTS = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
PAGE = (HOME / "docs/observability.md").read_text()


def cases() -> list[dict[str, Any]]:
    return [case for file in TESTS for case in read(file)["tests"]]


def firing(fires: bool) -> set[str]:
    """The alerts for which some case with series expects that they fire, or that they do not."""
    return {
        expected["alertname"]
        for case in cases()
        for expected in case["alert_rule_test"]
        if case["input_series"] and bool(expected["exp_alerts"]) is fires
    }


@pytest.fixture
def rule_files(tmp_path: Path) -> Path:
    """The rules as Prometheus reads them, one file for each PrometheusRule, named like it."""
    for file in BASE.glob("prometheus-rule-*.yaml"):
        rule = read(file)
        (tmp_path / f"{rule['metadata']['name']}.yaml").write_text(yaml.safe_dump(rule["spec"], sort_keys=False))
    return tmp_path


@pytest.mark.slow_build
def test_prometheus_takes_every_rule(rule_files: Path) -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", *sorted(str(file) for file in rule_files.glob("*.yaml")))


@pytest.mark.slow_build
@pytest.mark.parametrize("file", TESTS, ids=lambda file: str(file.stem))
def test_alerts_wake_someone_when_they_should_and_only_then(file: Path, rule_files: Path) -> None:
    shutil.copy(file, rule_files / "tests.yaml")

    promtool("test", "rules", "tests.yaml", cwd=str(rule_files))


def test_every_alert_is_tried_with_a_fault_and_with_what_comes_close() -> None:
    assert firing(True) == set(alerts())
    assert firing(False) == set(alerts())


def test_a_quiet_case_asks_its_alert_for_something_to_see() -> None:
    """A case stays quiet because of its numbers, not for want of the series that the rule reads."""
    for case in cases():
        for expected in case["alert_rule_test"]:
            words = set(re.findall(r"\b(?:DCGM|node|kube|kubelet|kueue|jobset|trainyard)_\w+", case_rule(expected)))
            names = {re.split(r"[{ ]", str(one["series"]))[0] for one in case["input_series"]}
            assert not words or words & names, case["name"]


def case_rule(expected: dict[str, Any]) -> str:
    return str(alerts()[expected["alertname"]]["expr"])


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_says_what_to_do(name: str) -> None:
    alert = alerts()[name]

    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["runbook"] == f"docs/observability.md#{name.lower()}"
    assert f"### {name}\n" in PAGE


def test_the_page_explains_no_alert_that_is_gone() -> None:
    chapter = PAGE[PAGE.index("\n## Alerts\n") :]

    assert set(re.findall(r"^### (\w+)$", chapter, re.MULTILINE)) == set(alerts())
