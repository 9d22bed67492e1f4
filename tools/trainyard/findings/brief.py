"""What findings show of long texts: enough to know them again."""

import re
from dataclasses import replace

from trainyard.findings.finding import Finding

MESSAGE = 400
"""Characters of a message, and of what it advises."""
_WORD = 100
"""Characters of a word without blanks: a command line in base64, the name of an image."""
_LONG_WORD = re.compile(rf"\S{{{_WORD + 1},}}")
_END = 40
"""Characters of the end that are kept, where arithmetic and file names have what matters."""
_CUT = "..."


def brief(text: str) -> str:
    """The text with what is too long cut out of its middle."""
    if len(text) <= _WORD:
        return text
    return _cut(_LONG_WORD.sub(lambda match: _cut(match[0], _WORD), text), MESSAGE)


def told_briefly(finding: Finding) -> Finding:
    """The finding in texts that fit a line or two."""
    return replace(finding, message=brief(finding.message), help=brief(finding.help))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - _END - len(_CUT)] + _CUT + text[-_END:]
