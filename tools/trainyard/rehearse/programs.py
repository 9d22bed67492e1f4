"""Programs that containers start: those that are here, and those that an image would bring."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.rehearse.orders import PATH
from trainyard.rehearse.podplan import WORKING_FOLDER, ContainerPlan, PodPlan
from trainyard.rehearse.sandbox import TRAINER, readable
from trainyard.workload.command import SHELLS, script_file, script_of
from trainyard.workload.model import Word
from trainyard.workload.shell import Command, commands

_SHELL_WORDS = frozenset(("exec", "cd", "export", "umask", ":", "set", "ulimit", "source", ".", "eval", "test", "["))
_PYTHONS = ("python", "python3", "torchrun", "deepspeed", "accelerate")
_MAKES_NOTHING = frozenset((":", "[", "echo", "export", "set", "test", "true", "ulimit", "umask", "unset"))
"""Commands of a shell after which no program is there that was not there before."""
_BRANCHES = re.compile(r"[|<>`!(){}]|(?<!&)&(?!&)|\b(?:if|for|while|until|case|trap)\b")
"""What makes a script more than one command after the other."""
_BRACED = re.compile(r"\$\{\w+\}")
_NESTED = 4
_APT = {"mpirun": "openmpi-bin", "sshd": "openssh-server", "ssh": "openssh-client"}


def given_programs(texts: Sequence[str], cwd: Path) -> dict[str, Path]:
    """What --program says: a name or a path in the container, and the file here. UsageError where there is none."""
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        file = cwd / path
        if not name or not equals or not path:
            raise UsageError(f"--program {text}: expected NAME=PATH")
        if not file.exists():
            raise UsageError(f"--program {text}: {path} is not there")
        if os.geteuid() == 0 and not readable(file):
            raise UsageError(f"--program {text}: {path} can be read by its owner alone, and pods are other users")
        found[name] = file.resolve()
    return found


def given_variables(texts: Sequence[str]) -> dict[str, str]:
    """What --env says. UsageError where that is not a variable."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {text}: expected NAME=VALUE")
        found[name] = value
    return found


def missing_program(plans: Sequence[PodPlan], given: Mapping[str, Path]) -> None:
    """Raise InputError where a container starts a program that is not here and that nothing stands in for."""
    for plan in plans:
        for container in (*plan.init, *plan.containers):
            name = _missing(container, given)
            if name is not None:
                image = container.source.image or "an image"
                package = _APT.get(name.rpartition("/")[2])
                hint = f"install it (Debian and Ubuntu: apt-get install {package}), or " if package else ""
                raise InputError(
                    f"container {container.name} of {plan.name} starts {name}, which comes with {image}",
                    plan.member.pod_set.template.object.title,
                    help=f"{hint}name what stands in for it: --program {name}=PATH",
                )


def _missing(container: ContainerPlan, given: Mapping[str, Path]) -> str | None:
    if not container.command:
        return container.source.image.rpartition("/")[2].partition("@")[0] or container.name
    first = container.command[0]
    if not _is_here(first, container, given):
        return first
    launch = container.source.launch
    if launch is None:
        started = Command(_words(container.command, container), container.source.env, complete=False)
        return _not_here(started, container, given, _NESTED)
    return _missing_script([word.text for word in launch.program], container, given)


def _words(texts: Sequence[str], container: ContainerPlan) -> tuple[Word, ...]:
    return tuple(Word(text, container.source.spot) for text in texts)


def _not_here(command: Command, container: ContainerPlan, given: Mapping[str, Path], levels: int) -> str | None:
    """What a command line runs first and that is not here: a script, or the first program in the script of a shell."""
    if not all(word.known for word in command.words):
        return None
    file = script_file(command)
    if file is not None:
        return _missing_file(file.text, container, given)
    script = script_of(command, lambda _: None)
    if script is None:
        return _missing_script(_texts(command), container, given)
    if _BRANCHES.search(_BRACED.sub("", script.text)) or not levels:
        return None
    found, place = commands(script), container
    ends = re.search(r"[;\n]", script.text.strip().rstrip(";")) is None  # one && after the other
    ends = ends or any(re.match(r"-\w*e", option) for option in script.options)
    for each in found:
        name, *rest = _texts(each)
        ends = ends or (name == "set" and any(re.match(r"-\w*e|errexit", word) for word in rest))
        if name == "cd" and len(rest) == 1 and each.words[1].known:
            place = replace(place, folder=os.path.normpath(os.path.join(place.folder, rest[0])))
        elif name not in _MAKES_NOTHING:
            last = each is found[-1]
            return _started(each, place, given, levels - 1) if last or ends else None
    return None


def _started(command: Command, container: ContainerPlan, given: Mapping[str, Path], levels: int) -> str | None:
    """What a command of a script starts that is not here."""
    name, *rest = _texts(command)
    if name == "exec" and rest and not rest[0].startswith("-"):
        command = replace(command, words=command.words[1:])
        name, *rest = rest
    if name in (".", "source"):
        return _missing_file(rest[0], container, given) if rest and "/" in rest[0] and command.words[1].known else None
    if "/" in name and command.words[0].known and name.rpartition("/")[2] not in SHELLS:
        missing = _missing_file(name, container, given)
        if missing is not None:
            return missing
    return _not_here(command, container, given, levels)


def _texts(command: Command) -> list[str]:
    return [word.text for word in command.words]


def _missing_file(name: str, container: ContainerPlan, given: Mapping[str, Path]) -> str | None:
    """The file, by its whole path where its folder is not that in which the container starts."""
    if name in given or _is_here(name if "/" in name else f"./{name}", container, given):
        return None
    first = container.source.data.get("workingDir") or WORKING_FOLDER
    return name if container.folder == first else _path(name, container)


def _missing_script(words: Sequence[str], container: ContainerPlan, given: Mapping[str, Path]) -> str | None:
    """The script that a Python runs, if it is not here."""
    base = words[0].rpartition("/")[2] if words else ""
    if container.source.launch is None and base not in _PYTHONS:
        return None
    script = next((word for word in words if word.endswith(".py")), None)
    if script is None or script.startswith("-") or "-m" in words[: words.index(script)] or "-c" in words:
        return None
    return _missing_file(script, container, given)


def _path(name: str, container: ContainerPlan) -> str:
    return os.path.normpath(os.path.join(container.folder, name))


def _is_here(name: str, container: ContainerPlan, given: Mapping[str, Path]) -> bool:
    if name in given or name in _SHELL_WORDS or "$" in name or "\0" in name:
        return True
    path = _path(name, container) if "/" in name or name.endswith(".py") else name
    if any(path.startswith(f"{mount.path}/") for mount in container.mounts) or path in given:
        return True
    if path.startswith("/"):
        inside = path.removeprefix("/opt/trainer/")
        return os.path.exists(path) or (inside != path and (TRAINER / inside).exists())
    folders = [str(TRAINER / "bin") if folder == "/opt/trainer/bin" else folder for folder in PATH.split(":")]
    return any(os.access(f"{folder}/{name}", os.X_OK) for folder in folders)
