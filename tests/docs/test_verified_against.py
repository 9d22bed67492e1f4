"""docs/verified-against.md says what go.mod pins, and what is built says the same of itself."""

import re
import subprocess

import pytest

from trainyard.controlplane import running
from trainyard.controlplane.programs import PROGRAMS
from trainyard.docs.verified_against import PAGE, page, pins


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run tools/update-docs"


@pytest.mark.parametrize("module", ["controlplane", "operators"])
def test_kubernetes_and_its_libraries_are_of_one_release(module: str) -> None:
    release = pins("controlplane")["k8s.io/kubernetes"]
    text = (PAGE.parents[1] / "tools/go" / module / "go.mod").read_text()

    libraries = dict(re.findall(r"^\s*(k8s\.io/\S+) => \1 (v\S+)", text, re.MULTILINE))

    assert libraries["k8s.io/apiserver"]
    assert set(libraries.values()) == {release.replace("v1.", "v0.")}


def test_controllers_and_schemas_are_of_one_version() -> None:
    built, read = pins("operators"), pins("schemas")

    both = built.keys() & read.keys()

    assert {"sigs.k8s.io/jobset", "sigs.k8s.io/kueue", "github.com/kubeflow/trainer/v2"} < both
    assert {name: built[name] for name in both} == {name: read[name] for name in both}


@pytest.mark.controlplane
def test_the_programs_are_of_the_versions_on_the_page() -> None:
    pinned = pins("controlplane")
    with running() as plane:
        served = plane.client().request("GET", "/version").body["gitVersion"]
    etcd = subprocess.run([PROGRAMS / "etcd", "--version"], capture_output=True, text=True, check=True).stdout

    assert served == pinned["k8s.io/kubernetes"]
    assert f"etcd Version: {pinned['go.etcd.io/etcd/server/v3'].removeprefix('v')}\n" in etcd
