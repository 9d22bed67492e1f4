"""Lines in base/, overlays/, clusters/ and jobs/ that tell an editor's language server which schema a document has.

Such a line stands above each document that a schema of schemas/ describes and takes. Above one that lacks what its kind
needs, since a patch or the wiring completes it, it may stand. Files that a program writes have none, since nobody edits
them, and base/wiring belongs to its own table.
"""

import re
import sys
from os.path import relpath
from pathlib import Path

import yaml

from trainyard.docs.generated import update
from trainyard.home import HOME
from trainyard.schemas.schema import schema_of
from trainyard.schemas.violation import validator_of

PARTS = ("base", "overlays", "clusters", "jobs")
MARK = "# yaml-language-server: $schema="
_BREAK = re.compile(r"^---\n", re.MULTILINE)
_WRITTEN = "# Written by "


def headed(text: str, file: Path) -> str:
    """The text of `file` with such a line above each document that gets one, and nowhere else."""
    if text.startswith(_WRITTEN):
        return text
    return "---\n".join(_headed(document, file) for document in _BREAK.split(text))


def files() -> list[Path]:
    """The files of which this is asked."""
    found = (file for part in PARTS for file in (HOME / part).rglob("*.yaml"))
    return sorted(file for file in found if HOME / "base" / "wiring" not in file.parents)


def main() -> int:
    """Write the lines, or with --check say which files lack theirs."""
    return update({file: headed(file.read_text(), file) for file in files()}, "schemas/")


def _headed(document: str, file: Path) -> str:
    bare = "".join(line for line in document.splitlines(keepends=True) if not line.startswith(MARK))
    data = yaml.safe_load(bare)
    named = isinstance(data, dict) and {"apiVersion", "kind"} <= data.keys()
    schema = schema_of(HOME / "schemas", data["apiVersion"], data["kind"]) if named else None
    if schema is None or (bare == document and not validator_of(schema)[0].is_valid(data)):
        return bare
    return f"{MARK}{relpath(schema, file.parent)}\n{bare}"


if __name__ == "__main__":
    sys.exit(main())
