"""The arguments of training programs, read by a table: schemas/trainers/arguments.yaml."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.catalogues.programs import SCRIPT, Trainer, trainers
from trainyard.workload.launch import argument
from trainyard.workload.model import Container, EnvVar, PodSet, Setting, Word, Workload

_VARIABLE = "TRAINER_"
_NAME_AMONG = 6
"""The program's name stands among so many of its first words: `python -X dev -m trainer`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A training program of a job, and what it is told."""

    trainer: Trainer
    pod_set: PodSet
    container: Container
    words: tuple[Word, ...]
    env: Mapping[str, EnvVar]
    """The variables of its ranks: with mpirun those of the workers."""

    def given(self, *names: str) -> Setting | None:
        """An argument by any of its names, the command line before the environment; None where nothing gives it."""
        found = argument(self.words, names) or (self._word(names) if self.trainer.words else None)
        if found is not None or not self.trainer.variables:
            return found
        variables = (self.env.get(variable_of(name)) for name in names)
        variable = next((each for each in variables if each is not None), None)
        return None if variable is None else Setting(variable.value, variable.spot)

    def setting(self, role: str) -> Setting | None:
        """What is given for a role such as micro, accumulation, global, tensor, steps."""
        return self.given(*self.trainer.roles[role]) if role in self.trainer.roles else None

    def number(self, role: str) -> float | None:
        """The number for a role: what is given, else the program's default. None where neither is known."""
        found = self.setting(role)
        if found is None:
            return self.trainer.defaults.get(role)
        return as_number(found.value)

    def count(self, role: str) -> int | None:
        """The whole number above zero for a role; None where there is none."""
        found = self.number(role)
        return int(found) if found is not None and found > 0 and found == int(found) else None

    def flag(self, name: str) -> Setting | None:
        """A flag that is set: alone, or with a word that means yes."""
        found = self.given(*self.trainer.flags.get(name, ()))
        return found if found is not None and str(found.value).lower() in _YES else None

    @property
    def known(self) -> bool:
        """Whether the program is one of the table, not just a script with usual arguments."""
        return self.trainer.name != SCRIPT

    @property
    def is_named(self) -> bool:
        """Whether the script itself is one that the table names."""
        first = range(len(self.words))[:_NAME_AMONG]
        return any(_names(self.words, index, name) for name in self.trainer.programs for index in first)

    def _word(self, names: tuple[str, ...]) -> Setting | None:
        found = None
        for word in self.words:
            name, joined, value = word.text.partition("=")
            if joined and name in names:
                found = Setting(value if word.known else None, word.spot)
        return found


_YES = ("true", "1", "yes", "y", "t", "on")


def programs(workload: Workload) -> tuple[Program, ...]:
    """The training programs of a job, one for each of its containers that starts one."""
    found = []
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is not None:
            words = tuple(main.launch.program if main.launch is not None else main.words)
            found.append(Program(trainer_of(words), pod_set, main, words, _environment(workload, main)))
    return tuple(found)


def _environment(workload: Workload, main: Container) -> Mapping[str, EnvVar]:
    """mpirun starts the ranks in the containers that have the GPUs, each with the variables that it finds there."""
    if main.launch is None or main.launch.launcher not in ("mpirun", "horovodrun") or main.gpus:
        return main.env
    workers = [container for pod_set in workload.pod_sets for container in pod_set.containers if container.gpus]
    return workers[0].env if workers else main.env


def variable_of(name: str) -> str:
    """The variable that gives our trainer a setting."""
    return _VARIABLE + name.replace(".", "_").upper()


def as_number(value: Any) -> float | None:
    """The finite number that an argument is; None for a flag, and for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def trainer_of(words: tuple[Word, ...]) -> Trainer:
    """The entry of the table for a program and its arguments; that of scripts where nothing else knows it."""
    table, first = trainers(), range(len(words))[:_NAME_AMONG]
    for trainer in table.values():
        if any(_names(words, index, program) for program in trainer.programs for index in first):
            return trainer
    for trainer in table.values():
        if any(argument(words, (sign,)) is not None for sign in trainer.signs):
            return trainer
    return table[SCRIPT]


def _names(words: tuple[Word, ...], index: int, program: str) -> bool:
    text = words[index].text
    if program.endswith(".py"):
        return text == program or text.endswith("/" + program)
    return text == program and index > 0 and words[index - 1].text == "-m"
