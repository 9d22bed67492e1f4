"""What the rules of some families say about manifests, as text."""

from collections.abc import Iterator
from pathlib import Path

from tests.recorded import hold
from tests.rules.judging import severity_of
from trainyard.objects.objects import Spot
from trainyard.rules.examples import Example
from trainyard.rules.index import all_rules, problems
from trainyard.rules.registry import Problem, Rule
from trainyard.workload.of_unit import workloads
from trainyard.yaml.fieldpath import format_path

HERE = Path(__file__).parent


def manifests(folder: str) -> list[Path]:
    """The inputs of a family. Each says in its first line what it is; one that does not start with `# whole` is merged
    onto the good job of the rule pages.
    """
    return sorted((HERE / folder).glob("*.yaml"))


def check_told(file: Path, *families: str) -> None:
    """Compare all that the rules of these families say with the file's snapshot."""
    told = "\n".join(_told(file, families)) or "nothing"
    hold(HERE / "snapshots" / file.parent.name / f"{file.stem}.txt", f"{told}\n")


def _told(file: Path, families: tuple[str, ...]) -> Iterator[str]:
    unit = Example("Bad", file.read_text(encoding="utf-8")).unit
    found = tuple(workloads(unit))
    for rule in all_rules().values():
        if rule.id.startswith(families) and not rule.declared:
            for problem in problems(rule, unit, found):
                yield _paragraph(rule, problem)


def _paragraph(rule: Rule, problem: Problem) -> str:
    lines = [f"{severity_of(rule, problem).label}[{rule.id}] {problem.message}", f"  --> {_place(problem.spot)}"]
    lines += [f"  ::: {_place(spot)}" for spot in problem.related]
    return "\n".join([*lines, f"  = help: {problem.help}"])


def _place(spot: Spot) -> str:
    return f"{spot.object.title} {format_path(spot.object.data, spot.path)}: {spot.label}"
