"""Rules, for mkdocs: each gets its page from the rule itself, and a link to its row in the list leads to the page.

The list alone is kept in Git, where links lead to its rows.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trainyard.docs.pages import documents

_LINK = re.compile(r"\]\(((?:\.\./)*rules/)README\.md#([A-Z]{3}\d{3})\)")
_ROW = re.compile(r'<a id="([A-Z]{3}\d{3})"></a>\1')


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs with the files of docs/."""
    for name, text in documents().items():
        files.append(File.generated(config, f"rules/{name}", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return _ROW.sub(r"[\1](\1.md)", _LINK.sub(r"](\1\2.md)", markdown))
