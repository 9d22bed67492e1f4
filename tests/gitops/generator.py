"""What Argo CD's ApplicationSet controller makes of an ApplicationSet with a git file generator.

Its own packages cannot be built from its module: they need gitops-engine, which lies in the same repository and is not
in the module. This is what they do, in the order in which they do it: `git ls-files` with the pattern, each file's
content as parameters with `path` laid over them, the selector on the flattened parameters, the template.
The selector is none of labels: a value may be any text (applicationset/utils/selector.go).
Source: argo-cd v3.5.7, applicationset/generators/git.go and generator_spec_processor.go, util/git/client.go.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

Json = dict[str, Any]

_TEMPLATE = re.compile(r"\{\{\s*(.*?)\s*\}\}")


def applications(repository: Path, item: Json, *, new_globbing: bool = False) -> list[Json]:
    """The applications of an ApplicationSet, as they would be created."""
    (generator,) = item["spec"]["generators"]
    wanted = generator["selector"]["matchLabels"]
    return [
        templated(item["spec"]["template"], parameters)
        for parameters in parameters_of(repository, generator["git"]["files"], new_globbing)
        if all(flat(parameters).get(key) == value for key, value in wanted.items())
    ]


def parameters_of(repository: Path, files: list[Json], new_globbing: bool) -> Iterator[Json]:
    found: set[str] = set()
    for each in files:
        if not each.get("exclude"):
            found |= matching(repository, each["path"], new_globbing)
    for each in files:
        if each.get("exclude"):
            found -= matching(repository, each["path"], new_globbing)
    for file in sorted(found):
        content = yaml.safe_load((repository / file).read_text())
        folder = PurePosixPath(file).parent
        path = {"path": str(folder), "basename": folder.name, "segments": list(folder.parts)}
        for parameters in content if isinstance(content, list) else [content]:
            yield parameters | {"path": path}


def matching(repository: Path, pattern: str, new_globbing: bool) -> set[str]:
    """Files under version control. A star matches slashes, but not with --enable-new-git-file-globbing."""
    magic = ":(glob)" if new_globbing else ""
    command: list[str | Path] = ["git", "-C", repository, "ls-files", "--full-name", "-z", "--", magic + pattern]
    listed: str = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(listed.split("\0")) - {""}


def flat(value: Any, above: str = "") -> dict[str, str]:
    """Nested maps and lists as one map of dotted keys."""
    if not isinstance(value, dict | list):
        return {above: str(value)}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {
        inner: text
        for key, below in items
        for inner, text in flat(below, f"{above}.{key}" if above else str(key)).items()
    }


def templated(template: Any, parameters: Json) -> Any:
    if isinstance(template, dict):
        return {key: templated(below, parameters) for key, below in template.items()}
    if isinstance(template, list):
        return [templated(each, parameters) for each in template]
    if not isinstance(template, str):
        return template
    return _TEMPLATE.sub(lambda match: expression(match[1], parameters["path"]), template)


def expression(text: str, path: Json) -> str:
    """What a template of ours may ask for: parts of the path, and nothing that a file says."""
    known = {
        ".path.path": path["path"],
        ".path.basename": path["basename"],
        "index .path.segments 1": path["segments"][1],
    }
    return str(known[text])
