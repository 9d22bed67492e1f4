"""The CustomResourceDefinitions themselves, for an API server that must know a kind: `--definitions FOLDER`."""

import json
from pathlib import Path
from typing import Any

import yaml

from trainyard.errors import Fault
from trainyard.schema_generation.sources import download, read_sources


def write_definitions(home: Path, go: str, folder: Path) -> int:
    """Write `<group>_<version>_<kind>.json` into `folder` for every served kind. Returns how many there are.

    Fault where a source is missing or not understood.
    """
    sources = read_sources(home / "schemas" / "sources.yaml")
    folders = download(go, home / "tools" / "go" / "schemas", sources.modules)
    written = 0
    try:
        for module, path in sources.custom_resources:
            for document in yaml.load_all((folders[module] / path).read_text(), Loader=yaml.CSafeLoader):
                if document:
                    written += _write(document, folder)
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise Fault(f"a definition of custom resources is not understood: {error!r}") from error
    return written


def _write(definition: dict[str, Any], folder: Path) -> int:
    spec = definition["spec"]
    # No operator runs beside this server, so nobody converts between versions.
    spec["conversion"] = {"strategy": "None"}
    served = [version["name"] for version in spec["versions"] if version["served"]]
    for version in served:
        (folder / f"{spec['group']}_{version}_{spec['names']['kind']}.json").write_text(json.dumps(definition))
    return len(served)
