"""Whole outputs, held against files in which they were recorded."""

import os
from difflib import unified_diff
from pathlib import Path


def hold(file: Path, text: str) -> None:
    """An output is to the byte as recorded; UPDATE_SNAPSHOTS=1 records it."""
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    recorded = file.read_bytes().decode()
    assert text == recorded, "\n".join(
        unified_diff(recorded.splitlines(), text.splitlines(), f"recorded in {file.name}", "now", lineterm="")
    )
