"""docs/matrix.md: what goes together lints, is taken, and has in its pods what was asked for; the rest is refused."""

import contextlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bases.matrix import list_jobs
from tests.by_day import ALL, COVER, sample, seed, takes_everything
from tests.controlplane.harness import units_of
from tests.product.combinations import (
    Combination,
    cover,
    drawn,
    everything,
    names,
    refused,
    repository,
    write,
)
from tests.product.effects import missing
from tests.product.server import refusals
from tests.said import said
from trainyard.docs.matrix import PAGE, REFUSED, Refusal, clusters, page
from trainyard.lint.cli import main
from trainyard.objects.unit import Unit

Finding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Linted:
    """A repository of drawn jobs, and what was found in them."""

    root: Path
    jobs: Mapping[str, Combination]
    """By folder."""
    refused: Mapping[str, tuple[Combination, Refusal]]
    findings: Mapping[str, list[Finding]]
    units: Mapping[str, Unit]
    """What goes together, as it renders."""

    def told(self, folder: str) -> list[str]:
        """Findings of a job that are more than information."""
        loud = [each for each in self.findings[folder] if each["severity"] != "info"]
        return [f"{each['rule']} {each['message']} ({each['file']}:{each['line']})" for each in loud]


@pytest.fixture(scope="module", params=clusters())
def linted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Linted:
    """What is drawn for a cluster, linted as its users do, and rendered for a look at the pods."""
    root = tmp_path_factory.mktemp("product")
    repository(root)
    together = [each for each in drawn() if each.cluster == request.param]
    apart = [each for each in refused() if each[0].cluster == request.param]
    every = [*together, *(combination for combination, _ in apart)]
    folders = [write(root, combination, name) for combination, name in zip(every, names(every), strict=True)]
    list_jobs(root)
    with contextlib.chdir(root):
        document = said(main, "--no-cache", "--format=json", *folders).json
    findings: dict[str, list[Finding]] = {folder: [] for folder in folders}
    for finding in document["findings"]:
        for folder in finding["jobs"]:
            findings[folder].append(finding)
    return Linted(
        root,
        dict(zip(folders, together, strict=False)),
        dict(zip(folders[len(together) :], apart, strict=True)),
        findings,
        units_of(folders[: len(together)], root),
    )


@pytest.mark.claim("goes-together")
def test_what_goes_together_has_no_finding(linted: Linted) -> None:
    found = {str(combination): told for folder, combination in linted.jobs.items() if (told := linted.told(folder))}
    assert found == {}, f"TRAINYARD_SEED={seed()} draws these"


@pytest.mark.claim("goes-together")
def test_what_was_asked_for_is_in_the_pods(linted: Linted) -> None:
    lost = [each for folder, combination in linted.jobs.items() for each in missing(combination, linted.units[folder])]
    assert lost == [], f"TRAINYARD_SEED={seed()} draws these"


@pytest.mark.controlplane
@pytest.mark.parametrize("linted", clusters() if takes_everything() else sample(list(clusters()), 2), indirect=True)
def test_a_real_api_server_takes_what_goes_together(linted: Linted) -> None:
    found = list(refusals([linted.units[folder] for folder in linted.jobs]))
    assert found == [], f"TRAINYARD_SEED={seed()} draws these"


@pytest.mark.claim("refused-together")
def test_what_does_not_go_together_is_refused_at_its_line(linted: Linted) -> None:
    wrong = []
    for folder, (combination, refusal) in linted.refused.items():
        file = refusal.file if refusal.file.startswith("base/") else f"{folder}/{refusal.file}"
        lines = (linted.root / file).read_text().splitlines()
        places = [number for number, line in enumerate(lines, 1) if refusal.at in line]
        found = [each for each in linted.findings[folder] if each["severity"] != "info"]
        at = {(each["rule"], each["file"], each["line"]) for each in found if each["severity"] == "error"}
        others = {each["rule"] for each in found} - {refusal.rule, *refusal.also}
        if len(places) != 1 or (refusal.rule, file, places[0]) not in at or others:
            wrong.append(f"{combination}: {refusal.rule} was expected at {file}:{places}, {linted.told(folder)}")
    assert wrong == []


@pytest.mark.claim("every-pair-is-drawn")
def test_every_pair_that_goes_together_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(found: Iterable[Combination]) -> set[tuple[tuple[int, str], ...]]:
        return {pair for each in found for pair in itertools.combinations(enumerate(each), 2)}

    assert pairs(cover(2, "a")) == pairs(cover(2, "b")) == pairs(everything())
    assert cover(2, "a") != cover(2, "b")
    monkeypatch.setenv(COVER, ALL)
    assert drawn() == everything()


def test_each_refusal_is_tried() -> None:
    assert {refusal for _, refusal in refused()} == set(REFUSED)


def test_page_is_what_the_tools_write() -> None:
    assert PAGE.read_text() == page(), "run tools/update-docs"
