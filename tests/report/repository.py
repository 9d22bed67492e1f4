"""The source files in repo/, read as the pipeline reads them."""

from pathlib import Path

from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.findings.suppress import SuppressedFinding
from trainyard.report import LineOf
from trainyard.yaml.sources import Sources

REPO = Path(__file__).parent / "repo"


def line_reader(root: Path) -> LineOf:
    """Lines of the files under `root`, as the pipeline reads them."""
    sources = Sources(root)

    def line_of(file: str, line: int) -> str | None:
        lines = sources.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else None

    return line_of


SILENCED = SuppressedFinding(
    Finding(
        rule="NET002",
        name="rendezvous-port-closed",
        severity=Severity.ERROR,
        message="port 29400 is closed between the pods",
        place=Place("NetworkPolicy/vision/vit-l", "spec.ingress", Position("jobs/vision/vit-l/job.yaml", 5, 3, 7)),
        help="open it in the policy",
        jobs=("jobs/vision/vit-l",),
    ),
    "no CNI of this cluster enforces policies",
    Position("jobs/vision/vit-l/job.yaml", 5, 26, 68),
)
"""What a comment silenced."""
