"""What a rank knows: mpirun starts it in an ssh session, which does not bring the environment of a container."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.environment import in_namespace
from trainyard.workload.model import Container, EnvVar, Launch, PodSet, Workload
from trainyard.workload.plain import entries, mapping, text

_OPEN_MPI = "OMPI_MCA_orte_default_hostfile"
_AGENT = "OMPI_MCA_plm_rsh_agent"
_OWN = ("OMPI_", "PRTE_", "PMIX_", "OPAL_", "UCX_", "HYDRA_", "NVIDIA_", "K_MPI_", "KUBERNETES_")
_SHELL = ("PATH", "HOME", "SHELL", "LANG", "TZ", "TMPDIR")
_OF_RANKS = ("NCCL_", "TORCH_", "GLOO_", "FI_", "OFI_")
_PASSES_ENVIRONMENT = ("forcecommand", "setenv", "permituserenvironment", "acceptenv")


@rule("MPI007", "environment-not-forwarded", Severity.WARNING, needs=Workload)
def environment_not_forwarded(workload: Workload) -> Iterator[Problem]:
    """Variables of a container do not reach the ranks, since mpirun is not told to export them.

    mpirun starts ranks over ssh, and a session begins without the variables of its container. Open MPI passes on its
    own (`OMPI_*`) and those of `-x`. What else stands in `env`, of the launcher or of the workers, changes nothing
    there: NCCL takes its defaults, and a script those of its author.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, --hostfile, /etc/mpi/hostfile, python, train.py]
                    env: [{name: NCCL_IB_HCA, value: mlx5}]

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, --hostfile, /etc/mpi/hostfile, -x, NCCL_IB_HCA, python, train.py]
                    env: [{name: NCCL_IB_HCA, value: mlx5}]

    Near miss:

        # on: mpijob
        spec:
          mpiImplementation: Intel
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - {name: launcher, command: [mpirun, python, train.py], env: [{name: NCCL_IB_HCA, value: mlx5}]}

    Source: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html
    """
    if any(_sessions_get_environment(workload, pod_set) for pod_set in workload.pod_sets):
        return
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        launch = None if container is None else container.launch
        if container is None or launch is None or launch.launcher != "mpirun" or _OPEN_MPI not in container.env:
            continue
        if _AGENT in container.env and "ssh" not in (container.env[_AGENT].value or ""):
            continue
        found = [variable for variable in _for_ranks(workload, pod_set, container) if not _exported(launch, variable)]
        if found:
            names = [variable.name for variable in found]
            yield Problem(
                f"mpirun does not pass {_listed(names)} on to the ranks",
                launch.spot.saying(f"no -x {names[0]}"),
                tuple(variable.spot.saying(f"sets {variable.name}") for variable in found),
                f"add {' '.join(f'-x {name}' for name in names)}",
            )


def _for_ranks(workload: Workload, launcher: PodSet, container: Container) -> Iterator[EnvVar]:
    """Variables that are meant for ranks: all of a launcher that runs mpirun and nothing else, and NCCL's and its like
    wherever they stand.
    """
    alone = bool(container.words) and basename(container.words[0]) == "mpirun"
    text_of_all = " ".join(variable.raw or "" for variable in container.env.values())
    told: set[str] = set()
    for pod_set in (launcher, *(other for other in workload.pod_sets if other is not launcher)):
        main = pod_set.main()
        for variable in main.env.values() if main is not None else ():
            if variable.origin == "controller" or variable.name in told or variable.name in _SHELL:
                continue
            meant = alone and pod_set is launcher and not variable.name.startswith(_OWN)
            used = f"$({variable.name})" in text_of_all or _in_command(container, variable.name)
            if variable.name.startswith(_OF_RANKS) or (meant and not used):
                told.add(variable.name)
                yield variable


def _in_command(container: Container, name: str) -> bool:
    words = [word for field in ("command", "args") for word in container.data.get(field) or () if isinstance(word, str)]
    return any(f"$({name})" in word for word in words)


def _exported(launch: Launch, variable: EnvVar) -> bool:
    exported, pairs = launch.option("x"), [launch.option(name) for name in ("mca", "omca", "gmca")]
    if any(pair is not None and "mca_base_env_list" in pair.value for pair in pairs):
        return True
    names = exported.value if exported is not None else {}
    return any(name == variable.name or (name[-1:] == "*" and variable.name.startswith(name[:-1])) for name in names)


def _sessions_get_environment(workload: Workload, pod_set: PodSet) -> bool:
    """Whether a rendered configuration of sshd, mounted in these pods, hands sessions an environment."""
    volumes = {
        text(item.get("name")): mapping(item.get("configMap")) for _, item in entries(pod_set.spec.get("volumes"))
    }
    named = {text(source.get("name")) for source in volumes.values()} - {""}
    for item in in_namespace(workload.objects, workload.object.namespace):
        if item.kind == "ConfigMap" and item.name in named:
            for value in mapping(item.data.get("data")).values():
                lines = value.lower().splitlines() if isinstance(value, str) else ()
                if any(line.split()[:1] and line.split()[0] in _PASSES_ENVIRONMENT for line in lines):
                    return True
    return False


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
