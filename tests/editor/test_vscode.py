"""The extension for VS Code: its lock, its package, and the library that it speaks with."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import HOME, LLAMA, Repository, environment

EXTENSION = HOME / "editors" / "vscode"


def test_the_lock_names_no_registry_and_every_hash() -> None:
    lock: dict[str, Any] = json.loads((EXTENSION / "package-lock.json").read_text())
    packages = {name: facts for name, facts in lock["packages"].items() if name}

    assert (
        lock["packages"][""]["devDependencies"]
        == json.loads((EXTENSION / "package.json").read_text())["devDependencies"]
    )
    assert [name for name, facts in packages.items() if "resolved" in facts] == []
    assert [name for name, facts in packages.items() if "integrity" not in facts] == []


@pytest.mark.slow_build
@pytest.mark.skipif(shutil.which("npm") is None, reason="the extension is built with npm")
@pytest.mark.claim("editor-vscode")
def test_it_is_packaged_and_its_library_drives_the_server(checkout: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "editors" / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix", "LICENSE"))
    shutil.copy(HOME / "LICENSE", tmp_path)

    def run(*command: str | Path, **variables: str) -> str:
        around = environment(tmp_path) | variables
        done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("npm", "ci", "--ignore-scripts")
    run("npm", "run", "package")
    with zipfile.ZipFile(folder / "trainyard.vsix") as package:
        names = {name for name in package.namelist() if name.startswith("extension/")}
    assert names == {f"extension/{name}" for name in ("LICENSE.txt", "package.json", "readme.md", "dist/extension.js")}

    server = (sys.executable, "-P", "-m", "trainyard", "lint-jobs", "--lsp")
    file = checkout.root / LLAMA / "job.yaml"
    drive = HOME / "tests" / "editor" / "drive.cjs"
    told = json.loads(
        run("node", drive, file, "global: 128", "global: 96", *server, NODE_PATH=str(folder / "node_modules"))
    )

    line = file.read_text().splitlines().index("    global: 128")
    assert told["capabilities"]["positionEncoding"] == "utf-16"
    assert told["saved"] == []
    assert told["typed"][0]["code"] == "BAT001"
    assert told["typed"][0]["range"] == {
        "start": {"line": line, "character": 12},
        "end": {"line": line, "character": 14},
    }
    assert told["actions"][0]["edit"]["documentChanges"][0]["edits"][0]["newText"] == "128"
    assert told["hover"]["contents"]["value"].startswith("# BAT001 batch-identity")
    assert [item["label"] for item in told["items"]] == ["8"]
    assert (told["code"], os.path.exists(file)) == (0, True)
