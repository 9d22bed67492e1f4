"""Programs that containers start: those that are here, and those that an image would bring."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.rehearse.orders import PATH
from trainyard.rehearse.podplan import ContainerPlan, PodPlan
from trainyard.rehearse.sandbox import TRAINER, readable

_SHELL_WORDS = frozenset(("exec", "cd", "export", "umask", ":", "set", "ulimit", "source", ".", "eval", "test", "["))
_PYTHONS = ("python", "python3", "torchrun", "deepspeed", "accelerate")
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
    words = [word.text for word in launch.program] if launch is not None else list(container.command)
    base = words[0].rpartition("/")[2] if words else ""
    if launch is None and base not in _PYTHONS:
        return None
    script = next((word for word in words if word.endswith(".py")), None)
    if script is None or script.startswith("-") or "-m" in words[: words.index(script)] or "-c" in words:
        return None
    return None if _is_here(script, container, given) else script


def _is_here(name: str, container: ContainerPlan, given: Mapping[str, Path]) -> bool:
    if name in given or name in _SHELL_WORDS or "$" in name or "\0" in name:
        return True
    path = os.path.normpath(os.path.join(container.folder, name)) if "/" in name or name.endswith(".py") else name
    if any(path.startswith(f"{mount.path}/") for mount in container.mounts) or path in given:
        return True
    if path.startswith("/"):
        inside = path.removeprefix("/opt/trainer/")
        return os.path.exists(path) or (inside != path and (TRAINER / inside).exists())
    folders = [str(TRAINER / "bin") if folder == "/opt/trainer/bin" else folder for folder in PATH.split(":")]
    return any(os.access(f"{folder}/{name}", os.X_OK) for folder in folders)
