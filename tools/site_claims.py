"""Claims of docs/, for mkdocs: a sentence that promises something and names none stops the build; readers see none."""

import logging
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trainyard.docs.claims import pages, sentences, unbound, without_comments

LOG = logging.getLogger("mkdocs.claims")
_seen: dict[str, tuple[int, int]] = {}
"""How many sentences of each page name a claim, and how many say why they are none."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page. PluginError where a sentence promises something and names no claim."""
    file = f"docs/{page.file.src_uri}"
    if file not in pages():
        return markdown
    if found := unbound(markdown, file):
        places = "; ".join(f"{file}:{each.line} {each.text}" for each in found)
        raise PluginError(f"name behind each sentence its claim, or say why it is none: {places}")
    said = list(sentences(markdown, file))
    _seen[file] = sum(bool(each.claims) for each in said), sum(bool(each.excuse) for each in said)
    return without_comments(markdown)


def on_post_build(**_: Any) -> None:
    """Called by mkdocs at the end."""
    bound, excused = map(sum, zip(*_seen.values(), strict=True))
    LOG.info("%d sentences name the claim that a test holds, %d say why they are none", bound, excused)
