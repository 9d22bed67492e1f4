"""What a container ends with when its launcher fails: the exit code of the script around it, as a shell works it out.

The launcher is taken to fail and every other command to succeed; where something asks whether it does, both ways are
followed. bash(1) and dash(1) are the source; what they do not make certain is not known.
"""

import json
from collections.abc import Callable
from typing import Any

from trainyard.workload.interpreter import answer
from trainyard.workload.model import HiddenFailure
from trainyard.workload.shell import Command, Script, commands, request

_DEPTH = 8
"""Scripts in one another."""
_SHOWN = 40
"""Characters of a command in a message."""
_MENDS = ("-o pipefail", "-e", "-eo pipefail")
"""Options of a shell, in the order in which they change less."""

ScriptOf = Callable[[Command], Script | None]
Programs = dict[str, dict[str, Any]]


def hidden(whole: Command, script_of: ScriptOf, launches: Callable[[Command], bool]) -> HiddenFailure | None:
    """How a container ends with 0 though its launcher failed; None where it does not, or where nobody can tell.

    `whole` is its command line, `script_of` gives the script that a command runs, `launches` knows a launcher.
    """
    script = None if launches(whole) else script_of(whole)
    if script is None:
        return None
    programs: Programs = {}
    _add(programs, script, script_of, launches, _DEPTH)
    ends = _ends(script, programs)
    if not ends or any(end["code"] != 0 for end in ends):
        return None
    mended_by = ""
    for options in _MENDS:
        then = _ends(script, programs, *options.split())
        if then and not any(end["code"] in (0, _ANY) for end in then):
            mended_by = f"set {options}"
            break
    last = min(ends, key=lambda end: bool(end["sure"]))
    by = last["by"] if len(last["by"]) <= _SHOWN or last["way"] == "trap" else f"{last['by'][: _SHOWN - 3]}..."
    sure = all(end["sure"] for end in ends)
    return HiddenFailure(last["way"], by, sure, any(end["followed"] for end in ends), mended_by)


_ANY = -1
"""The exit code that may be any."""


def _ends(script: Script, programs: Programs, *options: str) -> list[dict[str, Any]]:
    """How the container may end once its launcher failed; none where that is not known."""
    asked = request(script, *options)
    if script.shell not in ("bash", "sh", "dash", "ash") or (asked["shell"] == "sh" and "pipefail" in asked["options"]):
        return []
    return answer(json.dumps(asked | {"programs": programs})).get("ends") or []


def _add(
    programs: Programs, script: Script, script_of: ScriptOf, launches: Callable[[Command], bool], depth: int
) -> None:
    """Add what the commands of a script are, by their words."""
    for command in commands(script):
        if command.words[0].text == "exec" and len(command.words) > 1:
            command = Command(command.words[1:], command.env, command.complete)
        key = "\0".join(word.text for word in command.words)
        if launches(command):
            programs[key] = {"launches": True}
        elif depth and key not in programs and (inner := script_of(command)) is not None:
            programs[key] = {"script": request(inner) | {"shell": inner.shell, "env": {}}}
            _add(programs, inner, script_of, launches, depth - 1)
