"""schemas/catalog.json: our schemas with the files that each describes, in the form of SchemaStore's catalogue.

An editor that is given it knows the schema of a file without a line in it. The address of a schema is its `$id`, below
that of the repository in mkdocs.yml: a fork names its own there.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard.docs.generated import update
from trainyard.home import HOME

FOLDER = HOME / "schemas" / "trainyard.dev"
CATALOGUE = HOME / "schemas" / "catalog.json"
FORM = "https://json.schemastore.org/schema-catalog.json"

FILES: Mapping[str, tuple[str, ...]] = {
    "Cluster": ("**/clusters/*/facts/cluster.yaml",),
    "Fabric": ("**/overlays/*/fabric.yaml",),
    "SuppressionList": ("**/clusters/*/suppressions.yaml",),
    "Team": ("**/clusters/*/platform/*/team.yaml", "**/base/team/team.yaml"),
    "TrainingJob": ("**/jobs/*/*/job.yaml", "**/clusters/*/benchmark/*/job.yaml", "**/base/run/training-job.yaml"),
}
"""Of each kind that stands in a file of its own, where such files lie."""


def identified(text: str, file: Path) -> str:
    """The text of a schema with the `$id` that its place gives it."""
    bare = re.sub(r'^  "\$id": .*\n', "", text, flags=re.MULTILINE)
    return bare.replace("\n", f'\n  "$id": "{_address(file)}",\n', 1) if bare.startswith("{\n") else bare


def catalogue(schemas: Mapping[Path, Mapping[str, Any]]) -> str:
    """The catalogue of some schemas."""
    entries = [
        {
            "name": f"Trainyard {schema['title']}",
            "description": schema["description"],
            "fileMatch": list(FILES.get(schema["title"], ())),
            "url": _address(file),
        }
        for file, schema in schemas.items()
    ]
    return json.dumps({"$schema": FORM, "version": 1, "schemas": entries}, indent=2) + "\n"


def files() -> dict[Path, str]:
    """What is written, by file."""
    texts = {file: identified(file.read_text(), file) for file in sorted(FOLDER.glob("*.json"))}
    return {**texts, CATALOGUE: catalogue({file: json.loads(text) for file, text in texts.items()})}


def main() -> int:
    """Write them, or with --check say which differ."""
    return update(files(), "schemas/trainyard.dev/")


def _address(file: Path) -> str:
    found = re.search(r"^repo_url: (\S+)$", (HOME / "mkdocs.yml").read_text(), re.MULTILINE)
    assert found is not None
    return f"{found[1]}/raw/main/{file.relative_to(HOME).as_posix()}"


if __name__ == "__main__":
    sys.exit(main())
