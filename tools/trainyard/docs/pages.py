"""The page of each rule, for `explain` and the site, and the list of all (`tools/update-docs` writes it)."""

import sys
from collections.abc import Mapping
from inspect import cleandoc
from textwrap import indent

from trainyard.docs.generated import update
from trainyard.home import HOME
from trainyard.rules.aliases import ALIASES, former
from trainyard.rules.examples import HEADINGS, examples, good_text
from trainyard.rules.index import all_rules
from trainyard.rules.registry import Rule

_FIXES = {
    "none": "none",
    "safe": "safe (`tools/lint-jobs --fix`)",
    "unsafe": "unsafe: it changes what the job means (`tools/lint-jobs --fix=unsafe`)",
}
_HEADING_LINES = tuple(f"{heading}:" for heading in HEADINGS)


def first_line(rule: Rule) -> str:
    """What a rule says, in one line."""
    return cleandoc(rule.page).splitlines()[0]


def page(rule: Rule) -> str:
    """A rule's page as plain text, and the manifests that its examples change."""
    head = f"{rule.id} {rule.name} ({rule.severity.label}; fix: {rule.fix})"
    changed = [
        f"The manifest {name}, which examples above change:\n\n{indent(text, '    ')}" for name, text in _changed(rule)
    ]
    return "\n\n".join([head, cleandoc(rule.page), *_before(rule), *changed]).rstrip("\n")


def markdown(rule: Rule) -> str:
    """A rule's page as Markdown, examples and the manifests that they change as YAML blocks."""
    lines = [f"# {rule.id} {rule.name}", "", f"Severity: {rule.severity.label}", "", f"Fix: {_FIXES[rule.fix]}", ""]
    lines += [line for text in _before(rule) for line in (text, "")]
    block: list[str] | None = None
    for line in [*cleandoc(rule.page).splitlines(), ""]:
        if line in _HEADING_LINES:
            lines += _fenced(block) if block else []
            lines += [*([""] if lines[-1] else []), f"## {line.removesuffix(':')}", ""]
            block = []
        elif block is not None and (not line or line.startswith("    ")):
            block.append(line.removeprefix("    "))
        else:
            lines += _fenced(block) if block is not None else []
            block = None
            lines.append(line)
    lines += _fenced(block) if block is not None else []
    for name, text in _changed(rule):
        lines += [f"## The manifest {name}", "", "Examples above change it.", "", *_fenced([text])]
    return "\n".join(lines).rstrip("\n") + "\n"


def catalogue(rules: Mapping[str, Rule]) -> str:
    """The list of all rules as Markdown."""
    rows = [
        f"| {_anchors(rule)}{rule.id} | {rule.name} | {rule.severity.label} | {rule.fix} | {first_line(rule)} |"
        for rule in rules.values()
    ]
    fixing = sum(rule.fix != "none" for rule in rules.values())
    head = [
        "# Rules",
        "",
        "Written by `tools/update-docs` from the rules themselves. Each has a page: `tools/lint-jobs explain BAT001`",
        "prints it, and the site that `tools/build-docs` makes has them all.",
        "An example holds only what matters: it changes the manifest that its first line names (`# on: mpijob`)",
        "and its page shows, or else the [job folder](../../tools/trainyard/rules/good/folder.yaml).",
        "",
        f"Of {len(rules)} rules, {fixing} know how to put right what they find: `--fix` makes the fixes that are safe,",
        "`--fix=unsafe` also those that change what a job means. A safe rule may have some of the others too.",
        "Where a rule had another id before, `explain`, suppressions and links to this list still take it.",
        "",
    ]
    return "\n".join([*head, "| id | name | severity | fix | what it says |", "|---|---|---|---|---|", *rows]) + "\n"


def documents() -> dict[str, str]:
    """File name to text of each rule's page on the site, below rules/, and of a page for each former id."""
    moved = {f"{alias}.md": f"# {alias}\n\nThis rule is [{now}]({now}.md) now.\n" for alias, now in ALIASES.items()}
    return {f"{rule.id}.md": markdown(rule) for rule in all_rules().values()} | moved


def link(rule: str) -> str:
    """A link in a page of docs/ to a rule: in Git to its row in the list, on the site to its page."""
    return f"[{rule}](rules/README.md#{rule})"


def main() -> int:
    """Write the list, or with --check say whether it differs."""
    return update({HOME / "docs" / "rules" / "README.md": catalogue(all_rules())}, "the rules")


def _before(rule: Rule) -> list[str]:
    """A sentence on the ids that a rule had before, where it had any."""
    before = former(rule.id)
    return [f"Its id was {' and '.join(before)} before, which still finds it."] if before else []


def _anchors(rule: Rule) -> str:
    return "".join(f'<a id="{id}"></a>' for id in (*former(rule.id), rule.id))


def _changed(rule: Rule) -> list[tuple[str, str]]:
    """Name and text of each good manifest that an example of the page names."""
    names = dict.fromkeys(example.manifest for example in examples(rule.page))
    return [(name, good_text(name)) for name in names if name]


def _fenced(block: list[str] | None) -> list[str]:
    text = "\n".join(block or []).strip("\n")
    return ["```yaml", text, "```", ""] if text else []


if __name__ == "__main__":
    sys.exit(main())
