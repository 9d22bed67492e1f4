"""docs/compare.md: the figures of the linters that tests have are those of today."""

import re

import pytest

from bench.compare_linters import BEGIN, END, LINTERS, PAGE, table

pytestmark = pytest.mark.commands
TEXT = PAGE.read_text(encoding="utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """The figures by linter."""
    found = re.findall(r"^\| ([a-z-]+) [^|]*\| [^|]* \| (\d.*) \|$", text, re.MULTILINE)
    return {name: figures.split(" | ") for name, figures in found}


def test_the_figures_of_the_page_are_those_of_today() -> None:
    recorded = rows(TEXT.partition(BEGIN)[2].partition(END)[0])
    here = {"lint-jobs": LINTERS[0].program, "kubeconform": LINTERS[1].program}

    now = rows(table(here))

    assert now.keys() == here.keys()
    assert {name: recorded[name] for name in now} == now


def test_the_mended_manifests_are_clean() -> None:
    told, noisy, findings = rows(TEXT)["lint-jobs"]

    assert int(told) > 200
    assert (noisy, findings) == ("0", "0")
