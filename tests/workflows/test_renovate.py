"""renovate.json knows every pin of the repository."""

import fnmatch
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).resolve().parents[2]
CONFIG: dict[str, Any] = json.loads((HOME / "renovate.json").read_text())
TRACKED = subprocess.run(
    ["git", "-C", HOME, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
)
FILES = [name for name in TRACKED.stdout.splitlines() if (HOME / name).is_file()]
BUILT_IN = {
    "dockerfile": [r"(^|/)Dockerfile$"],
    "gomod": [r"(^|/)go\.mod$"],
    "npm": [r"(^|/)package\.json$"],
    "github-actions": [r"^\.github/workflows/[^/]+\.ya?ml$", r"(^|/)action\.ya?ml$"],
}
"""Files that managers read unless told otherwise, as Renovate documents them."""


def patterns(manager: str) -> list[str]:
    given = CONFIG.get(manager, {}).get("managerFilePatterns", [])
    return [*BUILT_IN.get(manager, []), *(pattern.strip("/") for pattern in given)]


def is_read(file: str, manager: str) -> bool:
    assert manager in CONFIG["enabledManagers"]
    return any(re.search(pattern, file) for pattern in patterns(manager))


def is_ignored(file: str) -> bool:
    return any(fnmatch.fnmatch(file, pattern) for pattern in CONFIG["ignorePaths"])


def found_by_regex(file: str) -> list[str]:
    """What the custom managers find in a file. RE2's named groups are spelt otherwise in Python."""
    text = (HOME / file).read_text()
    return [
        manager["depNameTemplate"].replace("{{{", "{").replace("}}}", "}").format(**match.groupdict())
        if "depNameTemplate" in manager
        else match["depName"]
        for manager in CONFIG["customManagers"]
        if any(re.search(pattern.strip("/"), file) for pattern in manager["managerFilePatterns"])
        for string in manager["matchStrings"]
        for match in re.finditer(string.replace("(?<", "(?P<"), text)
    ]


@pytest.mark.claim("every-pin-is-updated")
def test_every_package_of_npm_is_read() -> None:
    packages = [file for file in FILES if file.endswith("package.json") and not file.startswith("tests/")]
    assert packages == ["editors/vscode/package.json"]
    assert all(is_read(file, "npm") for file in packages)


@pytest.mark.claim("every-pin-is-updated")
def test_every_go_module_is_read_or_held_back_on_purpose() -> None:
    modules = [file for file in FILES if file.endswith("go.mod")]
    held = {file for file in modules if is_ignored(file) and not file.startswith("tests/")}
    assert held == {f"tools/go/kustomize-{version}/go.mod" for version in ("5.0.3", "5.4.3")}
    assert all(is_read(file, "gomod") for file in modules)


@pytest.mark.claim("every-pin-is-updated")
def test_every_program_that_a_go_module_builds_is_updated() -> None:
    [rule] = [rule for rule in CONFIG["packageRules"] if rule.get("matchDepTypes") == ["indirect"]]
    for file in (file for file in FILES if file.endswith("go.mod") and not is_ignored(file)):
        text = (HOME / file).read_text()
        tools = re.findall(r"^(?:tool |\t)(\S+)$", text, re.MULTILINE)
        indirect = re.findall(r"^\t(\S+) v\S+ // indirect$", text, re.MULTILINE)
        for tool in tools:
            owners = [module for module in indirect if tool == module or tool.startswith(f"{module}/")]
            if owners:
                assert max(owners, key=len) in rule["matchPackageNames"], (file, tool)


@pytest.mark.claim("every-pin-is-updated")
def test_every_lock_is_read() -> None:
    locks = [file for file in FILES if file.startswith("requirements/")]
    assert locks
    assert all(is_read(file, "pip_requirements") for file in locks)


@pytest.mark.claim("every-pin-is-updated")
def test_every_action_is_read() -> None:
    workflows = [file for file in FILES if file.startswith(".github/workflows/") or file == "action.yml"]
    assert all(is_read(file, "github-actions") for file in workflows)
    assert "helpers:pinGitHubActionDigests" in CONFIG["extends"]


@pytest.mark.claim("every-pin-is-updated")
def test_every_package_of_pre_commit_is_found() -> None:
    file = ".pre-commit-config.yaml"
    listed = re.findall(r"additional_dependencies: \[([^=\]]+)", (HOME / file).read_text())
    assert listed
    assert found_by_regex(file) == listed


EXAMPLES = ("docs/", "jobs/", "tests/", "tools/trainyard/")
"""Where digests are examples of what people write."""


@pytest.mark.claim("every-pin-is-updated")
def test_every_image_is_read_once() -> None:
    """As `image:` of an object that has a kind, in a Dockerfile, or by a custom manager; two would edit each other."""
    pinned = 0
    for file in (file for file in FILES if not file.startswith(EXAMPLES)):
        for line in (HOME / file).read_text(errors="replace").splitlines():
            named = re.search(r"(\S+)@sha256:[0-9a-f]{64}", line)
            if named is None:
                continue
            readers = [
                is_read(file, "kubernetes") and re.match(r" *-? *image: ", line),
                is_read(file, "dockerfile") and re.match(r"(ARG \w+=|FROM )", line),
                named[1].rpartition("=")[2] in found_by_regex(file),
            ]
            assert sum(map(bool, readers)) == 1, (file, line)
            pinned += 1
    assert pinned > 5


@pytest.mark.claim("every-pin-is-updated")
def test_every_version_in_a_base_is_found() -> None:
    """Of an image whose parts stand apart, and of a program: bases name no other versions."""
    for file in (file for file in FILES if file.startswith("base/") and file.endswith(".yaml")):
        text = (HOME / file).read_text()
        listed = re.findall(r"^ *\w*[vV]ersion: \S*\d\.\d\S*$", text, re.MULTILINE)
        found = [name for name in found_by_regex(file) if f"{name}@" not in text]
        assert len(found) == len(listed), (file, listed)


def test_ray_is_the_version_that_the_image_holds() -> None:
    [told] = re.findall(r"rayVersion: (\S+)", (HOME / "base/rayjob/ray-job.yaml").read_text())
    assert f"\nray=={told} " in (HOME / "requirements/ray.txt").read_text()


def test_what_it_runs_is_there() -> None:
    commands = [
        command for rule in CONFIG["packageRules"] for command in rule.get("postUpgradeTasks", {}).get("commands", [])
    ]
    assert all((HOME / command.split()[0]).is_file() for command in commands)
