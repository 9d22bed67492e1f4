"""Links of docs/ to files outside it, for mkdocs: they lead to the repository, and to nothing that is not there."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

HOME = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>(?!https?://|#|mailto:)[^)\s]+)\)")
_EXAMPLES = ("clusters/", "jobs/")
"""What a fork replaces by its own: a link to an example that it deleted stays as text."""


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs for each page. PluginError where a link out of docs/ leads to nothing."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def outside(link: re.Match[str]) -> str:
        target, mark, part = link["target"].partition("#")
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/") or not target:
            return link[0]
        if (HOME / path).exists():
            return f"[{link['text']}]({config.repo_url.rstrip('/')}/blob/main/{path}{mark}{part})"
        if path.startswith(_EXAMPLES):
            return link["text"]
        raise PluginError(f"docs/{page.file.src_uri} links to {link['target']}, which is not there")

    return _LINK.sub(outside, markdown)
