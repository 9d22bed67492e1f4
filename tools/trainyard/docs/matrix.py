"""docs/matrix.md: what a job may be put together from, what goes together, and what proves it."""

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainyard.docs.generated import update
from trainyard.docs.pages import link
from trainyard.home import HOME

PAGE = HOME / "docs" / "matrix.md"
NONE = "none"


@dataclass(frozen=True, slots=True)
class Way:
    """One base: what it makes, and whose controller runs that."""

    base: str
    makes: str
    controller: str


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a job lists or patches beside its base and its cluster."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What does not go together, and the rule that says so."""

    part: str
    rule: str
    at: str
    """Which line the rule names: a part of it as it stands there."""
    file: str
    """The file of that line, below the job's folder, or below the root where it begins with base/."""
    bases: tuple[str, ...] = ()
    """Under which bases; empty for all of them."""
    needs: str = ""
    """A folder of base/ without which in its platform a cluster has no place for the part; empty where none matters."""
    also: tuple[str, ...] = ()
    """Rules that speak of what follows from it."""


WAYS = (
    Way("torchrun", "Indexed Job", "Kubernetes' Job controller"),
    Way("deepspeed", "Indexed Job, ZeRO policy", "Kubernetes' Job controller"),
    Way("jobset", "JobSet", "JobSet"),
    Way("trainjob", "TrainJob", "Kubeflow Trainer"),
    Way("pytorchjob", "PyTorchJob", "Training Operator"),
    Way("tfjob", "TFJob", "Training Operator"),
    Way("mpijob", "MPIJob", "MPI Operator"),
    Way("rayjob", "RayJob", "KubeRay"),
)
BASES = tuple(way.base for way in WAYS)

QUEUES = (
    Part("queue/kueue", "the job waits for its team's quota"),
    Part("queue/volcano", "Volcano places the ranks together"),
    Part("queue/coscheduling", "the coscheduling plugin places the ranks together"),
)
COMPONENTS = (
    Part("zero", "ZeRO policies of DeepSpeed"),
    Part("elastic", "the run goes on with fewer nodes"),
    Part("dataset-cache/job", "datasets on the nodes' own disks"),
    Part("storage/gcs-fuse/pods", "datasets in a bucket of Cloud Storage"),
)
PATCHES = (
    Part("variable", "a variable of the rank"),
    Part("secret", "a variable of the rank from a Secret"),
    Part("file", "a file of the job's folder, mounted"),
    Part("volume", "a volume, mounted"),
    Part("json-patch", "a variable, by a JSON patch"),
    Part("sidecar", "a container beside the rank"),
    Part("init-container", "a container before the rank"),
    Part("annotation", "an annotation of the pods, in the fabric's facts"),
    Part("metadata", "labels and annotations of the job's own object"),
)

REFUSED = (
    Refusal(
        "queue/coscheduling",
        "CTR030",
        "../../../base/queue/coscheduling",
        "kustomization.yaml",
        bases=tuple(way.base for way in WAYS if not way.makes.startswith("Indexed Job")),
    ),
    Refusal(
        "queue/volcano", "CTR031", "../../../base/queue/volcano", "kustomization.yaml", ("trainjob",), also=("GNG001",)
    ),
    Refusal("queue/kueue", "QUE011", "value: training", "base/queue/kueue/labels.yaml", needs="team/kueue"),
    Refusal(
        "elastic",
        "CTR030",
        "../../../base/elastic",
        "kustomization.yaml",
        bases=tuple(base for base in BASES if base != "pytorchjob"),
    ),
    Refusal("zero", "CTR030", "../../../base/zero", "kustomization.yaml", ("deepspeed",)),
    Refusal("zero", "MOD010", "parallelism: deepspeed", "job.yaml", ("tfjob",)),
    Refusal("dataset-cache/job", "CTR031", "../../../base/dataset-cache/job", "kustomization.yaml", ("trainjob",)),
    Refusal(
        "dataset-cache/job",
        "STO001",
        "claimName: dataset-cache",
        "base/dataset-cache/job/pod-template.yaml",
        needs="dataset-cache",
        also=("SEC011",),
    ),
    Refusal("sidecar", "CTR031", "- name: trainer-watch", "patch.yaml", ("trainjob",)),
    Refusal("init-container", "CTR031", "- name: prepare-dataset-cache", "patch.yaml", ("trainjob",)),
)
"""All else that WAYS, clusters, QUEUES, COMPONENTS and PATCHES name goes together."""

