"""A repository that vendors the bases, as docs/any-repository.md says, with nothing of Trainyard but its wheel."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.test_offline import offline
from tests.wheel.building import HOME, Bare, built, installed
from trainyard import __version__

pytestmark = [pytest.mark.slow_build, pytest.mark.drawn]

NEWER = "99.0.0"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
[FIRST, LATER] = SHELL.findall((HOME / "docs/any-repository.md").read_text())
"""What one runs there first, and with a newer version."""


@pytest.fixture(autouse=True)
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git has an author, and the linter a cache of its own."""
    for role in ("AUTHOR", "COMMITTER"):
        for what in ("NAME", "EMAIL"):
            monkeypatch.setenv(f"GIT_{role}_{what}", "stranger")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CI", "NO_COLOR", "GIT_DIR"):
        monkeypatch.delenv(name, raising=False)


def run(root: Path, environment: Path, script: str, code: int = 0) -> str:
    """What a script prints, both streams, where the wheel's commands are on PATH and no network is."""
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    done = offline("env", f"PATH={path}", "bash", "-euc", f"exec 2>&1\n{script}", cwd=root)
    assert done.returncode == code, done.stdout
    return done.stdout


def called(text: str) -> str:
    """A text of a checkout's commands as one of the wheel's."""
    return re.sub(r"(\./)?\btools/([a-z]+)-jobs?\b", r"trainyard \2", text)


@pytest.fixture
def vendored(bare: Bare, tmp_path: Path) -> Path:
    """A repository after the first block of the page."""
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", "--template=", root], check=True)
    said = run(root, bare.environment, FIRST)
    assert said.startswith(f"{__version__}: ")
    assert said.endswith("\n10 jobs pass\n")
    assert run(root, bare.environment, "git status --porcelain") == ""
    return root


@pytest.mark.claim("vendored-first")
def test_the_first_vendoring_holds_what_the_checkout_has(vendored: Path) -> None:
    for part in ("base", "overlays", "clusters", "jobs"):
        ours = {file.relative_to(HOME): file.read_bytes() for file in (HOME / part).rglob("*") if file.is_file()}
        assert ours == {
            file.relative_to(vendored): file.read_bytes() for file in (vendored / part).rglob("*") if file.is_file()
        }


@pytest.mark.claim("vendored-platform-pages")
@pytest.mark.parametrize("page", ["adopt-eks", "adopt-gke", "adopt-roce"])
def test_the_pages_of_platforms_hold_there(page: str, vendored: Path, bare: Bare) -> None:
    """Every command of the page prints there what the page shows, in the wheel's words."""
    for block in CONSOLE.findall(called((HOME / f"docs/{page}.md").read_text())):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = re.split(r"^> (.*)\n", shown, flags=re.MULTILINE)
            command, _, output = command.partition("\n")
            if lines:  # a document for the command
                command, output = "\n".join([command, *lines[:-1:2], ""]), lines[-1]
            found = run(vendored, bare.environment, command if lines else f"{command} || true")
            assert re.sub(r"\([0-9a-f]{12}\)", "(0123456789ab)", found) == output, command
    run(vendored, bare.environment, "trainyard plan jobs/vision/first-run && trainyard upgrade --diff")
    built_by = HOME / ".tools/bin/kustomize"
    assert "kind: Service\n" in run(vendored, bare.environment, f"{built_by} build jobs/vision/first-run")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a later version, in which one base says otherwise, one is new and one is gone."""
    place = tmp_path_factory.mktemp("newer")
    with tarfile.open(built(HOME, "sdist", place / "source")) as archive:
        archive.extractall(place / "unpacked", filter="data")
    [source] = (place / "unpacked").iterdir()
    for file, old, new in (
        ("tools/trainyard/__init__.py", f'__version__ = "{__version__}"', f'__version__ = "{NEWER}"'),
        ("base/run/training-job.yaml", "seed: 1337", "seed: 1338"),
        ("overlays/efa/fabric.yaml", "name: efa\n", "name: efa\n  labels: {}\n"),
    ):
        written = (source / file).read_text()
        assert old in written
        (source / file).write_text(written.replace(old, new))
    (source / "base/node-tuning/more.conf").write_text("# new\n")
    (source / "base/team/role-gitops.yaml").rename(source / "base/team/role-of-gitops.yaml")
    kustomization = source / "base/team/kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("role-gitops.yaml", "role-of-gitops.yaml"))
    return installed(built(source, "wheel", place / "wheel"), place / "environment")


@pytest.mark.claim("vendored-follows", "vendored-says-jobs")
def test_a_newer_wheel_brings_its_bases(vendored: Path, newer: Path) -> None:
    said = run(vendored, newer, LATER)

    planned, _, done = said.partition(f"{NEWER} (was {__version__}): 2 new, 3 changed, 1 removed\n")[2].partition(NEWER)
    for text in (planned, done):
        assert "  changed  base/run/training-job.yaml\n" in text
        assert "  removed  base/team/role-gitops.yaml\n" in text
        assert re.search(r"^  TRAINER_SEED +1337 -> 1338$", text, re.MULTILINE)
    assert "10 jobs pass" in done
    assert not (vendored / "base/team/role-gitops.yaml").exists()
    assert run(vendored, newer, "git status --porcelain") == ""
    assert run(vendored, newer, "trainyard upgrade") == f"{NEWER}: up to date\n"


@pytest.mark.claim("vendored-refused", "vendored-kept", "vendored-downgrade")
def test_a_newer_wheel_overwrites_nothing_of_ones_own(vendored: Path, newer: Path, bare: Bare) -> None:
    address, fabric = "base/gitops/repository/config-map.yaml", "overlays/efa/fabric.yaml"
    run(vendored, newer, f"sed -i s/git.example.com/git.ml.internal/ {address}; sed -i 's/efa: 32/efa: 4/' {fabric}")

    refused = run(vendored, newer, "trainyard upgrade", code=1)

    assert f"  {fabric} was changed here, and changed in {NEWER}\n" in refused
    assert run(vendored, newer, "git status --porcelain") == f" M {address}\n M {fabric}\n"
    assert f"  kept     {address}: changed here\n" in run(vendored, newer, f"trainyard upgrade --take {fabric}")
    assert "git.ml.internal" in (vendored / address).read_text()
    assert "labels: {}" in (vendored / fabric).read_text()
    assert "which is older" in run(vendored, bare.environment, "trainyard upgrade", code=2)
