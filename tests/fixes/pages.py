"""The bad examples of rule pages as files with comments, and what fixing them comes to."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from trainyard.findings.finding import Fix, Severity
from trainyard.fixes.apply import edited
from trainyard.fixes.layout import Layout
from trainyard.fixes.plan import plan
from trainyard.objects.manifests import ManifestOrigin
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules.examples import Example
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Problem, Rule
from trainyard.workload.made import written
from trainyard.workload.of_unit import workloads
from trainyard.yaml.nodes import Node, load_documents
from trainyard.yaml.sources import Sources

FILE = "example.yaml"
RULES = all_rules()


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, as people write them."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


@dataclass(frozen=True)
class Page:
    """An example as one file: what is applied, then the facts, then the platform."""

    text: str
    shape: Unit
    """Says which of the documents are facts and platform."""

    @classmethod
    def of(cls, example: Example, above: str = "") -> "Page":
        """The file that an example stands for, with a comment above each line that may carry one and matches."""
        unit = example.unit
        every = [item.data for item in (*unit.objects, *unit.facts, *(unit.platform or ()))]
        text = "---\n".join(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=10_000) for data in every)
        return cls(commented(text, above), unit)

    @cached_property
    def nodes(self) -> list[Node]:
        return load_documents(self.text, FILE)

    @cached_property
    def unit(self) -> Unit:
        applied, facts = len(self.shape.objects), len(self.shape.facts)
        found = tuple(Object.of(node.plain(), index) for index, node in enumerate(self.nodes))
        platform = None if self.shape.platform is None else found[applied + facts :]
        return Unit("example", self.shape.is_job, found[:applied], found[applied : applied + facts], platform)

    def problems(self, rule: Rule) -> list[Problem]:
        """What one rule says."""
        return list(problems(rule, self.unit, tuple(workloads(self.unit))))

    def fix(self, problem: Problem) -> Fix:
        """What a problem's remedy comes to."""
        assert problem.fix is not None
        return plan(problem.fix, problem.help, ManifestOrigin(self.nodes), self.sources)

    @cached_property
    def sources(self) -> Sources:
        sources = Sources(Path("/"))
        sources.add(FILE, self.text)
        return sources

    def fixed(self, fix: Fix) -> "Page":
        """The file with a fix made."""
        return Page(edited(self.text, fix.edits), self.shape)

    def findings(self) -> Counter[tuple[str, str]]:
        """Rule and place of everything that costs something."""
        jobs = tuple(workloads(self.unit))
        return Counter(
            sign(rule, problem)
            for rule in RULES.values()
            if rule.severity >= Severity.WARNING
            for problem in problems(rule, self.unit, jobs)
        )

    @property
    def comments(self) -> list[str]:
        return [line.strip() for line in self.text.splitlines() if line.lstrip().startswith("#")]


def sign(rule: Rule, problem: Problem) -> tuple[str, str]:
    """What stays of a finding whatever its numbers are."""
    spot = written(problem.spot)
    return rule.id, f"{spot.object.index} {spot.path}"


def commented(text: str, above: str = "") -> str:
    """A comment above each line that is not inside a text, and matches."""
    layout = Layout(text)
    inside = {
        line
        for piece in layout.scalars
        for line in range(layout.place(piece.start)[0] + 1, layout.place(piece.end)[0] + 1)
    }
    return "".join(_commented(text.splitlines(keepends=True), inside, re.compile(above)))


def _commented(lines: list[str], inside: set[int], above: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number not in inside and line.strip() != "---" and above.match(line):
            yield f"{' ' * (len(line) - len(line.lstrip(' ')))}# note {number}\n"
        yield line
