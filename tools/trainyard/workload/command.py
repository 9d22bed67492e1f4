"""A container's command line: its words as the kubelet passes them, and the commands inside `sh -c`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from trainyard.objects.objects import Spot
from trainyard.workload.environment import Environment, expand
from trainyard.workload.model import Word
from trainyard.workload.plain import sequence
from trainyard.workload.shell import Command, Script, commands

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_NESTED = 4

Read = Callable[[str], tuple[str, Spot] | None]
"""The text of a file by its path, and the field that holds it; None where no manifest tells."""


def command_line(
    container: Mapping[Any, Any],
    spot: Spot,
    environment: Environment,
    default: Sequence[Word] = (),
) -> Command:
    """What the container at `spot` runs, as one command.

    `default` is what its controller runs where the manifest gives neither command nor args. An image's own entry point
    is not known: with `args` alone, the words are those of `args`.
    """
    words = [
        _word(item, spot.below(name, index), environment)
        for name in ("command", "args")
        for index, item in enumerate(sequence(container.get(name)))
        if isinstance(item, str)
    ]
    return Command(tuple(words or default), environment.variables, environment.complete)


def taken_apart(whole: Command, read: Read) -> tuple[Command, ...]:
    """The commands that a command line comes to, in the order they are written: those of its scripts, of theirs, ...

    `read` gives the text of a file that the container sees, and the field that holds it, where a manifest tells.
    """
    return _taken_apart(whole, _NESTED, read) if whole.words else ()


def basename(word: Word) -> str:
    """The name of the program that a word calls, without its folder."""
    return PurePosixPath(word.text).name


def _word(raw: str, spot: Spot, environment: Environment) -> Word:
    text, known = expand(raw, environment.variables, environment.complete)
    return Word(text, spot, known)


def script_of(command: Command, read: Read) -> Script | None:
    """The script that a command runs, where its text is known: the word behind `-c`, or a file that `read` knows."""
    words = command.words
    shell = _shell(words)
    index, options = (0, ()) if shell is None else _behind(words, shell)
    if index >= len(words):
        return None
    in_word = shell is not None and any(_reads_word(option.text) for option in options)
    content = (words[index].text, words[index].spot) if in_word else read(words[index].text)
    if content is None:
        return None
    name, first = (basename(words[shell]), ()) if shell is not None else _from_first_line(content[0])
    if name not in SHELLS:
        return None
    given = (*first, *(option.text for option in options))
    return Script(*content, name, given, words[index + 1 :], command.env, command.complete)


def script_file(command: Command) -> Word | None:
    """The file that a shell is told to run, as it is written there; None where it is told something else."""
    words, shell = command.words, _shell(command.words)
    if shell is None:
        return None
    index, options = _behind(words, shell)
    is_told = any(_reads_word(option.text) or _reads_input(option.text) for option in options)
    return None if is_told or index >= len(words) else words[index]


def _taken_apart(command: Command, levels: int, read: Read) -> tuple[Command, ...]:
    found = script_of(command, read)
    if found is None or levels == 0:
        return (command,)
    held = (each if command.certain else replace(each, certain=False) for each in commands(found))
    return tuple(part for each in held for part in _taken_apart(each, levels - 1, read))


def _shell(words: tuple[Word, ...]) -> int | None:
    """The index of the shell that a command line starts, alone or through a program that runs others."""
    shell = next((i for i, word in enumerate(words) if basename(word) in SHELLS), None)
    return None if shell and not wraps(words[:shell]) else shell


def _behind(words: tuple[Word, ...], shell: int) -> tuple[int, tuple[Word, ...]]:
    """The index of the first word behind a shell's own options, and the options."""
    index = shell + 1
    while index < len(words):
        text = words[index].text
        if not text.startswith(("-", "+")) or text in ("-", "--"):
            break
        index += 2 if text in _WITH_VALUE or _takes_name(text) else 1
    options = words[shell + 1 : index]
    if index < len(words) and words[index].text in ("-", "--"):
        index += 1
    return index, options


def _takes_name(option: str) -> bool:
    return not option.startswith("--") and option.endswith("o")


def _reads_word(option: str) -> bool:
    return option.startswith(("-", "+")) and not option.startswith("--") and "c" in option[1:]


def _reads_input(option: str) -> bool:
    return option.startswith("-") and not option.startswith("--") and "s" in option[1:]


def _from_first_line(text: str) -> tuple[str, tuple[str, ...]]:
    """The shell that `#!` names, and its options."""
    words = text.partition("\n")[0].removeprefix("#!").split() if text.startswith("#!") else []
    words = words[1:] if words and PurePosixPath(words[0]).name == "env" else words
    return (PurePosixPath(words[0]).name, tuple(words[1:])) if words else ("sh", ())


WRAPPERS = frozenset(
    {
        "catchsegv",
        "chrt",
        "command",
        "ddtrace-run",
        "dumb-init",
        "env",
        "exec",
        "gosu",
        "ionice",
        "ltrace",
        "ncu",
        "neuron_parallel_compile",
        "nice",
        "nohup",
        "nsys",
        "numactl",
        "nvidia_entrypoint.sh",
        "opentelemetry-instrument",
        "perf",
        "py-spy",
        "runuser",
        "setsid",
        "stdbuf",
        "strace",
        "su-exec",
        "sudo",
        "taskset",
        "time",
        "timeout",
        "tini",
        "unbuffer",
        "valgrind",
        "xvfb-run",
    }
)
"""Programs that run the command line that follows their own options."""

RUNNERS: Mapping[str, str] = {
    "apptainer": "exec",
    "conda": "run",
    "hatch": "run",
    "mamba": "run",
    "micromamba": "run",
    "pdm": "run",
    "pipenv": "run",
    "pixi": "run",
    "poetry": "run",
    "rye": "run",
    "singularity": "exec",
    "uv": "run",
}
"""Programs that do so by one of their commands."""


def wraps(words: Sequence[Word]) -> bool:
    """Whether the first word is a program that runs the command line behind it."""
    name = basename(words[0]) if words else ""
    return name in WRAPPERS or any(word.text == RUNNERS.get(name) for word in words)
