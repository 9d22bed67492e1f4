"""Objects from files as units, problems as text, and snapshots of whole outputs."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.recorded import hold
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import SchemaProblem
from trainyard.yaml.nodes import load_documents

HERE = Path(__file__).parent
HOME = HERE.parents[1]

Snapshot = Callable[[str, str], None]


@pytest.fixture
def snapshot() -> Snapshot:
    """Compares a whole output with a file in snapshots/."""
    return lambda name, output: hold(HERE / "snapshots" / name, output)


def unit_of(file: Path) -> Unit:
    """The documents of a file as one unit."""
    documents = load_documents(file.read_text(), file.name)
    return Unit(file.name, False, tuple(Object.of(node.plain(), n) for n, node in enumerate(documents)))


def as_text(problems: Iterable[SchemaProblem]) -> str:
    """One problem a paragraph: rule, object and path, then the message and the help."""
    blocks = []
    for problem in problems:
        path = "/".join(str(step) for step in problem.path)
        lines = [f"{problem.rule_id} {problem.object.title} {path}".rstrip(), f"    {problem.message}"]
        blocks.append("\n".join([*lines, f"    help: {problem.help}"] if problem.help else lines))
    return "\n".join(blocks) + "\n"
