"""How a container starts its ranks, read from its commands as each launcher reads its own command line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from trainyard.workload.command import Read, basename, script_of, wraps
from trainyard.workload.exit_code import hidden
from trainyard.workload.launchers import BY_COMMAND, BY_MODULE, BY_SUBCOMMAND, PYTHON_ENVIRONMENT, Grammar, canonical
from trainyard.workload.model import EnvVar, Launch, Setting, Word
from trainyard.workload.shell import Command

_LOOKS_AROUND = frozenset(
    {
        "cat",
        "date",
        "echo",
        "fi_info",
        "hostname",
        "ib_devinfo",
        "ibstat",
        "ibv_devices",
        "ibv_devinfo",
        "id",
        "ls",
        "lspci",
        "lstopo",
        "nproc",
        "nvidia-smi",
        "printenv",
        "rocm-smi",
        "rocminfo",
        "sleep",
        "true",
        "uname",
        "uptime",
        "whoami",
    }
)
"""Programs that scripts start on every host to see whether it is there, before they start what the job is for."""
_PACKAGES = frozenset({"--with", "--with-editable", "--extra", "--group", "--package", "-p", "--python"})
"""Options of `uv run` whose value may have the name of a launcher."""
_PYTHON_VALUES = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def launch(commands: Iterable[Command]) -> Launch | None:
    """The launch among a container's commands, or None.

    It is the first launcher that starts more than a look around, else the first launcher, else the last Python program.
    """
    script: Launch | None = None
    look: Launch | None = None
    for command in commands:
        found = _launch(command)
        if found is not None and not command.certain:
            found = replace(found, certain=False)
        if found is None or found.launcher == "python":
            script = found or script
        elif not found.program or basename(found.program[0]) in _LOOKS_AROUND:
            look = look or found
        else:
            return found
    return look or script


def with_exit_code(found: Launch, whole: Command, read: Read) -> Launch:
    """The launch, with what becomes of its failure; `whole` is the command line that it was found in."""

    def launches(command: Command) -> bool:
        each = _launch(command)
        return each is not None and (each.launcher != "python" or found.launcher in ("python", "ray"))

    return replace(found, hidden=hidden(whole, lambda command: script_of(command, read), launches))


def argument(words: Sequence[Word], names: Sequence[str]) -> Setting | None:
    """A training program's own flag: `--batch-size 4`, `--batch_size=4`. None where no word gives it.

    Of several the last counts. The value is the text, True for a flag without a value, None where it is not known.
    `names` may be written with hyphens or underscores, with or without leading hyphens; `-b` is matched as it is.
    """
    wanted = _wanted(tuple(names))
    found: Setting | None = None
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        name, joined, value = word.text.partition("=")
        if _flag(name) not in wanted:
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        if joined:
            found = Setting(value if word.known else None, word.spot)
        elif following is None or _looks_like_flag(following.text):
            found = Setting(True, word.spot)
        else:
            found = Setting(following.text if following.known else None, following.spot)
    return found


@lru_cache(maxsize=1024)
def _wanted(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_flag(name) for name in names)


@lru_cache(maxsize=4096)
def _flag(name: str) -> str:
    return name if _short(name) else canonical(name)


def _short(name: str) -> bool:
    return len(name) == 2 and name[0] == "-" and name[1] != "-"


def _looks_like_flag(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not text[1].isdigit() and text[1] != "."


def _launch(command: Command) -> Launch | None:
    words, env = _unwrapped(command)
    if not words:
        return None
    program = basename(words[0])
    if program.startswith("python"):
        return _python(words, env, command.complete)
    if program in BY_SUBCOMMAND:
        subcommand, by = BY_SUBCOMMAND[program]
        at = next((i for i, word in enumerate(words[1:], 1) if word.text == subcommand), None)
        return None if at is None else _parse(by, words[0], words[at + 1 :], env, command.complete)
    grammar = BY_COMMAND.get(program)
    return None if grammar is None else _parse(grammar, words[0], words[1:], env, command.complete)


def _unwrapped(command: Command) -> tuple[tuple[Word, ...], Mapping[str, EnvVar]]:
    """The words from the first that starts ranks, where only wrappers such as `exec` or `uv run` stand before it."""
    words, env = command.words, dict(command.env)
    if not wraps(words):
        return words, env
    if basename(words[0]) == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
        return (), env
    for index, word in enumerate(words):
        name = basename(word)
        if index and words[index - 1].text in _PACKAGES:
            continue
        if name in BY_COMMAND or name in BY_SUBCOMMAND or name.startswith("python"):
            return words[index:], env
        if basename(words[0]) == "uv" and (word.text == "-m" or word.text.endswith(".py")):
            return (replace(words[0], text="python"), *words[index:]), env
        variable, assigned, value = word.text.partition("=")
        if assigned and variable.isidentifier():
            env[variable] = EnvVar(variable, value if word.known else None, word.spot, raw=value)
    return (), env


def _python(words: tuple[Word, ...], env: Mapping[str, EnvVar], complete: bool) -> Launch | None:
    index = 1
    while index < len(words):
        text = words[index].text
        if text == "-m":
            module = words[index + 1].text if index + 1 < len(words) else ""
            grammar = BY_MODULE.get(module)
            if grammar is not None:
                return _parse(grammar, words[index + 1], words[index + 2 :], env, complete)
            break
        if text == "-c" or not text.startswith("-"):
            break
        index += 2 if text in _PYTHON_VALUES else 1
    if index >= len(words):
        return None
    options = {
        name: Setting(env[variable].value, env[variable].spot)
        for name, variable in PYTHON_ENVIRONMENT.items()
        if variable in env
    }
    return Launch("python", words[0].spot, options, words[index:], complete=complete)


@dataclass(slots=True)
class _Reading:
    """What was read of a launcher's words so far."""

    grammar: Grammar
    words: tuple[Word, ...]
    options: dict[str, Setting] = field(default_factory=dict)
    index: int = 0
    module: tuple[Word, ...] = ()
    complete: bool = True
    """False where a word of unknown content may hold more options."""

    def take(self) -> Word | None:
        """The next word, which is passed; None at the end."""
        if self.index >= len(self.words):
            return None
        self.index += 1
        return self.words[self.index - 1]


