"""The source files in repo/, read as the pipeline reads them."""

from pathlib import Path

from trainyard.report import LineOf
from trainyard.sources import Sources

REPO = Path(__file__).parent / "repo"


def line_reader(root: Path) -> LineOf:
    """Lines of the files under `root`, as the pipeline reads them."""
    sources = Sources(root)

    def line_of(file: str, line: int) -> str | None:
        lines = sources.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else None

    return line_of
