"""tools/lint-jobs: finds its checkout from anywhere, and sets up exactly when that is due."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.setup.conftest import Run

pytestmark = pytest.mark.commands

NO_SET_UP = "exit 99"
"""The python3 of a PATH on which a launcher that sets up ends with 99."""


def test_it_hands_over_arguments_and_the_folder_it_was_started_in(ready: Path, run: Run, tmp_path: Path) -> None:
    done = run(ready / "tools/lint-jobs", "two words", "*", "", "--changed", "HEAD")

    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "arguments": ["lint-jobs", "two words", "*", "", "--changed", "HEAD"],
        "cwd": str(tmp_path / "elsewhere"),
        "isolated": 1,
        "file": str(ready / "tools/trainyard/__main__.py"),
    }


def test_its_exit_code_is_the_linters(ready: Path, run: Run) -> None:
    assert run(ready / "tools/lint-jobs", "exit", "2").returncode == 2


def test_it_is_found_through_links(ready: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/lint").symlink_to("../relative")
    (tmp_path / "relative").symlink_to(ready / "tools/lint-jobs")
    (tmp_path / "tools-of-it").symlink_to(ready / "tools")

    ways = [
        run(tmp_path / "bin/lint"),
        run("../bin/lint"),
        run("lint", PATH=f"{tmp_path}/bin:/usr/bin:/bin"),
        run(tmp_path / "tools-of-it/lint-jobs"),
        run("tools/lint-jobs", cwd=ready, CDPATH="/usr"),
        run("sh", "lint-jobs", cwd=ready / "tools"),
    ]

    assert [(way.returncode, way.stderr) for way in ways] == [(0, "")] * len(ways)
    assert {json.loads(way.stdout)["file"] for way in ways} == {str(ready / "tools/trainyard/__main__.py")}


def test_a_fresh_set_up_is_not_looked_at_again(ready: Path, run: Run, path_with: Callable[..., str]) -> None:
    done = run(ready / "tools/lint-jobs", PATH=path_with(python3=NO_SET_UP), LC_ALL="en_US.UTF-8")

    assert (done.returncode, done.stderr) == (0, "")


def test_an_editors_server_has_a_python_of_its_own(ready: Path, run: Run, path_with: Callable[..., str]) -> None:
    helped = run(ready / "tools/lint-jobs", "--lsp", "--help")
    refused = run(ready / "tools/lint-jobs", "--lsp", "--no-such-option")
    asked = run(ready / "tools/lint-jobs", "--lsp", PATH=path_with(python3=NO_SET_UP))

    assert (helped.returncode, helped.stdout.startswith("usage: lint-jobs")) == (0, True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert not (ready / ".tools/lsp").exists()
    assert asked.returncode == 99


@pytest.mark.parametrize(
    "changed",
    [
        "requirements/lint.txt",
        "tools/go/go.mod",
        "tools/go/go.sum",
        "tools/go/render/main.go",
        "tools/go/validation/go.mod",
        "tools/go/validation/kinds.go",
        "tools/set_up/targets.py",
    ],
)
def test_a_changed_input_makes_the_set_up_stale(
    ready: Path, run: Run, path_with: Callable[..., str], changed: str
) -> None:
    with (ready / changed).open("a") as file:
        file.write("\n")

    assert run(ready / "tools/lint-jobs", PATH=path_with(python3=NO_SET_UP)).returncode == 99


@pytest.mark.parametrize("lost", ["lint/bin/python", "lint/stamp", "bin/render", "bin/validation"])
def test_a_lost_program_makes_the_set_up_stale(ready: Path, run: Run, path_with: Callable[..., str], lost: str) -> None:
    (ready / ".tools" / lost).unlink()

    assert run(ready / "tools/lint-jobs", PATH=path_with(python3=NO_SET_UP)).returncode == 99


def test_a_stale_set_up_is_renewed_once(ready: Path, run: Run, path_with: Callable[..., str]) -> None:
    with (ready / "requirements/lint.txt").open("a") as file:
        file.write("# one more line\n")

    first = run(ready / "tools/lint-jobs")
    second = run(ready / "tools/lint-jobs", PATH=path_with(python3=NO_SET_UP))

    assert first.returncode == 0, first.stderr
    assert "making the Python environment for lint" in first.stderr
    assert "building" not in first.stderr, "the Go programs do not depend on the requirements"
    assert (second.returncode, second.stderr) == (0, "")


def test_without_python_it_says_what_to_install(checkout: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    for name in ("cat", "cmp", "readlink", "sh"):
        (tmp_path / "bare" / name).symlink_to(str(shutil.which(name)))

    done = run(checkout / "tools/lint-jobs", PATH=str(tmp_path / "bare"))

    assert (done.returncode, done.stderr) == (
        3,
        "lint-jobs: python3 is not on PATH; install Python 3.11 or newer\n",
    )


def test_the_linter_has_what_it_needs_and_no_torch(ready: Path, run: Run) -> None:
    names = ("yaml", "jsonschema_rs", "torch", "pip")
    script = f"from importlib.util import find_spec; print([name for name in {names} if find_spec(name)])"

    assert run(ready / ".tools/lint/bin/python", "-I", "-c", script).stdout == "['yaml', 'jsonschema_rs']\n"


def test_its_code_is_compiled_once(ready: Path, run: Run) -> None:
    for cache in ready.glob("tools/**/__pycache__"):
        shutil.rmtree(cache)
    (ready / "tools/trainyard/__init__.py").write_text("")

    run(ready / "tools/lint-jobs")

    assert list((ready / "tools/trainyard/__pycache__").glob("__init__.*.pyc"))
    assert list((ready / ".tools/lint/lib").glob("python*/site-packages/yaml/__pycache__/*.pyc"))