HEAD = """\
# What goes together

Written by `tools/update-docs`. A job takes one base, one cluster, at most one queue, and any components; and it may
patch its pods.<!-- claim: goes-together -->
`tests/product` makes such jobs from `jobs/research/gpt2-124m`: a choice is a line of `kustomization.yaml`. Every
pair of choices below is in at least one of these jobs, and each commit draws other jobs.
<!-- claim: every-pair-is-drawn -->
`tools/test --nightly` tests every combination that goes together.<!-- claim: every-pair-is-drawn -->
No tested job has two patches.<!-- no claim: what was not tried -->

- **L**: such jobs render, lint without an error or a warning against strict schemas, and their pods, as the linter
  predicts them, have what was asked for.
- **S**: a real API server, with what the cluster holds, accepts their objects and pods.
- **C**: real controllers run a job of this repository with this combination, on simulated nodes, and make the pods that
  were predicted.
- **R**: a job of this repository with this combination was rehearsed on one machine, to its end.
- **A rule**: this does not go together, and the rule reports it at the line that is wrong.

Two choices need more than the base's `team.yaml` allows: labels and annotations of the job's own, and the metadata
server that `base/storage/gcs-fuse/pods` asks. The tests add this to the team's [team.yaml](allowed.md).

No letter says that a GPU, a network fabric or a storage driver was there: [what was not tried](verified-against.md).
<!-- no claim: what was not tried -->

## Bases and clusters
"""

PARTS = """
Three versions of kustomize render the jobs of this table to the same bytes (`tests/bases/test_matrix.py`).

## Bases and what a job adds

| listed or patched | gives | {bases} |
|---|---|{line}
"""

NEEDS = """
## Clusters and what their platform must hold

| listed | needs in `clusters/<name>/platform` | {clusters} |
|---|---|{line}
"""


def clusters(home: Path = HOME) -> dict[str, str]:
    """The fabric of each cluster."""
    found = {}
    for file in sorted(home.glob("clusters/*/facts/kustomization.yaml")):
        fabric = re.search(r"overlays/(\S+)", file.read_text())
        if fabric:
            found[file.parent.parent.name] = fabric[1]
    return found


@cache
def holds(cluster: str, folder: str, home: Path = HOME) -> bool:
    """Whether a cluster's platform lists a folder of base/."""
    lines = (
        line.partition("#")[0].rstrip()
        for file in home.glob(f"clusters/{cluster}/platform/**/kustomization.yaml")
        for line in file.read_text().splitlines()
    )
    return any(line.endswith(f"/base/{folder}") for line in lines)


def refusal(base: str, cluster: str, parts: tuple[str, ...]) -> Refusal | None:
    """Why these do not go together; None where they do."""
    for each in REFUSED:
        if each.part not in parts or (each.bases and base not in each.bases):
            continue
        if not each.needs or not holds(cluster, each.needs):
            return each
    return None


def jobs(home: Path = HOME) -> dict[tuple[str, str], str]:
    """A job of the repository for each base and cluster that has one."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(home.glob("jobs/*/*/kustomization.yaml")):
        text = file.read_text()
        base, cluster = re.search(r"/base/(\S+)", text), re.search(r"/clusters/([^/\s]+)/facts", text)
        if base and cluster:
            found.setdefault((base[1], cluster[1]), file.parent.name)
    return found


def page() -> str:
    """The whole page."""
    places, own = clusters(), jobs()
    heads = [f"{name} ({fabric})" for name, fabric in places.items()]
    lines = [HEAD, f"| base | makes | run by | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for way in WAYS:
        cells = (f"L S C R, {own[way.base, name]}" if (way.base, name) in own else "L S" for name in places)
        lines.append(f"| [{way.base}](kinds/{way.base}.md) | {way.makes} | {way.controller} | {' | '.join(cells)} |")
    lines.append(PARTS.format(bases=" | ".join(BASES), line="---|" * len(BASES)).rstrip("\n"))
    for part in (*QUEUES, *COMPONENTS, *PATCHES):
        shown = f"`base/{part.name}`" if part not in PATCHES else f"patch: {part.name}"
        lines.append(f"| {shown} | {part.what} | {' | '.join(_cell(part.name, base) for base in BASES)} |")
    lines.append(NEEDS.format(clusters=" | ".join(places), line="---|" * len(places)).rstrip("\n"))
    for each in (each for each in REFUSED if each.needs):
        cells = ("L S" if holds(name, each.needs) else link(each.rule) for name in places)
        lines.append(f"| `base/{each.part}` | `base/{each.needs}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(part: str, base: str) -> str:
    refused = next((each for each in REFUSED if each.part == part and base in each.bases), None)
    return "L S" if refused is None else link(refused.rule)


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "base/ and clusters/")


if __name__ == "__main__":
    sys.exit(main())
