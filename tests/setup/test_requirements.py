"""requirements/*.txt: pinned, hashed, compiled from pyproject.toml, and free of registry addresses."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.setup.conftest import HOME, Run

pytestmark = pytest.mark.commands

_PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())
ASKED = {
    "lint": _PROJECT["project"]["dependencies"],
    **_PROJECT["project"]["optional-dependencies"],
    **_PROJECT["dependency-groups"],
}
"""What each file is compiled of."""


def entries(name: str) -> list[str]:
    """The requirements of a compiled file, each with its hashes on one line."""
    text = (HOME / f"requirements/{name}.txt").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pins(name: str) -> dict[str, str]:
    found = (re.match(r"(\S+?)==(\S+)", entry) for entry in entries(name))
    return {pin[1]: pin[2] for pin in found if pin}


def test_there_is_one_file_a_group() -> None:
    assert sorted(ASKED) == sorted(path.stem for path in (HOME / "requirements").iterdir())


@pytest.mark.parametrize("name", ASKED)
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    text = (HOME / f"requirements/{name}.txt").read_text()

    assert text.splitlines()[1] == "#    tools/lock"
    assert "://" not in text
    assert all(re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry) for entry in entries(name))


@pytest.mark.parametrize("name", ASKED)
def test_the_pins_fit_what_pyproject_asks(name: str) -> None:
    pinned = pins(name)

    asked = [Requirement(text) for text in ASKED[name]]

    assert [str(one) for one in asked if not one.specifier.contains(pinned.get(one.name, "0"))] == []


def test_the_tests_run_on_the_versions_that_the_linter_runs_on() -> None:
    assert pins("lint").items() <= pins("test").items()


def test_the_linter_needs_little_and_no_torch() -> None:
    assert sorted(pins("lint")) == ["cel-expr-python", "jsonschema-rs", "pyyaml"]
    assert "torch" not in pins("test")


def test_pre_commit_runs_the_same_ruff() -> None:
    config = yaml.safe_load((HOME / ".pre-commit-config.yaml").read_text())
    ruffs = {
        package
        for hook in config["repos"][0]["hooks"]
        for package in hook.get("additional_dependencies", ())
        if package.startswith("ruff")
    }

    assert ruffs == {f"ruff=={pins('test')['ruff']}"}


@pytest.mark.slow_build
@pytest.mark.long
def test_compiling_again_gives_the_same_bytes(checkout: Path, run: Run) -> None:
    before = {path.name: path.read_bytes() for path in (checkout / "requirements").iterdir()}

    done = run(checkout / "tools/lock")

    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in (checkout / "requirements").iterdir()} == before
