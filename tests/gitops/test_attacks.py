"""What a hostile pull request does to the folders that Argo CD and Flux apply is told by lint-jobs and by diff-jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Repository
from tests.gitops.hostile import CLUSTER, Row, changed, repository, rows
from trainyard.diff.compare import compare
from trainyard.diff.text import text
from trainyard.findings.finding import Finding
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

pytestmark = pytest.mark.commands
ROWS = rows(Path(__file__).with_name("attacks.yaml"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield repository(folder / "repository")


def line(finding: Finding) -> str:
    at = finding.place.position
    where = finding.jobs[0] if at is None else f"{at.file}:{at.line}" if at.line else at.file
    return f"{finding.rule} {where}"


@pytest.mark.claim("folders-of-gitops-are-judged")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_lint_jobs_refuses_it_at_its_line(root: Path, row: Row) -> None:
    with changed(root, row):
        outcome = lint(root, discover([], root, root))

    told = sorted(line(finding) for finding in outcome.findings if finding.severity.label == "error")
    assert told == list(row.told), [finding.message for finding in outcome.findings]


@pytest.mark.claim("diff-shows-the-platform")
@pytest.mark.parametrize("row", [row for row in ROWS if row.shown], ids=lambda row: row.name)
def test_diff_jobs_shows_it(root: Path, row: Row) -> None:
    with changed(root, row):
        told = text(compare(root, "HEAD"))

    assert [words for words in row.shown if words not in told] == [], told


def test_a_run_over_what_changed_refuses_it_too(root: Path) -> None:
    with changed(root, ROWS[0]):
        outcome = lint(root, discover([], root, root), changed="HEAD")

    assert [finding.rule for finding in outcome.findings] == ["GIT020", "GIT021"]


def test_the_list_of_jobs_is_put_right(root: Path) -> None:
    files = [root / f"clusters/{CLUSTER}/flux/jobs/jobs.yaml"]
    right = files[0].read_text()
    with changed(root, ROWS[0]):
        done = Repository(root).lint("--fix")
        fixed = files[0].read_text()

    assert (done.returncode, fixed) == (0, right), done.stdout + done.stderr
