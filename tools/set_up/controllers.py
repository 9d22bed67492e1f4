"""The controllers of training jobs that the tests run: Go programs, and what their modules install beside them."""

from collections.abc import Callable
from pathlib import Path

from set_up.command import Progress, SetUpError, output_of
from set_up.control_plane import Build, Run
from set_up.part import Part

FOLDER = "controllers"
PROGRAMS = {
    "jobset": "sigs.k8s.io/jobset",
    "trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
    "training-operator": "./training-operator",
    "mpi-operator": "./mpi-operator",
    "ray-operator": "./ray-operator",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue",
    "coscheduling": "./coscheduling",
}
"""Each program and its package, in the order in which they are built."""

INSTALLED = {
    "jobset": ("sigs.k8s.io/jobset", "config/components/webhook"),
    "trainer": ("github.com/kubeflow/trainer/v2", "manifests/base/webhook"),
    "training-operator": ("github.com/kubeflow/training-operator", "manifests/base/webhook"),
    "kueue": ("sigs.k8s.io/kueue", "config/default"),
}
"""The module and the folder in it that kustomize builds a program's webhook configurations from; all of Kueue, since
its definitions have webhooks too."""

EXPECTED = "about 5 minutes and 3 GB of disk on two cores where Go has built none of it before"


def controllers(home: Path, progress: Progress, go: Callable[[], Path], build: Build, run: Run) -> Part:
    """The part of the set-up that holds the controllers. It stays as it is while other parts of the set-up change."""
    module = home / "tools/go/operators"
    inputs = (module / "go.mod", module / "go.sum", *sorted(module.glob("*/*.go")), Path(__file__))

    def make(folder: Path) -> None:
        compiler = go()
        progress.step(f"building the controllers of training jobs, once: {EXPECTED}")
        for number, (name, package) in enumerate(PROGRAMS.items(), start=1):
            progress.step(f"building {name} with Go ({number} of {len(PROGRAMS)})")
            build(compiler, module, package, folder / name, "")
        progress.step("taking the controllers' webhooks from their modules")
        (folder / "installed").mkdir()
        kustomize = home / ".tools/bin/kustomize"
        for name, (source, below) in INSTALLED.items():
            place = _folder_of(compiler, module, source) / below
            run([kustomize, "build", "--output", folder / f"installed/{name}.yaml", place], {})

    return Part(FOLDER, inputs, tuple(PROGRAMS), make)


def _folder_of(go: Path, module: Path, name: str) -> Path:
    """Where Go keeps a module of the version that is pinned."""
    found = output_of(
        [go, "-C", module, "list", "-m", "-f", "{{.Dir}}", name], {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    )
    if not found:
        raise SetUpError(f"the module {name} is not where Go keeps its modules")
    return Path(found)
