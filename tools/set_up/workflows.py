"""Argo Workflows, for the tests of the benchmark chain: its controller, `argo lint --offline`, and its definitions."""

from collections.abc import Callable
from pathlib import Path

from set_up.command import Progress, SetUpError, output_of
from set_up.control_plane import Build, Run
from set_up.part import Part

FOLDER = "workflows"
MODULE = "github.com/argoproj/argo-workflows/v3"
PROGRAMS = {"workflow-controller": f"{MODULE}/cmd/workflow-controller", "lint": "./lint"}
"""Each program and its package."""

GO_SETTINGS = {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
EXPECTED = "about 4 minutes and 2 GB of disk on two cores where Go has built none of it before"


def workflows(home: Path, progress: Progress, go: Callable[[], Path], build: Build, run: Run) -> Part:
    """The part of the set-up that holds Argo Workflows. It stays as it is while other parts of the set-up change."""
    module = home / "tools/go/workflows"
    inputs = (module / "go.mod", module / "go.sum", *sorted(module.glob("*/*.go")), Path(__file__))

    def make(folder: Path) -> None:
        compiler = go()
        progress.step(f"building Argo Workflows, once: {EXPECTED}")
        for number, (name, package) in enumerate(PROGRAMS.items(), start=1):
            progress.step(f"building {name} with Go ({number} of {len(PROGRAMS)})")
            build(compiler, module, package, folder / name, "")
        source = output_of([compiler, "-C", module, "list", "-m", "-f", "{{.Dir}}", MODULE], GO_SETTINGS)
        if not source:
            raise SetUpError(f"the module {MODULE} is not where Go keeps its modules")
        place = Path(source) / "manifests/base/crds/minimal"
        run([home / ".tools/bin/kustomize", "build", "--output", folder / "definitions.yaml", place], {})

    return Part(FOLDER, inputs, tuple(PROGRAMS), make)
