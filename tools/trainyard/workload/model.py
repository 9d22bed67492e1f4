"""What the controllers will really run, in one shape whatever the kind of job.

Adapters build it, one a kind; rules read it. Every value carries the field that holds it, so that a finding can point
there. A value that cannot be known from manifests (a Secret's content, an unknown image's entry point) is None, and
rules stay silent about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.plain import digits


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and the field that holds it. `implied`: nobody wrote it, it is a controller's or a tool's default."""

    value: Any
    spot: Spot
    implied: bool = False


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable of a container's final environment."""

    name: str
    value: str | None
    """After $(VAR) expansion; None where it comes from a Secret, the downward API or an object that is not rendered."""
    spot: Spot
    """The field that holds the text: `env[i].value`, or `data[KEY]` of the ConfigMap that `envFrom` names."""
    origin: str = "env"
    """env, configMap, secret, field, resource, controller, or file for one that the container's script makes of a file
    in a mounted ConfigMap, which the pod itself does not show."""
    raw: str | None = None
    """Before expansion."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a container's command line, after $(VAR) expansion and after `sh -c` was taken apart."""

    text: str
    spot: Spot
    """The item of `command` or `args` that holds it."""
    known: bool = True
    """False where a variable in it could not be resolved."""


@dataclass(frozen=True, slots=True)
class HiddenFailure:
    """What lets a container end with exit code 0 though its launcher failed."""

    way: str
    """pipe, or, after, exit, background, wait, condition, not or trap: what sets the exit code in its place."""
    by: str
    """The words of the script that do, shortened."""
    certain: bool
    """False where another program's success decides, which may depend on what the launcher left."""
    followed: bool = False
    """True where another program runs behind the launcher, and may be the one that trains."""
    mended_by: str = ""
    """What would let the failure through at the beginning of the script: `set -o pipefail`, `set -e`, or both; empty
    where neither does."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a container starts its ranks, read from its command line and environment as the launcher itself would."""

    launcher: str
    """torchrun, deepspeed, accelerate, composer, fabric, mpirun, horovodrun, ray for the entrypoint of a RayJob, or
    python for a script that is started directly."""
    spot: Spot
    """The word that names the launcher."""
    options: Mapping[str, Setting]
    """Launcher options by their canonical name with underscores (nnodes, nproc_per_node, node_rank, rdzv_backend,
    rdzv_endpoint, rdzv_id, master_addr, master_port, max_restarts, np ...), command line before environment."""
    program: tuple[Word, ...] = ()
    """The training program and its own arguments."""
    certain: bool = True
    """False where a branch of its script decides whether it runs."""
    complete: bool = True
    """False where more options or variables may be given than manifests show."""
    hidden: HiddenFailure | None = None
    """Set where a failure of the launcher does not reach the exit code of its container."""

    def option(self, name: str) -> Setting | None:
        """An option, or None where neither command line nor environment gives it."""
        return self.options.get(name)


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod as it would run."""

    name: str
    spot: Spot
    data: Mapping[str, Any] = field(repr=False)
    image: str
    words: tuple[Word, ...]
    env: Mapping[str, EnvVar]
    launch: Launch | None
    limits: Mapping[str, Setting]
    """Resource name to quantity as written, for example {"nvidia.com/gpu": Setting(8)}."""
    requests: Mapping[str, Setting]
    """As Kubernetes defaults them: a limit without a request is the request too, marked implied."""
    by_controller: bool = False
    """True for a container that no manifest holds: the job's controller adds it."""
    lines: tuple[tuple[Word, ...], ...] = field(default=(), repr=False)
    """The same words by the command that they belong to, those of its scripts one by one."""

    @property
    def gpus(self) -> int:
        """GPUs that the container may use: its limits of resources named `*/gpu` or `nvidia.com/mig-*`."""
        return gpus(self.limits)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods made from one template: a Job's indices, or one replica type of an operator's job."""

    role: str
    """job for an Indexed Job; master, worker, launcher, chief, ps or evaluator in lower case for the training operator
    and mpi-operator; the name of a JobSet's replicatedJob, of a Volcano task and of a Ray worker group; head and
    submitter for Ray's others. A TrainJob has those of its JobSet."""
    count: Setting
    """How many pods, an int; value None where the manifest does not say."""
    template: Spot
    """The pod template (the field that holds `metadata` and `spec`)."""
    hostnames: tuple[str, ...]
    """Host name of each pod by index, as the controller sets it; empty where pods get random names. Where a template
    makes several Jobs of several pods, those of the first Job come first."""
    subdomain: Setting | None
    """The pods' subdomain, which a headless Service must carry as its name."""
    labels: Mapping[str, str]
    """Labels of the pods, those that the controller adds included."""
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    spec: Mapping[str, Any] = field(repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pods, those that the controller adds included, as far as all pods have them."""

    @property
    def host_network(self) -> bool:
        """True where the pods use the node's network, which NetworkPolicies do not reach."""
        return self.spec.get("hostNetwork") is True

    def main(self) -> Container | None:
        """The container that trains: the one with a launcher, else the one with most GPUs, else the first."""
        for container in self.containers:
            if container.launch is not None and container.launch.launcher != "python":
                return container
        return max(self.containers, key=lambda container: container.gpus, default=None)


@dataclass(frozen=True, slots=True)
class Workload:
    """One training job as it would run."""

    object: Object
    """The object that the job's controller reads (Job, PyTorchJob, MPIJob, TFJob ...)."""
    pod_sets: tuple[PodSet, ...]
    objects: tuple[Object, ...] = field(repr=False)
    """Every object beside it that is known, itself included: Services, ConfigMaps, claims, policies. Those that are
    rendered with it come first, then those of the cluster's platform, then those that its controller makes."""
    training_job: Object | None = None
    cluster: Object | None = None
    fabric: Object | None = None
    platform: tuple[Object, ...] | None = field(default=None, repr=False)
    """What the cluster holds before any job comes: runtimes, queues, quotas, namespaces, shared claims. None where
    that is not known, and rules say nothing of what may be missing there."""

    own: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What job.yaml itself says, without the defaults that it is merged into; empty where there is none."""

    worked_out: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was worked out of it and is asked for again, by who did."""
    _by_kind: dict[str, tuple[Object, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of_kind(self, kind: str) -> tuple[Object, ...]:
        """Objects of a kind in the job's namespace, whether rendered, of the platform, or made by the controller."""
        return tuple(o for o in self.of_cluster(kind) if o.namespace == self.object.namespace)

    def of_cluster(self, kind: str) -> tuple[Object, ...]:
        """Objects of a kind that has no namespaces: Namespace, ClusterQueue, ResourceFlavor, ClusterTrainingRuntime."""
        if not self._by_kind:
            found: dict[str, list[Object]] = {}
            for each in self.objects:
                found.setdefault(each.kind, []).append(each)
            self._by_kind.update((each, tuple(objects)) for each, objects in found.items())
        return self._by_kind.get(kind, ())

    @property
    def pods(self) -> int | None:
        """All pods of the job, or None where a count is not known, or nothing of its pods is."""
        counts = [pod_set.count.value for pod_set in self.pod_sets]
        return None if None in counts or not counts else sum(counts)

    @property
    def in_job_folder(self) -> bool:
        """True where the job was rendered from a job folder, so that all that it needs must be there."""
        return self.training_job is not None


def gpus(limits: Mapping[str, Setting]) -> int:
    """GPUs among limits: resources named `*/gpu` or `nvidia.com/mig-*`."""
    return sum(
        count
        for name, limit in limits.items()
        if (name.endswith("/gpu") or name.startswith("nvidia.com/mig-")) and (count := _count(limit.value)) is not None
    )


def _count(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    return value if isinstance(value, int) else digits(value)
