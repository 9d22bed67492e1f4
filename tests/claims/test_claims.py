"""Each promise of README and docs/ names a claim, each claim a test, and no test a claim that is gone."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.docs.claims import pages, sentences, unbound, without_comments
from trainyard.home import HOME


def claims_of_tests() -> dict[str, list[str]]:
    """The tests that are marked with each claim."""
    found: dict[str, list[str]] = {}
    for file in sorted((HOME / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.claim":
                    for name in map(ast.literal_eval, decorator.args):
                        found.setdefault(name, []).append(f"{file.relative_to(HOME)}::{getattr(node, 'name', '')}")
    return found


def claimed() -> set[str]:
    """The claims of all pages."""
    return {name for page in pages() for each in sentences((HOME / page).read_text(), page) for name in each.claims}


@pytest.mark.parametrize("page", pages())
def test_every_promise_names_its_claim(page: str) -> None:
    found = unbound((HOME / page).read_text(), page)
    assert [f"{each.file}:{each.line}: {each.text}" for each in found] == []


def test_every_claim_has_a_test() -> None:
    assert sorted(claimed() - claims_of_tests().keys()) == []


def test_no_test_is_marked_with_a_claim_that_nobody_makes() -> None:
    gone = claims_of_tests().keys() - claimed()
    assert {name: claims_of_tests()[name] for name in gone} == {}


TEXT = """\
# Every heading is left alone

It never
fails. Each of `all` has one. Some have `every` thing. They know each other. With --all it runs.
This is bound, always.<!-- claim: bound, twice --> This is refused.<!-- no claim: a word of others -->
All stand above it.
<!-- claim: below -->

- an item of nobody
- another

| all | rows |
|---|---|
| a row | that nobody binds |
| a row | that nobody breaks<!-- claim: row --> |

    tools/lint-jobs --all    # says nothing more

```
every line
```
<!-- claim: code -->
"""


def test_what_promises_something() -> None:
    found = [" ".join(each.text.split()) for each in unbound(TEXT, "page.md")]
    assert found == [
        "It never fails.",
        "Each of `all` has one.",
        "- an item of nobody",
        "| all | rows |",
        "| a row | that nobody binds |",
        "tools/lint-jobs --all # says nothing more",
    ]


def test_what_is_behind_a_sentence_is_its_own() -> None:
    found = {" ".join(each.text.split()): each for each in sentences(TEXT, "page.md") if each.claims or each.excuse}
    assert {text: (each.line, each.claims, each.excuse) for text, each in found.items()} == {
        "This is bound, always.": (5, ("bound", "twice"), ""),
        "This is refused.": (5, (), "a word of others"),
        "All stand above it.": (6, ("below",), ""),
        "| a row | that nobody breaks |": (15, ("row",), ""),
        "``` every line ```": (19, ("code",), ""),
    }


def test_readers_see_no_claim() -> None:
    shown = without_comments(TEXT)
    assert "claim" not in shown
    assert "This is bound, always. This is refused.\n" in shown


def test_a_page_with_a_promise_that_names_no_claim_stops_the_build(tmp_path: Path) -> None:
    shutil.copytree(HOME / "docs", tmp_path / "docs")
    for part in ("base", "clusters", "jobs", "overlays", "tools", "tests", "schemas", "requirements", "trainer"):
        (tmp_path / part).symlink_to(HOME / part)
    for file in ("mkdocs.yml", "CONTRIBUTING.md", "renovate.json", "bench"):
        (tmp_path / file).symlink_to(HOME / file)
    page = tmp_path / "docs" / "queues.md"
    page.write_text(page.read_text() + "\nA queue always empties.\n")

    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "A queue always empties." in done.stderr
