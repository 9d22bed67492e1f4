"""A container's command line: its words as the kubelet passes them, and the commands inside `sh -c`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from trainyard.objects import Spot
from trainyard.workload.environment import Environment, expand
from trainyard.workload.model import Word
from trainyard.workload.plain import sequence
from trainyard.workload.shell import Command, commands

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_NESTED = 4


def command_line(
    container: Mapping[Any, Any],
    spot: Spot,
    environment: Environment,
    default: Sequence[Word] = (),
    read: Callable[[str], tuple[str, Spot] | None] = lambda _: None,
) -> tuple[Command, ...]:
    """The commands that the container at `spot` runs, in the order they are written.

    `default` is what its controller runs where the manifest gives neither command nor args. An image's own entry point
    is not known: with `args` alone, the words are those of `args`. `read` gives the text of a file that the container
    sees, and the field that holds it, where a manifest tells.
    """
    words = [
        _word(item, spot.below(name, index), environment)
        for name in ("command", "args")
        for index, item in enumerate(sequence(container.get(name)))
        if isinstance(item, str)
    ]
    whole = Command(tuple(words or default), environment.variables, environment.complete)
    return _taken_apart(whole, _NESTED, read) if whole.words else ()


def basename(word: Word) -> str:
    """The name of the program that a word calls, without its folder."""
    return PurePosixPath(word.text).name


def _word(raw: str, spot: Spot, environment: Environment) -> Word:
    text, known = expand(raw, environment.variables, environment.complete)
    return Word(text, spot, known)


def _taken_apart(command: Command, levels: int, read: Callable[[str], tuple[str, Spot] | None]) -> tuple[Command, ...]:
    found = _script(command.words)
    index = command.words.index(found) if found is not None else _file(command.words)
    content = (found.text, found.spot) if found is not None else read(command.words[index].text)
    if content is None or levels == 0:
        return (command,)
    after = command.words[index + 1 :]
    inner = commands(*content, command.env, complete=command.complete, arguments=after)
    return tuple(part for each in inner for part in _taken_apart(each, levels - 1, read))


def _file(words: tuple[Word, ...]) -> int:
    """The index of the word that names a file which may be a script: behind a shell, else the first."""
    start = next((i for i, word in enumerate(words) if basename(word) in SHELLS), None)
    if start is None or not _only_wraps(words[:start]):
        return 0
    behind = (i for i in range(start + 1, len(words)) if not words[i].text.startswith(("-", "+")))
    return next(behind, 0)


def _script(words: tuple[Word, ...]) -> Word | None:
    """The word that holds a script, where the words call a shell with `-c`."""
    start = next((i for i, word in enumerate(words) if basename(word) in SHELLS), None)
    if start is None or not _only_wraps(words[:start]):
        return None
    reads_word = False
    index = start + 1
    while index < len(words):
        text = words[index].text
        if text in _WITH_VALUE:
            index += 2
            continue
        if not text.startswith(("-", "+")) or text in ("-", "--"):
            break
        if not text.startswith("--"):
            reads_word = reads_word or "c" in text[1:]
            index += text.endswith("o")
        index += 1
    if index < len(words) and words[index].text in ("-", "--"):
        index += 1
    return words[index] if reads_word and index < len(words) else None


WRAPPERS = frozenset(
    {
        "exec",
        "command",
        "env",
        "nohup",
        "time",
        "timeout",
        "nice",
        "ionice",
        "chrt",
        "numactl",
        "taskset",
        "stdbuf",
        "sudo",
        "gosu",
        "tini",
        "dumb-init",
        "catchsegv",
        "nsys",
        "ncu",
        "py-spy",
        "strace",
    }
)
"""Programs that run the command line that follows their own options."""


def _only_wraps(words: tuple[Word, ...]) -> bool:
    return not words or basename(words[0]) in WRAPPERS
