"""schemas/metrics and schemas/trainer-metrics.yaml: the names of the versions that are in use."""

import re
from typing import Any

import pytest

from tests.observability.catalogue import BASE, CONTRACT, HOME, custom_counters, read

DCGM = read(HOME / "schemas/metrics/dcgm-exporter.yaml")
EVENTS = read(HOME / "schemas/metrics/log-events.yaml")["metrics"]
TRAINER = read(CONTRACT)
UNITS = {"seconds": "_seconds", "bytes": "_bytes", "ratio": "_ratio"}


def version(text: str) -> tuple[int, ...]:
    """The exporter's own number: the second of the two that its tag joins."""
    return tuple(int(part) for part in text.split("-")[-1].split("."))


def test_the_exporter_in_use_is_the_one_that_is_described() -> None:
    policy = read(HOME / "base/gpu-operator/cluster-policy.yaml")["spec"]

    assert policy["dcgmExporter"]["version"] == f"{DCGM['version']}-distroless"
    assert version(DCGM["version"]) < (4, 9)


def test_the_exporter_is_asked_for_fields_that_it_has_with_their_types() -> None:
    label = {"DCGM_FI_DRIVER_VERSION": "label"}
    has = {
        name: metric["type"]
        for name, metric in DCGM["metrics"].items()
        if version(metric.get("since", "0")) <= version(DCGM["version"])
    }

    for name, kind in custom_counters().items():
        assert (has | label).get(name) == kind, name


@pytest.mark.claim("no-old-and-new-names")
def test_no_name_is_old_and_new() -> None:
    new = {metric["new"] for metric in DCGM["metrics"].values() if "new" in metric}

    assert not new & set(DCGM["metrics"])


def test_the_log_agent_counts_the_words_that_are_listed() -> None:
    text = (BASE / "logs/config.alloy").read_text()
    counters = re.findall(r'prefix +=\s"(\w+)"\n +name +=\s"(\w+)"\n +description += "Lines with: (.+)"', text)
    selected = re.findall(r'\|= \\"(.+)\\"', text)

    assert {prefix + name: words for prefix, name, words in counters} == {
        name: metric["words"] for name, metric in EVENTS.items()
    }
    assert selected == [words for _, _, words in counters]


@pytest.mark.parametrize("metric", TRAINER["metrics"], ids=lambda metric: str(metric["name"]))
def test_a_trainer_metric_is_named_as_prometheus_asks(metric: dict[str, Any]) -> None:
    name, kind = metric["name"], metric["type"]

    assert set(metric) - {"labels"} == {"name", "type", "unit", "scope", "help"}
    assert re.fullmatch(r"trainyard_[a-z_]+[a-z]", name)
    assert kind in ("gauge", "counter", "summary")
    assert metric["scope"] in ("run", "pod")
    assert (kind == "counter") == name.endswith("_total")
    assert not name.endswith(("_sum", "_count", "_bucket"))
    if suffix := UNITS.get(metric["unit"]):
        assert name.removesuffix("_total").endswith(suffix)
    assert not {"job", "rank", "namespace", "pod", "node", "instance"} & set(metric.get("labels", []))
    assert metric["help"].endswith(".")


def test_trainer_metrics_are_told_apart_and_tensorboard_shows_some_of_them() -> None:
    names = [metric["name"] for metric in TRAINER["metrics"]]

    assert len(names) == len(set(names))
    assert set(TRAINER["tensorboard"]["scalars"]) <= set(names)
