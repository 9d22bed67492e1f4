"""docs/troubleshoot.md: what programs print, and the rules that find its cause, from symptoms.yaml."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.docs.claims import unbound
from trainyard.docs.generated import told, update
from trainyard.docs.pages import link
from trainyard.errors import Fault
from trainyard.home import HOME
from trainyard.rules.index import all_rules

PAGE = HOME / "docs" / "troubleshoot.md"
SOURCE = Path(__file__).with_name("symptoms.yaml")

CLAIM = "<!-- claim: symptoms-lead-to-rules -->"

HEAD = """\
# Troubleshoot

Written by `tools/update-docs` from `tools/trainyard/docs/symptoms.yaml`. Search this page for the line that a pod, a
library or a controller printed, by a part of it without names and numbers of yours; `...` stands for those. Then ask
the linter about the job; it names the line of the manifest:

    ./tools/lint-jobs jobs/research/my-run        a job folder, or the path of a manifest anywhere
    ./tools/lint-jobs explain RDV004              what a rule says, with a bad and a good example
    ./tools/rehearse-job jobs/research/my-run     its pods as processes on this machine

Where the linter is silent the cause is outside of the manifests: a node, a driver, a switch, the image. The
[alerts](observability.md#alerts) name those, and [the life of a job](lifecycle.md#watching) says how to look. The rules
of a row are the causes that manifests can have, the likeliest first.
"""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One line that somebody prints, and what is behind it."""

    text: str
    """What is printed; `...` stands for what differs."""
    by: str
    means: str
    rules: tuple[str, ...]
    then: str
    seen: tuple[str, ...]
    """What the program that prints it has in its files."""


def symptoms() -> dict[str, list[Symptom]]:
    """The symptoms by the title of their section. Fault where one names no program or no rule that is there."""
    data = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return {
        section["title"]: [_symptom(each, data["programs"]) for each in section["symptoms"]]
        for section in data["sections"]
    }


def programs() -> dict[str, str]:
    """Who prints, by the key of `by`."""
    named: dict[str, str] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))["programs"]
    return named


def _symptom(data: Mapping[str, Any], named: Mapping[str, str]) -> Symptom:
    text, by, rules = data["text"], data["by"], data["rules"]
    if by not in named or not rules or any(rule not in all_rules() for rule in rules):
        raise Fault(f"{SOURCE.name}: {text}: {by} or one of {rules} is not there")
    seen = data["seen"] if "seen" in data else [part for part in text.split("...") if len(part.strip()) > 3]
    return Symptom(text, by, data["means"], tuple(rules), data.get("then", ""), tuple(seen))


def page() -> str:
    """The whole page."""
    named = programs()
    parts = [HEAD.rstrip("\n")]
    for title, rows in symptoms().items():
        parts += ["", f"## {title}", "", "| printed | by | usual cause | rules |", "|---|---|---|---|"]
        for row in rows:
            means = f"{row.means}; {row.then}" if row.then else row.means
            rules = ", ".join(map(link, row.rules))
            line = f"| `{row.text}` | {named[row.by]} | {means} | {rules} |"
            parts.append(f"{line}{CLAIM}" if unbound(line, "") else line)
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, SOURCE.name)


if __name__ == "__main__":
    sys.exit(told(main))
