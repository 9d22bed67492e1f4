"""Every query of rules and dashboards names series that exist, with labels and a type that they have."""

import pytest

from tests.observability.catalogue import HOME, custom_counters, known_metrics, queries, read, rules
from tests.observability.programs import parsed_queries
from tests.observability.test_catalogue import DCGM

OF_COUNTERS = {"rate", "irate", "increase"}
OF_GAUGES = {"avg_over_time", "max_over_time", "min_over_time", "quantile_over_time", "deriv", "delta"}

pytestmark = pytest.mark.slow_build


def test_every_query_is_promql() -> None:
    found = queries()

    errors = {
        query.where: answer["error"]
        for query, answer in zip(found, parsed_queries([query.expression for query in found]), strict=True)
        if "error" in answer
    }

    assert errors == {}
    assert len(found) > len(rules())


@pytest.mark.claim("metrics-hold-together")
def test_every_query_names_what_exists_as_what_it_is() -> None:
    known = known_metrics()
    found = queries()
    wrong = []
    for query, answer in zip(found, parsed_queries([query.expression for query in found]), strict=True):
        for selector in answer["selectors"]:
            metric = known.get(selector["metric"])
            if metric is None:
                wrong.append(f"{query.where}: nobody writes {selector['metric']}")
                continue
            strange = set(selector["labels"]) - metric.labels
            if strange:
                wrong.append(f"{query.where}: {metric.name} has no label {', '.join(sorted(strange))}")
            if metric.type == "gauge" and selector["taker"] in OF_COUNTERS:
                wrong.append(f"{query.where}: {selector['taker']} of the gauge {metric.name}")
            if metric.type == "counter" and selector["taker"] in OF_GAUGES:
                wrong.append(f"{query.where}: {selector['taker']} of the counter {metric.name}")

    assert wrong == []


def test_what_is_asked_of_gpus_is_what_the_exporter_is_told_to_tell() -> None:
    told = set(custom_counters())

    asked = {
        selector["metric"]
        for answer in parsed_queries([query.expression for query in queries()])
        for selector in answer["selectors"]
        if selector["metric"].startswith("DCGM_")
    }

    assert asked <= told
    assert told - asked - {"DCGM_FI_DRIVER_VERSION"} == {
        "DCGM_FI_DEV_MEM_CLOCK",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_DRAM_ACTIVE",
    }
    assert asked <= set(DCGM["metrics"])


@pytest.mark.claim("metrics-hold-together")
def test_every_trainer_metric_is_shown_or_watched() -> None:
    contract = read(HOME / "schemas/trainer-metrics.yaml")["metrics"]
    asked = {
        selector["metric"]
        for answer in parsed_queries([query.expression for query in queries()])
        for selector in answer["selectors"]
    }

    unseen = {
        metric["name"]
        for metric in contract
        if not {metric["name"], f"{metric['name']}_sum", f"{metric['name']}_count"} & asked
    }

    assert unseen == {"trainyard_run_info"}
