"""Regular expressions that are compiled when they are first used."""

import re
from typing import Any, AnyStr, cast


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, later: a run needs a few of the two hundred that its modules hold."""
    return cast(re.Pattern[AnyStr], _Late(text, flags))


class _Late:
    def __init__(self, text: Any, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
