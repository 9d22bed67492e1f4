"""Source files of a small repository, findings over them, and snapshots of whole outputs."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recorded import hold
from tests.report.repository import REPO, SILENCED, line_reader
from trainyard.findings.finding import Finding, NotJudged, Place, Position, Severity
from trainyard.report import Report, write
from trainyard.rules.registry import Rule

HERE = Path(__file__).parent

Snapshot = Callable[[str, str], None]
Printed = Callable[..., str]


@pytest.fixture
def snapshot() -> Snapshot:
    """Compares a whole output with a file in snapshots/."""
    return lambda name, output: hold(HERE / "snapshots" / name, output)


@pytest.fixture
def printed() -> Printed:
    """What a format writes."""

    def write_to_text(report: Report, form: str, **options: object) -> str:
        out = io.StringIO()
        write(report, form, out, **options)  # type: ignore[arg-type]
        return out.getvalue()

    return write_to_text


@pytest.fixture
def at() -> Callable[..., Place]:
    """A place in a file of the repository, found by its text."""

    def place(file: str, text: str, label: str = "", *, object: str = "", path: str = "") -> Place:
        lines = (REPO / file).read_text().split("\n")
        line, column = next((n, row.index(text)) for n, row in enumerate(lines, 1) if text in row)
        return Place(object, path, Position(file, line, column + 1, len(text)), label)

    return place


@pytest.fixture
def findings(at: Callable[..., Place]) -> tuple[Finding, ...]:
    """One finding of each kind that a run can have."""
    vit = "jobs/vision/vit-l"
    return (
        Finding(
            rule="NET002",
            name="rendezvous-port-closed",
            severity=Severity.ERROR,
            message="rendezvous port 29500 is closed by NetworkPolicy trainer-peers",
            place=at(
                f"{vit}/job.yaml",
                "29500",
                "ranks 1-31 dial this port on rank 0",
                object="Job/vision/vit-l",
                path="spec.template.spec.containers[0].env[RENDEZVOUS_PORT].value",
            ),
            related=(
                at(
                    "base/network/peers.yaml",
                    "29400",
                    "the only port allowed between peers",
                    object="NetworkPolicy/vision/vit-l-peers",
                    path="spec.ingress[0].ports[0].port",
                ),
            ),
            help="allow 29500 here, or leave rendezvousPort at 29400",
            jobs=(vit,),
        ),
        Finding(
            rule="NCL003",
            name="infiniband-off-with-rdma",
            severity=Severity.ERROR,
            message="NCCL_IB_DISABLE=1 switches InfiniBand off, and each pod asks for 8 rdma/hca",
            place=at(
                "overlays/rdma/fabric.yaml",
                '"1"',
                "NCCL falls back to TCP over eth0",
                object="ConfigMap/vision/vit-l-nccl",
                path="data.NCCL_IB_DISABLE",
            ),
            help='delete the line, or write "0"',
            jobs=(*(f"jobs/research/llama-{n:02}" for n in range(1, 42)), vit),
        ),
        Finding(
            rule="BAT001",
            name="global-batch-mismatch",
            severity=Severity.WARNING,
            message="micro 4 x accumulation 2 x ranks 32 = 256, but global is 512",
            place=at(f"{vit}/job.yaml", "512", object="TrainingJob/vit-l", path="spec.batch.global"),
            related=(
                Place("Job/vision/vit-l", "spec.completions", None, "4 pods"),
                Place("ConfigMap/vision/vit-l-trainer", "data.TRAINER_WORLD_SIZE", None),
            ),
            help="write one of:\n  global: 256\n  accumulation: 4",
            jobs=(vit,),
        ),
        Finding(
            rule="GPU004",
            name="memory-limit-absent",
            severity=Severity.INFO,
            message="container trainer has no memory limit",
            place=Place(
                "Job/vision/vit-l", "spec.template.spec.containers[0].resources", None, "only GPUs are limited"
            ),
            jobs=(vit,),
        ),
        Finding(
            rule="INP004",
            name="duplicate-key",
            severity=Severity.ERROR,
            message="key nodes is written twice",
            place=Place("", "", Position("jobs/vision/vit-s/job.yaml", 9, 3, 5)),
            help="delete one of lines 8 and 9",
            jobs=("jobs/vision/vit-s",),
            input_error=True,
        ),
        Finding(
            rule="INP001",
            name="not-a-job-folder",
            severity=Severity.ERROR,
            message="holds no kustomization.yaml",
            place=Place("", "", Position("jobs/vision/notes", 0, 0)),
            input_error=True,
        ),
    )


@pytest.fixture
def not_judged(at: Callable[..., Place]) -> tuple[NotJudged, ...]:
    """What an opaque script and a value from outside leave open."""
    xl = "jobs/vision/vit-xl"
    return (
        NotJudged(
            xl,
            "rendezvous, ranks and exit code",
            "nothing is known of `bash run.sh`",
            Place("Job/vision/vit-xl", "spec.template.spec.containers[0].command[0]", None),
        ),
        NotJudged(xl, "np", "its value is known only in the pod", at("overlays/rdma/fabric.yaml", '"1"')),
    )


@pytest.fixture
def report(findings: tuple[Finding, ...], not_judged: tuple[NotJudged, ...]) -> Report:
    """A run over 45 jobs."""
    units = (
        *(f"jobs/research/llama-{n:02}" for n in range(1, 42)),
        *(f"jobs/vision/{name}" for name in ("clip-b", "vit-l", "vit-s", "vit-xl")),
    )
    return Report(
        findings=findings,
        units=units,
        suppressed=(SILENCED,),
        cached=30,
        seconds=0.41239,
        line_of=line_reader(REPO),
        not_judged=not_judged,
    )


def _nothing(_: object) -> tuple[()]:
    return ()


@pytest.fixture
def rules() -> dict[str, Rule]:
    """Pages as rules have them."""
    from trainyard.objects.unit import Unit

    page = """The rendezvous port is closed between the pods.

        Every rank but 0 waits for the store on rank 0 until the timeout.

        Bad:
            rendezvousPort: 29500
        Good:
            rendezvousPort: 29400

        Source: https://pytorch.org/docs/stable/elastic/run.html
        """
    return {
        "NCL003": Rule("NCL003", "infiniband-off-with-rdma", Severity.ERROR, Unit, _nothing, "InfiniBand is off."),
        "NET002": Rule("NET002", "rendezvous-port-closed", Severity.ERROR, Unit, _nothing, page),
    }
