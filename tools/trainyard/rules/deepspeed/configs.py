"""The DeepSpeed configurations of a job: where they are, what they say, and who reads them."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.catalogues import deepspeed as facts
from trainyard.objects.objects import Spot
from trainyard.rules.common.recent import once_a_workload
from trainyard.rules.deepspeed import hjson
from trainyard.rules.deepspeed.accelerated import launch_config
from trainyard.rules.deepspeed.files import file_of, files
from trainyard.rules.deepspeed.values import meant
from trainyard.workload.launch import argument
from trainyard.workload.model import Container, PodSet, Setting, Word, Workload
from trainyard.workload.plain import mapping

DEEPSPEED, HUGGING_FACE, ACCELERATE, TRAINYARD = "deepspeed", "hugging-face", "accelerate", "trainyard"
NAMES = {
    DEEPSPEED: "deepspeed.initialize",
    HUGGING_FACE: "the Hugging Face Trainer",
    ACCELERATE: "Accelerate",
    TRAINYARD: "the trainer",
}
_OF_TRAINER = ("per_device_train_batch_size", "per_device_eval_batch_size", "output_dir", "num_train_epochs")
"""Arguments that the Hugging Face Trainer has, and scripts that call DeepSpeed themselves mostly do not."""
_SIGNS = ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu")
_VARIABLES = {"TRAINER_DEEPSPEED_CONFIG": TRAINYARD, "ACCELERATE_DEEPSPEED_CONFIG_FILE": ACCELERATE}
_STRICT = (HUGGING_FACE, ACCELERATE, TRAINYARD)
"""Readers that take JSON and nothing looser."""
_SHORTEST_CODED = 20
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Config:
    """One DeepSpeed configuration as its program reads it."""

    data: Mapping[str, Any]
    """Empty where the text cannot be read."""
    spot: Spot
    """The field that holds the text."""
    reader: str
    """deepspeed, hugging-face, accelerate, trainyard, or empty where that is not known."""
    pod_set: PodSet
    container: Container
    named: Setting | None = None
    """The argument or variable that names the file or holds the text."""
    fault: str = ""
    """Why its reader cannot read it; empty where it can."""
    text: str = field(default="", repr=False)

    def written(self, path: str) -> Any:
        """What stands under a dotted key, by its name or its alias; None where nothing does."""
        found = self._find(path)
        return None if found is _ABSENT else found

    def given(self, path: str) -> bool:
        """Whether a dotted key is there and not null."""
        return self._find(path) not in (_ABSENT, None)

    def value(self, path: str) -> Any:
        """What holds for a dotted key: what is written, else the default. None for "auto", and where it is not known.

        The optimizer's type is in the letters in which DeepSpeed compares it.
        """
        found = self._find(path)
        if found is _ABSENT or found is None:
            return facts.default(path)
        if found == "auto":
            return None if self.fills(path) or not self.drops_auto(path) else facts.default(path)
        if path == "optimizer.type" and isinstance(found, str) and found.lower() in facts.optimizers()["known"]:
            return found.lower()
        return meant(self._key(path), found) if self.drops_auto(path) else found

    def fills(self, path: str) -> bool:
        """Whether the reader puts a value in place of "auto" under a dotted key."""
        section, _, name = path.rpartition(".")
        for family, known in (("optimizer", facts.optimizers()), ("scheduler", facts.schedulers())):
            if section == f"{family}.params":
                return name in known["filled"].get(self.reader, ())
        key = self._key(path)
        return key is not None and self.reader in key.auto

    def drops_auto(self, path: str) -> bool:
        """Whether DeepSpeed itself takes "auto" for silence under a dotted key."""
        section = facts.sections().get(path.rpartition(".")[0])
        return section is not None and section.unknown == "refused"

    def at(self, path: str, label: str = "") -> Spot:
        """The field of a dotted key, under the name by which it is written."""
        if not path:
            return self.spot
        *above, last = path.split(".")
        known = facts.sections().get(".".join(above))
        key = known.keys.get(last) if known is not None else None
        parent = mapping(self.written(".".join(above))) if above else self.data
        if key is not None and last not in parent and key.alias in parent:
            last = key.alias
        return self.spot.below(*above, last, label=label)

    def _key(self, path: str) -> facts.Key | None:
        section, _, name = path.rpartition(".")
        known = facts.sections().get(section)
        return None if known is None else known.key(name)

    def _find(self, path: str) -> Any:
        tree: Any = self.data
        section = ""
        for name in path.split(".") if path else ():
            known = facts.sections().get(section)
            key = known.keys.get(name) if known is not None else None
            if section == "" and name == "bf16" and "bf16" not in tree and "bfloat16" in mapping(tree):
                name = "bfloat16"
            if not isinstance(tree, dict):
                return _ABSENT
            if name not in tree and key is not None and key.alias:
                name = key.alias
            if name not in tree:
                return _ABSENT
            tree = tree[name]
            section = f"{section}.{name}" if section else name
        return tree


@once_a_workload
def configs(workload: Workload) -> tuple[Config, ...]:
    """Every DeepSpeed configuration of the job."""
    return tuple(_configs(workload))


def readable(workload: Workload) -> Iterator[Config]:
    """The configurations whose text can be read."""
    return (config for config in configs(workload) if not config.fault)


def named(container: Container) -> tuple[Setting, str] | None:
    """What names the container's DeepSpeed configuration, and who reads it; None where nothing does."""
    words = program(container)
    inline = argument(words, ("deepspeed.config",)) or _assigned(words, "deepspeed.config")
    if inline is not None and isinstance(inline.value, str):
        return inline, TRAINYARD
    launch = container.launch
    if launch is not None and launch.launcher == "accelerate":
        option = launch.option("deepspeed_config_file")
        if option is not None and isinstance(option.value, str):
            return option, ACCELERATE
    own, trainers = argument(words, ("deepspeed_config",)), argument(words, ("deepspeed",))
    of_trainer = any(argument(words, (name,)) is not None for name in _OF_TRAINER)
    if own is not None and isinstance(own.value, str):
        asked = trainers is not None and trainers.value is True
        return own, DEEPSPEED if asked or not of_trainer else ""
    if trainers is not None and isinstance(trainers.value, str):
        return trainers, HUGGING_FACE if of_trainer else ""
    for name, reader in _VARIABLES.items():
        variable = container.env.get(name)
        if variable is not None and variable.value:
            return Setting(variable.value, variable.spot), reader
    return None


