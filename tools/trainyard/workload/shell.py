"""Taking a shell script apart into the commands that it runs, without running anything.

The renderer follows the script as bash(1) does, with the grammar and expansions of mvdan.cc/sh. What only a running
shell can know (a program's output or exit code, a file, a variable that nobody sets) makes a word not known. Where it
decides what runs, both ways are followed, and what comes after is what both agree on.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.workload.interpreter import answer
from trainyard.workload.model import EnvVar, Word

_OF_POSIX = frozenset({"ash", "dash", "sh"})


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command and the environment that it is started in."""

    words: tuple[Word, ...]
    env: Mapping[str, EnvVar]
    complete: bool = True
    """False where more variables may be set than `env` holds."""
    certain: bool = True
    """False where a branch, a loop or the command before it decides whether it runs."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a command gives to a shell."""

    text: str
    spot: Spot
    """The field that holds it."""
    shell: str
    """The name of the program: bash, sh."""
    options: tuple[str, ...]
    """The shell's own: `-ec`, `-o`, `pipefail`."""
    arguments: tuple[Word, ...]
    """$0, $1 and so on."""
    env: Mapping[str, EnvVar]
    complete: bool = True
    """False where more variables may be set than `env` holds."""


def commands(script: Script) -> tuple[Command, ...]:
    """The simple commands of a script in the order they run first, those of every branch.

    A command that runs more than once is one whose words are known where they are always the same. Empty for a script
    that is no shell's, is far larger than a command line, or grows to be.
    """
    found = answer(json.dumps(request(script)))
    return tuple(_command(each, script) for each in found.get("commands") or ())


def request(script: Script, *options: str) -> dict[str, Any]:
    """What the renderer is asked about a script, with options that it sets first."""
    return {
        "script": script.text,
        "shell": "sh" if script.shell in _OF_POSIX else "bash",
        "options": [*script.options, *options],
        "arguments": [{"text": word.text, "known": word.known} for word in script.arguments],
        "env": {name: variable.value for name, variable in script.env.items()},
        "complete": script.complete,
    }


def _command(found: dict[str, Any], script: Script) -> Command:
    words = tuple(Word(each["text"], script.spot, each["known"]) for each in found["words"])
    env = {name: variable for name, variable in script.env.items() if name not in (found["unset"] or ())}
    for name, value in found["set"].items():
        env[name] = EnvVar(name, value, script.spot, raw=value)
    return Command(words, env, found["complete"], found["certain"])
