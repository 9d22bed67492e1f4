"""Dashboards: what Grafana needs to show them. test_names holds their queries to the metrics that exist."""

from typing import Any

import pytest

from tests.observability.catalogue import BASE, DURATIONS, VARIABLE, dashboards, panels, read


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_a_dashboard_can_be_shown(name: str) -> None:
    dashboard = dashboards()[name]
    shown = panels(dashboard)
    numbers = [panel["id"] for panel in dashboard["panels"]]

    assert dashboard["uid"] == f"trainyard-{name.removesuffix('.json')}"
    assert len(numbers) == len(set(numbers))
    assert all(panel["targets"] for panel in shown)
    assert {panel["datasource"]["uid"] for panel in shown} <= {"${datasource}", "${loki}"}
    assert not overlapping([panel["gridPos"] for panel in dashboard["panels"]])


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_a_dashboard_declares_the_variables_that_it_uses(name: str) -> None:
    dashboard = dashboards()[name]
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}

    used = {
        found[1] or found[2]
        for panel in panels(dashboard)
        for target in panel["targets"]
        for text in (target["expr"], target["datasource"]["uid"])
        for found in VARIABLE.finditer(text)
    }

    assert used - set(DURATIONS) == declared


def test_every_dashboard_is_brought_to_grafana() -> None:
    kustomization = read(BASE / "kustomization.yaml")

    brought = {file for generator in kustomization["configMapGenerator"] for file in generator["files"]}

    assert brought == {f"dashboards/{name}" for name in dashboards()}
    assert kustomization["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}


def overlapping(places: list[dict[str, Any]]) -> bool:
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    return len(cells) != len(set(cells)) or any(x >= 24 for x, _ in cells)
