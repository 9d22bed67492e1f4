"""Forms for issues, as GitHub reads them, and what the platform team owns."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflows.test_workflows import owners
from trainyard.home import HOME

FORMS = sorted((HOME / ".github" / "ISSUE_TEMPLATE").glob("*-*.yaml"))
TYPES = {"checkboxes", "dropdown", "input", "markdown", "textarea"}


def form(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert [file.stem for file in FORMS] == ["missed-failure", "new-platform", "wrong-finding"]


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.stem)
def test_a_form_has_what_github_asks_of_it(file: Path) -> None:
    found = form(file)
    ids = [part["id"] for part in found["body"]]

    assert set(found) == {"body", "description", "labels", "name", "title"}
    assert len(set(ids)) == len(ids)
    for part in found["body"]:
        assert part["type"] in TYPES
        assert part["attributes"]["label"]
        assert ("options" in part["attributes"]) == (part["type"] == "dropdown")
        assert "render" not in part["attributes"] or part["type"] == "textarea"


@pytest.mark.parametrize("part", ["base", "clusters", "overlays", "tools", ".github"])
def test_the_platform_team_owns_what_decides(part: str) -> None:
    owned = owners(HOME / ".github" / "CODEOWNERS")
    files = [file.relative_to(HOME).as_posix() for file in (HOME / part).rglob("*.yaml")]
    decided = [name for name in files if not name.endswith("/flux/jobs/jobs.yaml")]

    assert decided
    assert {tuple(owned.get(name) or ()) for name in decided} == {("@trainyard/platform",)}