def _parse(grammar: Grammar, name: Word, words: tuple[Word, ...], env: Mapping[str, EnvVar], complete: bool) -> Launch:
    reading = _Reading(grammar, words)
    program = _read(reading)
    options = reading.options
    for option, variable in _from_environment(grammar, env):
        options.setdefault(option, variable)
    for option, name_of in grammar.handed_on.items():
        if name_of in env:
            options.setdefault(option, Setting(env[name_of].value, env[name_of].spot))
    if complete and reading.complete:
        for option, value in grammar.defaults.items():
            options.setdefault(option, Setting(value, name.spot, implied=True))
    if grammar.settle is not None:
        grammar.settle(options)
    return Launch(grammar.launcher, name.spot, options, program, complete=complete and reading.complete)


def _from_environment(grammar: Grammar, env: Mapping[str, EnvVar]) -> Iterable[tuple[str, Setting]]:
    if not grammar.environment:
        return
    for option in sorted(grammar.values | grammar.flags):
        variable = env.get(grammar.environment + option.upper())
        if variable is None:
            continue
        if option in grammar.flags:
            value = None if variable.value is None else variable.value.strip() not in ("", "0")
            if value is not False:
                yield option, Setting(value, variable.spot)
        else:
            yield option, Setting(variable.value, variable.spot)


def _read(reading: _Reading) -> tuple[Word, ...]:
    """Read options up to the program, and return the program."""
    grammar = reading.grammar
    while (word := reading.take()) is not None:
        if word.text == "--":
            break
        if not word.text.startswith("-"):
            if word.known or not _options_follow(reading):
                reading.index -= 1
                break
            reading.complete = False
            continue
        written, joined, value = word.text.partition("=")
        option = grammar.aliases.get(written) or _long(grammar, written)
        if option in grammar.flags and not joined:
            reading.options[option] = Setting(True, word.spot)
            if option == "module":
                reading.module = (word if word.text in grammar.aliases else replace(word, text="--module"),)
        elif option in grammar.pairs:
            _keep(reading.options, option, _pair(reading.take(), reading.take()))
        elif option in grammar.variables:
            assignment = Word(value, word.spot, word.known) if joined else reading.take()
            _keep(reading.options, option, _variable(assignment))
        elif joined:
            reading.options[option] = Setting(value if word.known else None, word.spot)
        elif option in grammar.values or _takes_value(reading):
            following = reading.take()
            spot = word.spot if following is None else following.spot
            known = following is not None and following.known
            reading.options[option] = Setting(following.text if following is not None and known else None, spot)
        else:
            reading.options[option] = Setting(True, word.spot)
    return reading.module + reading.words[reading.index :]


def _long(grammar: Grammar, written: str) -> str:
    """The option's canonical name; of one that is short for several, its own."""
    meant = grammar.meant(written)
    return meant[0] if len(meant) == 1 else canonical(written)


def _options_follow(reading: _Reading) -> bool:
    """Whether an unknown word stands among options, so that it holds options and not the program."""
    rest = reading.words[reading.index :]
    following = rest[0] if rest else None
    if following is None:
        return False
    if following.text.startswith("-"):
        name = following.text.partition("=")[0]
        grammar = reading.grammar
        option = grammar.aliases.get(name) or _long(grammar, name)
        return option in grammar.values | grammar.flags | grammar.pairs | grammar.variables
    return following.text.endswith((".py", ".sh")) or not following.known


def _takes_value(reading: _Reading) -> bool:
    """Whether an option that no table lists is followed by its value: a bare word that is not the program.

    A word such as `-np 32`, with a blank inside, is one option of an odd name.
    """
    if reading.index >= len(reading.words) or any(map(str.isspace, reading.words[reading.index - 1].text)):
        return False
    following = reading.words[reading.index].text
    return not following.startswith("-") and not following.endswith((".py", ".sh")) and "/" not in following


def _keep(options: dict[str, Setting], option: str, entry: tuple[str, Setting] | None) -> None:
    if entry is None:
        return
    before = options.get(option)
    options[option] = Setting(
        {**(before.value if before is not None else {}), entry[0]: entry[1]},
        before.spot if before is not None else entry[1].spot,
    )


def _pair(key: Word | None, value: Word | None) -> tuple[str, Setting] | None:
    if key is None or value is None:
        return None
    return key.text, Setting(value.text if value.known else None, value.spot)


def _variable(assignment: Word | None) -> tuple[str, Setting] | None:
    """`NAME=value`, or `NAME` for a variable that is passed on with the value it has: None."""
    if assignment is None:
        return None
    name, assigned, value = assignment.text.partition("=")
    return name, Setting(value if assigned and assignment.known else None, assignment.spot)