def program(container: Container) -> tuple[Word, ...]:
    """The words of the training program."""
    return container.launch.program if container.launch is not None else container.words


def _configs(workload: Workload) -> Iterator[Config]:
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            pointed = named(container) or _by_launch_config(workload, pod_set, container)
            if pointed is None:
                yield from _unnamed(workload, pod_set, container)
                continue
            setting, reader = pointed
            found = _text(workload, pod_set, container, setting)
            if found is not None:
                yield _read(*found, reader, pod_set, container, setting)


def _by_launch_config(workload: Workload, pod_set: PodSet, container: Container) -> tuple[Setting, str] | None:
    """The file that Accelerate's own configuration names."""
    found = launch_config(workload, pod_set, container)
    path = None if found is None else mapping(found.data.get("deepspeed_config")).get("deepspeed_config_file")
    if found is None or not isinstance(path, str):
        return None
    return Setting(path, found.spot.below("deepspeed_config", "deepspeed_config_file")), ACCELERATE


def _text(workload: Workload, pod_set: PodSet, container: Container, setting: Setting) -> tuple[str, Spot] | None:
    """The text of a configuration and the field that holds it; None where it is in a file of the image."""
    value = str(setting.value)
    if value.lstrip().startswith("{"):
        return value, setting.spot
    if (file := file_of(workload, pod_set, container, value)) is not None:
        return file.text, file.spot
    if len(value) > _SHORTEST_CODED and "/" not in value and "." not in value:
        try:
            decoded = base64.urlsafe_b64decode(value).decode()
        except (binascii.Error, ValueError):
            return None
        return (decoded, setting.spot) if decoded.lstrip().startswith("{") else None
    return None


def _unnamed(workload: Workload, pod_set: PodSet, container: Container) -> Iterator[Config]:
    """Mounted files that look like a configuration, where the program may know them by heart."""
    for file in files(workload, pod_set, container).values():
        if any(sign in file.text for sign in _SIGNS):
            config = _read(file.text, file.spot, "", pod_set, container, None)
            if any(sign in config.data for sign in _SIGNS):
                yield config


def _read(text: str, spot: Spot, reader: str, pod_set: PodSet, container: Container, setting: Setting | None) -> Config:
    data: Any = {}
    fault = ""
    try:
        data = hjson.strict(text) if reader in _STRICT else hjson.loads(text)
        fault = "" if isinstance(data, dict) else "it is not a map"
    except hjson.Refused as refused:
        fault = str(refused)
    return Config(data if not fault else {}, spot, reader, pod_set, container, setting, fault, text)


def _assigned(words: tuple[Word, ...], name: str) -> Setting | None:
    """A setting written as `name=value`, the last of them."""
    found = None
    for word in words:
        key, joined, value = word.text.partition("=")
        if joined and key == name:
            found = Setting(value if word.known else None, word.spot)
    return found
