"""The communication variables of a workload, as its ranks would get them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trainyard.catalogues.variables import Variable, variable
from trainyard.objects.objects import Spot
from trainyard.rules.common.recent import once_a_workload
from trainyard.workload import environment as kubelet
from trainyard.workload import mpijob
from trainyard.workload.command import command_line, taken_apart
from trainyard.workload.model import Container, EnvVar, Launch, PodSet, Word, Workload
from trainyard.workload.mounted import mounted_text
from trainyard.workload.plain import digits, entries, mapping, text

_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_SOURCING = frozenset({"source", "."})
_TORCH_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed"})


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable that one place of the manifest sets."""

    name: str
    value: str | None
    """None where the text is not known before the pod starts."""
    spot: Spot
    """The value in `env`, the key of a ConfigMap, or the words of a command line."""
    pod_set: PodSet
    container: Container
    passed_on: bool = False
    """Whether mpirun gives it to every rank."""

    @property
    def facts(self) -> Variable | None:
        """What the catalogue knows about the variable."""
        return variable(self.name)

    @property
    def integer(self) -> int | None:
        """The value where it is a whole number in plain decimals."""
        number = digits((self.value or "").removeprefix("-"))
        return number if number is None or not (self.value or "").startswith("-") else -number

    @property
    def is_on(self) -> bool:
        """Whether a switch is on: a number other than zero, or one of the words for true."""
        return self.integer not in (None, 0) or (self.value or "").lower() in _TRUE

    @property
    def is_off(self) -> bool:
        """Whether a switch is off by a zero or a word for false."""
        return self.integer == 0 or (self.value or "").lower() in ("f", "false", "n", "no", "off")


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of one container's processes: `env`, `envFrom`, what its script exports, what mpirun passes on."""

    pod_set: PodSet
    container: Container
    variables: Mapping[str, Assignment]
    runs_ranks: bool
    """False for a pod that only starts ranks in others, whose devices, mounts and network are not those of the
    ranks."""
    complete: bool
    """False where more variables may be set than manifests show: an `envFrom` that is not rendered, a sourced file."""

    def get(self, *names: str) -> Assignment | None:
        """The first of the variables that is set."""
        return next((self.variables[name] for name in names if name in self.variables), None)

    def lacks(self, *names: str) -> bool:
        """Whether certainly none of the variables is set."""
        return self.complete and not any(name in self.variables for name in names)


def environments(workload: Workload) -> tuple[Environment, ...]:
    """The environment of each container, init containers aside. Variables that a controller sets are left out: nobody
    wrote them."""
    return _settings(workload).environments


def assignments(workload: Workload, *names: str) -> Iterator[Assignment]:
    """Each variable of each environment; all names where none is given.

    A place that several containers read, such as a ConfigMap, counts once. What mpirun passes on is that of the pods
    whose ranks get it.
    """
    settings = _settings(workload)
    if not names:
        return iter(settings.assignments)
    every = _ranks_first(settings.environments)
    return iter(_by_place(each.variables[name] for each in every for name in names if name in each.variables))


@dataclass(frozen=True, slots=True)
class _Settings:
    environments: tuple[Environment, ...]
    assignments: tuple[Assignment, ...]


@once_a_workload
def _settings(workload: Workload) -> _Settings:
    exports = {
        found.name: found for pod_set, container in _containers(workload) for found in _passed(pod_set, container)
    }
    every = tuple(_environment(workload, pod_set, container, exports) for pod_set, container in _containers(workload))
    return _Settings(every, _by_place(found for each in _ranks_first(every) for found in each.variables.values()))


def _ranks_first(every: Iterable[Environment]) -> list[Environment]:
    return sorted(every, key=lambda each: not each.runs_ranks)


def _by_place(found: Iterable[Assignment]) -> tuple[Assignment, ...]:
    """The first assignment of each name at each place."""
    places: dict[tuple[Spot, str], Assignment] = {}
    for each in found:
        places.setdefault((each.spot, each.name), each)
    return tuple(places.values())


