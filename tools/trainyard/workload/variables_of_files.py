"""Variables that a container's own script makes of files: a loop over folders that exports each file by its name.

A TrainJob can name no ConfigMap to read variables from, but it can mount one, so its runtime may do this.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard.objects.objects import Object
from trainyard.workload.environment import Environment
from trainyard.workload.model import EnvVar
from trainyard.workload.plain import entries, mapping, sequence, text

ORIGIN = "file"
_LOOP = re.compile(
    r"\bfor\s+(?P<file>\w+)\s+in\s+(?P<folders>(?:/[\w./-]+/\*[ \t]*)+)(?:;|\n)\s*do\b(?P<body>.*?)\bdone", re.DOTALL
)
_EXPORT = r'export\s+"\$\{{{0}##\*/\}}=\$\(\s*cat\s+"?\$\{{?{0}\}}?"?\s*\)"'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SCRIPT_CHARACTERS = 8 * 1024


def with_files(
    environment: Environment, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> Environment:
    """The environment that the program has once its container's script read the files. The last folder wins."""
    folders = list(_folders(container))
    if not folders:
        return environment
    variables, complete = dict(environment.variables), environment.complete
    for folder in folders:
        found = _mounted(folder, container, pod, sources)
        if found is None:
            complete = False
            continue
        for variable in _variables(*found):
            variables.pop(variable.name, None)
            variables[variable.name] = variable
    return replace(environment, variables=variables, complete=complete)


def _folders(container: Mapping[Any, Any]) -> Iterator[str]:
    """The folders that scripts in the command line loop over, in their order."""
    for item in (*sequence(container.get("command")), *sequence(container.get("args"))):
        if not isinstance(item, str) or "##*/" not in item or len(item) > _SCRIPT_CHARACTERS:
            continue
        for loop in _LOOP.finditer(item):
            if re.search(_EXPORT.format(loop["file"]), loop["body"]):
                yield from (folder.removesuffix("/*") for folder in loop["folders"].split())


def _mounted(
    folder: str, container: Mapping[Any, Any], pod: Mapping[Any, Any], sources: Sequence[Object]
) -> tuple[Object, Mapping[Any, Any]] | None:
    """The ConfigMap that is mounted as a folder, and the volume's source."""
    mounted = {
        text(mount.get("name"))
        for _, mount in entries(container.get("volumeMounts"))
        if text(mount.get("mountPath")).rstrip("/") == folder and not mount.get("subPath")
    }
    for _, volume in entries(pod.get("volumes")):
        source = volume.get("configMap")
        if text(volume.get("name")) not in mounted or not isinstance(source, dict):
            continue
        for item in sources:
            if item.kind == "ConfigMap" and item.api_version == "v1" and item.name == source.get("name"):
                return item, source
    return None


def _variables(found: Object, source: Mapping[Any, Any]) -> Iterator[EnvVar]:
    data = mapping(found.data.get("data"))
    listed = {text(item.get("path")): text(item.get("key")) for _, item in entries(source.get("items"))}
    for name, key in (listed or {key: key for key in data if isinstance(key, str)}).items():
        value = data.get(key)
        if _NAME.match(name) and isinstance(value, str):
            value = value.rstrip("\n")
            yield EnvVar(name, value, found.at("data", key), ORIGIN, value)
