"""The catalogue of rules on the command line."""

import re

import pytest

from tests.cli.command import Repository

pytestmark = pytest.mark.commands


@pytest.mark.claim("every-rule-has-a-page")
def test_every_rule_is_listed_and_explained(empty: Repository) -> None:
    listed = empty.lint("rules")

    assert (listed.returncode, listed.stderr) == (0, "")
    rows = [
        re.fullmatch(r"([A-Z]{3}\d{3})  (error|warning|info) *  ([a-z0-9-]+) *  (\S.*)", line)
        for line in listed.stdout.splitlines()
    ]
    assert all(rows)
    ids = [row[1] for row in rows if row]
    assert ids == sorted(set(ids))
    assert {"INP001", "SUP001", "SCH001", "GIT008", "SEC001", "CTR002", "RDV001"} <= set(ids)
    for row in rows[:: max(1, len(rows) // 4)]:
        assert row
        page = empty.lint("explain", row[1])
        assert (page.returncode, page.stderr) == (0, "")
        head = rf"{row[1]} {row[3]} \({row[2]}; fix: (safe|unsafe|none)\)"
        assert re.fullmatch(head, page.stdout.splitlines()[0])
        assert page.stdout.splitlines()[2] == row[4]


def test_by_name_and_in_lower_case(empty: Repository) -> None:
    page = empty.lint("explain", "INP001").stdout

    assert empty.lint("explain", "inp001").stdout == page
    assert empty.lint("explain", "bad-input").stdout == page


@pytest.mark.claim("former-ids-still-lead")
def test_by_a_former_id(empty: Repository) -> None:
    page = empty.lint("explain", "ENV031").stdout

    assert page.startswith("ENV031 more-threads-than-cpus (")
    assert empty.lint("explain", "NCL073").stdout == empty.lint("explain", "ncl073").stdout == page


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("INP01", "no rule is called 'INP01'; did you mean INP001?"),
        ("bad-inputs", "no rule is called 'bad-inputs'; did you mean bad-input?"),
        ("quite else", "no rule is called 'quite else'"),
        ("\x1b[31m", r"no rule is called '\x1b[31m'"),
    ],
)
def test_no_such_rule(wanted: str, message: str, empty: Repository) -> None:
    done = empty.lint("explain", wanted)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"lint-jobs: {message}\n")


def test_nothing_to_explain(empty: Repository) -> None:
    done = empty.lint("explain")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lint-jobs: the following arguments are required: rule (see lint-jobs explain --help)\n"
