"""What a machine without GPUs, fabric and datasets runs in their place, and says that it does."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.catalogues.programs import SCRIPT
from trainyard.rehearse.arguments import appended, lowered, without_flags
from trainyard.rules.common.programs import trainer_of
from trainyard.workload.containers import runs_trainer
from trainyard.workload.model import Container, Workload

PREFIX = "TRAINER_"
TINY = {"gpt": "gpt-tiny", "llama": "llama-tiny", "vit": "vit-tiny"}
"""The preset of each family that a processor trains in milliseconds a step."""
LONGEST_SEQUENCE = 64
LARGEST_MICRO_BATCH = 4
_SAVES_EVERY = ("save_steps", "checkpointing_steps", "save_interval")
_TELLS_EVERY = ("logging_steps", "log_interval", "log_every")
DEFAULTS = {
    "MODEL": "gpt2-124m",
    "SEQUENCE_LENGTH": "1024",
    "STEPS": "1000",
    "WARMUP_STEPS": "100",
    "PRECISION": "bf16",
}
"""What the trainer takes where nobody says otherwise, and a rehearsal replaces all the same."""
_KEY = re.compile(r"(?P<mark>(?:--)?(?P<key>[a-z][a-z0-9_.]*)=)(?P<value>\S*)")
"""A word that tells the trainer the value of a key."""
_OF_POLICY = {
    "train_batch_size": "GLOBAL_BATCH",
    "train_micro_batch_size_per_gpu": "MICRO_BATCH",
    "gradient_accumulation_steps": "ACCUMULATION",
}
"""Numbers of a DeepSpeed file that are the job's own, and the trainer's variables that hold them."""
SHORT_BENCH = ("--max-bytes", "65536", "--repeat", "2")
_COUNTED_BY_TORCHRUN = ("auto", "gpu")
_PER_NODE = re.compile(r"--?nproc[-_]per[-_]node(?:=(?P<value>.*))?\Z")
_BTL = ("openib", "ofi", "usnic", "uct", "smcuda")


@dataclass(slots=True)
class Substitutes:
    """The substitutions of one rehearsal, kept as they are made so that they can be told."""

    steps: int
    save_every: int
    ranks_per_pod: Mapping[str, int] = field(default_factory=dict)
    loopback: bool = False
    """Whether pods share addresses, so that only one of them could serve metrics on a port."""
    collective_seconds: int | None = None
    """Timeout of a collective, where another is needed than the trainer's."""
    told: dict[str, str] = field(default_factory=dict)
    """What was put in place of what, by a word for it."""
    batch: tuple[int, int] | None = None
    """Micro-batch and global batch where the micro-batch is too large."""
    dataset: str = ""
    """The dataset's path in the pods; empty where none is named."""
    trains: bool = False
    """Whether the job runs this repository's trainer."""
    saves: bool = False
    """Whether the trainer is told where its checkpoints go."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are given for the rehearsal."""
    arguments: Sequence[str] = ()
    """Arguments of the training program that are given for the rehearsal."""
    launched: bool = False
    """Whether some container's training program is known."""
    written: Mapping[str, str] = field(default_factory=dict)
    """The trainer's variables as they are written, at the job's own size."""

    def learn(self, workload: Workload, written: Mapping[str, str]) -> None:
        """Read the program, and what the trainer is told of batch and dataset, before any variable is replaced."""
        self.written = written
        containers = [container for pod_set in workload.pod_sets for container in pod_set.containers]
        self.trains = any(runs_trainer(container) for container in containers)
        self.launched = any(container.launch is not None for container in containers)
        if self.arguments:
            self.told["arguments"] = f"{' '.join(self.arguments)} more"
        if self.environment:
            self.told["variables"] = ", ".join(f"{name}={value}" for name, value in self.environment.items())
        for pod_set in workload.pod_sets if self.trains else ():
            for container in pod_set.containers:
                known = {name: each.value for name, each in container.env.items() if each.value is not None}
                self.saves = self.saves or (PREFIX + "CHECKPOINT_DIR" in known and PREFIX + "RUN" in known)
                self.dataset = self.dataset or known.get("TRAINER_DATASET", "")
                micro, whole = known.get("TRAINER_MICRO_BATCH", ""), known.get("TRAINER_GLOBAL_BATCH", "")
                if micro.isdigit() and whole.isdigit() and int(micro) > LARGEST_MICRO_BATCH:
                    shrunk = int(whole) * LARGEST_MICRO_BATCH / int(micro)
                    if shrunk == int(shrunk):
                        self.batch = LARGEST_MICRO_BATCH, int(shrunk)

    def variable(self, name: str, value: str) -> str:
        """The value of a variable in the rehearsal."""
        if name.startswith(PREFIX) and self.trains:
            return self._of_trainer(name, value)
        if name == "PET_NPROC_PER_NODE" and value in _COUNTED_BY_TORCHRUN:
            return self._say("GPUs", name, value, "a processor rank for each GPU")
        return value

    def variables(self, found: Mapping[str, str], container: Container) -> dict[str, str]:
        """All variables of a container, with those that a processor needs."""
        replaced = {name: self.variable(name, value) for name, value in found.items()}
        if found.get("PET_NPROC_PER_NODE") in _COUNTED_BY_TORCHRUN:
            replaced["PET_NPROC_PER_NODE"] = str(max(1, container.gpus))
        if any(limit.startswith("rdma/") or "/hca" in limit or "efa" in limit for limit in container.limits):
            self.told["RDMA"] = "TCP over the pods' network; NCCL_* and FI_* stay as they are and are not exercised"
        if container.gpus:
            self.told["GPUs"] = "a rank on the processor for each, over gloo" if self.trains else "none: processors"
        seen = {}
        if self.trains and (of_trainer(container.env) or runs_trainer(container)):
            seen = {"TRAINER_METRICS_EVERY_STEPS": "1"} | self._unwritten(container)
            if self.collective_seconds:
                seen["TRAINER_TIMEOUT_SECONDS"] = str(self.collective_seconds)
        return {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"} | seen | replaced | dict(self.environment)

    def words(self, words: Sequence[str], container: Container) -> tuple[str, ...]:
        """A command line in the rehearsal."""
        changed = list(words)
        for index, word in enumerate(words):
            match = _PER_NODE.match(word)
            number = str(max(1, container.gpus))
            if match and match["value"] in _COUNTED_BY_TORCHRUN:
                changed[index] = word.replace(f"={match['value']}", f"={number}")
            elif match and match["value"] is None and words[index + 1 : index + 2] in (["auto"], ["gpu"]):
                changed[index + 1] = number
            elif word == "btl" and words[index - 1 : index] in (["--mca"], ["-mca"]):
                kinds = [kind for kind in words[index + 1].split(",") if kind not in _BTL]
                changed[index + 2 - 1] = ",".join(dict.fromkeys([*kinds, "tcp", "self"]))
        if words[-2:] == ("-m", "trainer.bench") or list(words[-2:]) == ["-m", "trainer.bench"]:
            changed += SHORT_BENCH
        if not self.trains:
            changed = self._of_other(changed, container)
        elif runs_trainer(container):
            changed = [self._of_word(word) for word in changed]
        if self.arguments and (container.launch is not None or not self.launched):
            changed = appended(changed, container, self.arguments)
        if changed != list(words):
            self.told["command line"] = " ".join(changed)
        return tuple(changed)

    def _of_other(self, words: Sequence[str], container: Container) -> list[str]:
        """The command line of another program: fewer steps where it says how many, and no format that needs a GPU."""
        known = trainer_of(container.launch.program if container.launch is not None else container.words)
        changed = lowered(words, known.roles.get("steps", ()), self.steps)
        if changed != list(words):
            self.told["steps"] = f"at most {self.steps}"
            changed = lowered(lowered(changed, _SAVES_EVERY, self.save_every), _TELLS_EVERY, 1)
        flags = [name for names in known.flags.values() for name in names] if known.name != SCRIPT else []
        if container.gpus and flags and (bare := without_flags(changed, flags)) != changed:
            self.told["precision"], changed = "fp32: there is no GPU", bare
        return changed

    def file(self, name: str, content: str) -> str:
        """A file of a ConfigMap: one that holds a variable, or a DeepSpeed policy."""
        if name.startswith(PREFIX):
            return self.variable(name, content)
        return self._of_policy(content) if self.trains and name.endswith(".json") else content

    def _of_policy(self, content: str) -> str:
        """A DeepSpeed policy whose numbers and formats are the job's own says "auto" instead, as these are replaced.

        One that says otherwise stays, for the trainer to refuse.
        """
        try:
            policy = json.loads(content)
        except (ValueError, RecursionError):
            return content
        if not isinstance(policy, dict):
            return content
        changed = [key for key, name in _OF_POLICY.items() if str(policy.get(key)) == self.written.get(PREFIX + name)]
        policy |= dict.fromkeys(changed, "auto")
        for name in ("bf16", "fp16"):
            section = policy.get(name)
            mine = self.written.get(f"{PREFIX}PRECISION", DEFAULTS["PRECISION"]) == name
            if isinstance(section, dict) and isinstance(section.get("enabled"), bool) and section["enabled"] == mine:
                policy[name] = {**section, "enabled": "auto"}
                changed.append(f"{name}.enabled")
        if not changed:
            return content
        self.told["DeepSpeed policy"] = f"auto for {', '.join(changed)}"
        return json.dumps(policy)

    def _unwritten(self, container: Container) -> dict[str, str]:
        """The variables of keys that nobody has written, unless a config file of the program may hold them."""
        if any(word.text.endswith((".yaml", ".yml")) for word in container.words):
            return {}
        missing = {PREFIX + name: value for name, value in DEFAULTS.items() if PREFIX + name not in self.written}
        return {name: self._of_trainer(name, value) for name, value in missing.items()}

    def _of_word(self, word: str) -> str:
        """A word of the trainer's command line, whose keys are those of its variables."""
        match = _KEY.fullmatch(word)
        if match is None:
            return word
        name = PREFIX + match["key"].replace(".", "_").upper()
        return f"{match['mark']}{self._of_trainer(name, match['value'])}"

    def _of_trainer(self, name: str, value: str) -> str:
        match name.removeprefix(PREFIX):
            case "MODEL":
                tiny = next((tiny for family, tiny in TINY.items() if value.startswith(family)), value)
                return self._say("model", name, value, tiny)
            case "SEQUENCE_LENGTH" if value.isdigit():
                return self._say("sequence length", name, value, str(min(int(value), LONGEST_SEQUENCE)))
            case "STEPS":
                return self._say("steps", name, value, str(self.steps))
            case "WARMUP_STEPS" if value.isdigit():
                return str(min(int(value), 2, self.steps - 1))
            case "CHECKPOINT_EVERY_STEPS":
                return self._say("steps between checkpoints", name, value, str(self.save_every))
            case "METRICS_EVERY_STEPS":
                return "1"
            case "METRICS_PORT" if self.loopback:
                return self._say("metrics port", name, value, "0")
            case "PRECISION":
                return self._say("precision", name, value, "fp32")
            case "MICRO_BATCH" if self.batch:
                return self._say("micro-batch", name, value, str(self.batch[0]))
            case "GLOBAL_BATCH" if self.batch:
                return str(self.batch[1])
            case _:
                return value

    def _say(self, what: str, name: str, before: str, after: str) -> str:
        if before != after:
            self.told[what] = f"{after} for {before}" if name.startswith(PREFIX) else after
        return after


def of_trainer(variables: Mapping[str, Any]) -> bool:
    """Whether a container runs this repository's trainer, which prints every step if it is asked to."""
    return any(name.startswith(PREFIX) for name in variables)
