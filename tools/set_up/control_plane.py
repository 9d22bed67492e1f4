"""The control plane of tools/verify-jobs: the Go programs that it consists of, and kwok's stages."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from set_up.command import Progress, SetUpError, output_of
from set_up.part import Part

FOLDER = "controlplane"
DEFINITIONS = "definitions"
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "authority": "./authority",
}
"""Each program and its package, in the order in which they are built."""

EXPECTED = "about 6 minutes and 3 GB of disk on two cores where Go has built none of it before"
KWOK = "sigs.k8s.io/kwok"
STAGES = ("node/fast", "pod/fast")
"""Folders of kwok's module, under kustomize/stage, that say how its nodes and pods live."""

KUBERNETES = "k8s.io/kubernetes"
VERSION_VARIABLE = "k8s.io/component-base/version.gitVersion"
"""Where Kubernetes' programs have their version; in a release its build scripts write it."""

Run = Callable[[Sequence[str | Path], dict[str, str]], None]
"""Runs a command with settings added to its environment."""

Build = Callable[[Path, Path, str, Path, str], None]
"""Builds one package: Go, the module's folder, the package, the file to write, flags for the linker."""


def control_plane(home: Path, progress: Progress, go: Callable[[], Path], build: Build) -> Part:
    """The part of the set-up that holds the control plane. It stays as it is while other parts of the set-up change."""
    module = home / "tools/go/controlplane"
    inputs = (module / "go.mod", module / "go.sum", *sorted((module / "authority").glob("*.go")), Path(__file__))

    def make(folder: Path) -> None:
        compiler = go()
        linking = f"-X={VERSION_VARIABLE}={_version(module, KUBERNETES)}"
        progress.step(f"building the control plane, once: {EXPECTED}")
        for number, (name, package) in enumerate(PROGRAMS.items(), start=1):
            progress.step(f"building {name} with Go ({number} of {len(PROGRAMS)})")
            build(compiler, module, package, folder / name, linking)
        progress.step("taking kwok's stages from its module")
        _copy_stages(compiler, module, folder / "stages")

    return Part(FOLDER, inputs, tuple(PROGRAMS), make)


def definitions(home: Path, progress: Progress, go: Callable[[], Path], run: Run) -> Part:
    """The part with the definitions of custom resources, from the modules that their schemas are generated from."""
    generation = home / "tools/trainyard/schema_generation"
    pins = home / "tools/go/schemas"
    inputs = (pins / "go.mod", pins / "go.sum", home / "schemas/sources.yaml", *sorted(generation.glob("*.py")))

    def make(folder: Path) -> None:
        compiler = go()
        progress.step("taking the definitions of custom resources from their modules")
        python = home / ".tools/lint/bin/python"
        path = f"{compiler.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run([python, "-I", "-m", "trainyard.schema_generation", "--definitions", folder], {"PATH": path})

    return Part(DEFINITIONS, inputs, (), make)


def _version(module: Path, name: str) -> str:
    """The version of a module that go.mod pins."""
    found = re.search(rf"^\s*{re.escape(name)} (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise SetUpError(f"{module / 'go.mod'} does not pin {name}")
    return found[1]


def _copy_stages(go: Path, module: Path, to: Path) -> None:
    source = output_of(
        [go, "-C", module, "list", "-m", "-f", "{{.Dir}}", KWOK], {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    )
    if not source:
        raise SetUpError(f"the module {KWOK} is not where Go keeps its modules")
    to.mkdir()
    for stage in STAGES:
        for file in sorted((Path(source) / "kustomize/stage" / stage).glob("*.yaml")):
            if file.name != "kustomization.yaml":
                shutil.copyfile(file, to / f"{stage.replace('/', '-')}-{file.name}")
