"""A job tried before it is there: linted and forecast in a copy of what it is made of."""

import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.findings.finding import Severity
from trainyard.lint.pipeline import lint
from trainyard.plan.forecast import Overrides, forecast
from trainyard.plan.repository import load
from trainyard.plan.text import text
from trainyard.report import Report, write
from trainyard.repository.discover import discover

MADE_OF = ("base", "overlays", "clusters")
"""What a job folder reads beside itself."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What the linter and the planner say of a job."""

    code: int
    """As lint-jobs ends."""
    findings: str
    forecast: str
    """Empty where there is none; `no_forecast` then says why."""
    no_forecast: str = ""


@contextmanager
def copied(root: Path, folder: str, files: Mapping[str, str]) -> Iterator[Path]:
    """A repository with one job, made of the same bases, fabrics and clusters. No Flux is told of the job."""
    with tempfile.TemporaryDirectory(prefix="new-job-") as temporary:
        copy = Path(temporary).resolve()
        for part in MADE_OF:
            shutil.copytree(root / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("flux"))
        (copy / folder).mkdir(parents=True)
        for name, content in files.items():
            (copy / folder / name).write_text(content, encoding="utf-8")
        yield copy


def judge(root: Path, folder: str, *, color: bool = False, width: int = 100) -> Trial:
    """Lint and forecast a job folder of `root`."""
    outcome = lint(root, discover([folder], root, root), use_cache=False)
    report = Report(
        findings=tuple(finding for finding in outcome.findings if finding.severity >= Severity.WARNING),
        units=outcome.units,
        suppressed=outcome.suppressed,
        line_of=outcome.line_of,
    )
    said = io.StringIO()
    write(report, "text", said, color=color, width=width)
    try:
        planned, run, quota = load(root, folder, root, None)
        return Trial(report.exit_code, said.getvalue(), text(forecast(planned, run, Overrides(), quota)))
    except InputError as error:
        return Trial(report.exit_code, said.getvalue(), "", error.message)
