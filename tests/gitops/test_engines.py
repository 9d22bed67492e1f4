"""tools/go/health runs the engines in the versions that Argo CD and Flux run them in."""

import re

import pytest

from tests.gitops.folders import HOME
from trainyard.schema_generation.sources import download

PINS = HOME / "tools" / "go" / "schemas"
OURS = (HOME / "tools" / "go" / "health" / "go.mod").read_text()


def required(module: str) -> str:
    """The go.mod of a module in the version that the schemas are generated from."""
    return (download("go", PINS, (module,))[module] / "go.mod").read_text()


def version(text: str, module: str) -> str:
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    assert found, module
    return found[1]


@pytest.mark.slow_build
@pytest.mark.parametrize(
    ("project", "engine"),
    [
        ("github.com/argoproj/argo-cd/v3", "github.com/yuin/gopher-lua"),
        ("github.com/fluxcd/kustomize-controller", "github.com/fluxcd/pkg/runtime"),
        ("github.com/fluxcd/kustomize-controller", "github.com/google/cel-go"),
        ("github.com/fluxcd/source-controller", "github.com/fluxcd/pkg/sourceignore"),
        ("github.com/fluxcd/source-controller", "github.com/go-git/go-git/v5"),
    ],
)
def test_the_engine_is_the_project_s(project: str, engine: str) -> None:
    assert version(OURS, engine) == version(required(project), engine)