def known(value: str | None) -> str | None:
    """The text, or None where a reference or a template in it stands for something else."""
    return None if value is None or any(mark in value for mark in ("$(", "${", "{{", "<")) else value


def env_is_known(workload: Workload, container: Container) -> bool:
    """False where `envFrom` names something that is not rendered, so that a variable that seems absent may be set."""
    rendered = {obj.name for obj in workload.of_kind("ConfigMap")}
    sources = [source for _, source in entries(container.data.get("envFrom"))]
    return all(text(mapping(source.get("configMapRef")).get("name")) in rendered for source in sources)


def runs_torch(workload: Workload, container: Container) -> bool:
    """Whether the ranks are certainly PyTorch's."""
    return launched_by(container, *_TORCH_LAUNCHERS) is not None or workload.object.kind == "PyTorchJob"


def launched_by(container: Container, *launchers: str) -> Launch | None:
    """The launch line, where it is that of one of these launchers."""
    launch = container.launch
    return launch if launch is not None and launch.launcher in launchers else None


def _containers(workload: Workload) -> Iterator[tuple[PodSet, Container]]:
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            yield pod_set, container


def _environment(
    workload: Workload, pod_set: PodSet, container: Container, exports: Mapping[str, Assignment]
) -> Environment:
    own = {name: var for name, var in container.env.items() if var.origin != "controller"}
    complete = env_is_known(workload, container)
    own |= _scripted(workload, pod_set, container, complete)
    variables = {name: Assignment(name, known(var.value), var.spot, pod_set, container) for name, var in own.items()}
    variables |= {name: replace(export, pod_set=pod_set, container=container) for name, export in exports.items()}
    sources = any(word.text in _SOURCING for word in container.words)
    runs = _runs_ranks(workload, pod_set, container)
    return Environment(pod_set, container, variables, runs, complete and not sources)


def _runs_ranks(workload: Workload, pod_set: PodSet, container: Container) -> bool:
    """Whether ranks run in a pod: all may, but one whose mpirun starts them in other pods."""
    if launched_by(container, "mpirun") is None:
        return True
    if workload.object.kind == "MPIJob":
        return mpijob.launcher_is_worker(workload.object) or len(workload.pod_sets) == 1
    mains = (other.main() for other in workload.pod_sets if other is not pod_set)
    return container.gpus > 0 or not any(main is not None and main.gpus for main in mains)


def _scripted(workload: Workload, pod_set: PodSet, container: Container, complete: bool) -> dict[str, EnvVar]:
    """What the script in the container's command line, or in a file that it names, assigns for what it starts."""
    start = kubelet.Environment(container.env, complete)
    found: dict[str, EnvVar] = {}

    def read(path: str) -> tuple[str, Spot] | None:
        return mounted_text(path, container.data, pod_set.spec, workload.of_kind("ConfigMap"))

    for command in taken_apart(command_line(container.data, container.spot, start), read):
        found |= {name: var for name, var in command.env.items() if container.env.get(name) is not var}
    return found


def _passed(pod_set: PodSet, container: Container) -> Iterator[Assignment]:
    """What mpirun passes to ranks: `-x NAME=value`, as two words or, as recipes also write it, as one; and each
    `--mca name value` under its other name, OMPI_MCA_name."""
    if launched_by(container, "mpirun") is None:
        return
    before = ["", ""]
    for word in container.words:
        if before[1] in ("--mca", "-mca"):
            before = [before[1], word.text]
            continue
        if before[0] in ("--mca", "-mca"):
            yield _assignment(f"OMPI_MCA_{before[1]}", word.text, word, pod_set, container)
        text = (
            word.text if before[1] == "-x" else word.text.removeprefix("-x ").strip() if word.text[:3] == "-x " else ""
        )
        name, equals, value = text.partition("=")
        if equals:
            yield _assignment(name, value, word, pod_set, container)
        before = [before[1], word.text]


def _assignment(name: str, value: str, word: Word, pod_set: PodSet, container: Container) -> Assignment:
    return Assignment(name, known(value) if word.known else None, word.spot, pod_set, container, passed_on=True)
