"""docs/verified-against.md: the programs and modules that this repository was held against, and their versions."""

import re
import sys
from dataclasses import dataclass

from trainyard.docs.generated import update
from trainyard.home import HOME

PAGE = HOME / "docs" / "verified-against.md"


@dataclass(frozen=True, slots=True)
class Program:
    """A row of the table of programs."""

    name: str
    module: str
    pinned_in: str
    """The go.mod below tools/go that has its version."""
    role: str


PROGRAMS = (
    Program(
        "kube-apiserver",
        "k8s.io/kubernetes",
        "controlplane",
        "takes the rendered objects in server-side dry run; its validation functions judge in `lint-jobs`",
    ),
    Program("etcd", "go.etcd.io/etcd/server/v3", "controlplane", "keeps what that API server is told"),
    Program(
        "kube-controller-manager",
        "k8s.io/kubernetes",
        "controlplane",
        "makes the pods of an Indexed Job; counts quotas",
    ),
    Program("kube-scheduler", "k8s.io/kubernetes", "controlplane", "places the pods on nodes of the cluster's facts"),
    Program("kwok", "sigs.k8s.io/kwok", "controlplane", "plays those nodes, and the pods on them"),
    Program("JobSet", "sigs.k8s.io/jobset", "operators", "makes the pods of a JobSet, and of a TrainJob"),
    Program("Kubeflow Trainer", "github.com/kubeflow/trainer/v2", "operators", "makes the JobSet of a TrainJob"),
    Program(
        "training operator",
        "github.com/kubeflow/training-operator",
        "operators",
        "makes the pods of a PyTorchJob and of a TFJob",
    ),
    Program("MPI operator", "github.com/kubeflow/mpi-operator", "operators", "makes the pods of an MPIJob"),
    Program("KubeRay", "github.com/ray-project/kuberay/ray-operator", "operators", "makes the pods of a RayJob"),
    Program("Kueue", "sigs.k8s.io/kueue", "operators", "lets one of two jobs wait that would block each other"),
    Program(
        "scheduler-plugins", "sigs.k8s.io/scheduler-plugins", "operators", "places a gang whole; the scheduler with it"
    ),
    Program("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "", "renders; the renderer is held equal to it"),
    Program(
        "kubeconform", "github.com/yannh/kubeconform", "", "holds our verdicts on objects against its own, in tests"
    ),
)

HEAD = """\
# What this was verified against

Written by `tools/update-docs` from the go.mod files below `tools/go`. All of it is built from source, from modules that
go.sum verifies.<!-- no claim: how tools/set_up builds it -->

| program | version | what it does here |
|---|---|---|
"""

SCHEMAS = """
The schemas below `schemas/` are generated from the custom resource definitions and types of these modules:

| module | version |
|---|---|
"""


NOT_YET = """
## What was not tried

These have run none of it yet, so what the other pages say of them was read in their source or their documentation:
<!-- no claim: what was not tried -->

- Argo CD and the controllers of Flux: their schemas, and the health checks that they would run, are tried;
- Volcano's scheduler and controllers;
- a container runtime, and the images: rehearsals start programs of this machine;
- GPUs, CUDA and NCCL, and with them InfiniBand, RoCE and EFA;
- the drivers of storage, FUSE among them;
- Prometheus, Grafana and Loki as servers: their queries are parsed, and alerts evaluated, by `promtool`.
"""


def pins(module: str) -> dict[str, str]:
    """Versions by module path in tools/go/<module>/go.mod, or in tools/go/go.mod for an empty name."""
    text = (HOME / "tools/go" / module / "go.mod").read_text()
    return dict(re.findall(r"^\s*(?:require )?(\S+) (v\S+)", text, re.MULTILINE))


def page() -> str:
    """The page as Markdown."""
    rows = [f"| {each.name} | {', '.join(_versions(each))} | {each.role} |" for each in PROGRAMS]
    schemas = [f"| {module} | {version} |" for module, version in pins("schemas").items()]
    return HEAD + "\n".join(rows) + "\n" + SCHEMAS + "\n".join(schemas) + "\n" + NOT_YET


def _versions(program: Program) -> list[str]:
    newest = pins(program.pinned_in)[program.module]
    folders = sorted((HOME / "tools/go").glob(f"{program.name}-*"))
    return [newest, *(pins(folder.name)[program.module] for folder in reversed(folders))]


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "the go.mod files")


if __name__ == "__main__":
    sys.exit(main())
