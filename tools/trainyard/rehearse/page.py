"""The table of docs/rehearsal.md: what the linter and the rehearsal say of the same manifests."""

import re
import sys

from trainyard.docs.generated import update
from trainyard.docs.pages import link
from trainyard.findings.finding import Finding, Severity
from trainyard.home import HOME
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

PAGE = HOME / "docs" / "rehearsal.md"
CASES = HOME / "tests" / "rehearse" / "cases"
_BEGINS, _ENDS = "<!-- written by tools/update-docs -->\n", "<!-- until here -->\n"
_EXPECT = re.compile(r"# expect: (?P<rule>\S+) ?(?P<words>.*)")


def table() -> str:
    """A row for each case: what is wrong, and who says so before and while it runs."""
    files = sorted(CASES.glob("*/bad.yaml"))
    found = lint(HOME, discover([str(file) for file in files], HOME, HOME), use_cache=False)
    lines = ["| case | linter | rehearsal |", "|---|---|---|"]
    for file in files:
        name = str(file.relative_to(HOME))
        rules = [_linked(each) for each in found.findings if name in each.jobs and each.severity is not Severity.INFO]
        told = _EXPECT.search(file.read_text())
        seen = link(told["rule"]) if told else "passes"
        linted = ", ".join(dict.fromkeys(rules)) or "passes"
        case = f"[{file.parent.name.replace('-', ' ')}](../{name})"
        lines.append(f"| {case} | {linted} | {seen} |")
    return "\n".join(lines) + "\n"


def _linked(finding: Finding) -> str:
    warns = ", a warning" if finding.severity is Severity.WARNING else ""
    return f"{link(finding.rule)}{warns}"


def page(text: str) -> str:
    """The page with its table as it is now."""
    before, _, rest = text.partition(_BEGINS)
    _, _, after = rest.partition(_ENDS)
    return f"{before}{_BEGINS}{table()}{_ENDS}{after}"


def main() -> int:
    """Write the table, or with --check say whether it differs."""
    return update({PAGE: page(PAGE.read_text())}, "tests/rehearse/cases/")


if __name__ == "__main__":
    sys.exit(main())
