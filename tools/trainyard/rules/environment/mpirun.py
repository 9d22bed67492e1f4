"""What mpirun passes on to the ranks, and what Open MPI reads itself."""

from collections.abc import Iterator, Mapping

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import single_pod
from trainyard.rules.common.settings import Environment, environments, launched_by
from trainyard.rules.common.variable_remedies import assigned, beside
from trainyard.rules.environment.passing import listed, read_by_ranks
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Launch, Setting, Workload
from trainyard.workload.plain import mapping, text

_PASSING_ALL = frozenset({"-genvall", "-envall", "-genvlist", "-envlist", "--genvall", "--envall", "--envlist"})
_SHELLS = frozenset({"bash", "sh", "env"})
_SSHD = "sshd"
_FAMILIES_OF_OPEN_MPI = ("OMPI_MCA_btl_tcp_if", "OMPI_MCA_oob_tcp_if")
_LOOPBACK = frozenset({"lo", "127.0.0.0/8", "127.0.0.1/8", "127.0.0.1/24"})
_LOCAL_TRANSPORTS = frozenset({"tcp", "self", "sm", "shm", "mm", "posix", "sysv", "cma", "knem", "xpmem"})


@rule("ENV024", "variables-not-passed-on", Severity.ERROR, needs=Workload)
@once
def variables_not_passed_on(workload: Workload) -> Iterator[Problem]:
    """Variables are set on pods, but mpirun starts the ranks without them.

    Open MPI starts remote ranks by ssh, in a clean environment: neither the launcher's variables nor those of the
    worker's pod are in it. The manifest looks right, and the ranks run with defaults. `-x NAME` passes one on.

    Bad:
        # on: mpijob
        metadata: {name: bench}
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, -np, "16", all_reduce_perf]
                    env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]
    Good:
        # on: mpijob
        metadata: {name: bench}
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, -np, "16", -x, NCCL_SOCKET_IFNAME, all_reduce_perf]
                    env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]
    Near miss:
        # on: mpijob
        metadata: {name: bench}
        spec:
          mpiImplementation: Intel
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, -np, "16", all_reduce_perf]
                    env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]

    Source: https://github.com/kubeflow/trainer/issues/3427
    """
    if single_pod(workload) or not _is_open_mpi(workload):
        return
    for each in environments(workload):
        launch = launched_by(each.container, "mpirun")
        if launch is None or not _by_ssh(workload, each, launch) or _brings_its_own(each.container, launch):
            continue
        passed = _passed_on(launch)
        here = [each, *(other for other in environments(workload) if _is_plain_sshd(other.container))]
        lost = {
            found.name: found
            for environment in reversed(here)
            for found in environment.variables.values()
            if not found.passed_on and found.name not in passed and read_by_ranks(workload, found)
        }
        if lost:
            first, *others = sorted(lost.values(), key=lambda found: (found.spot.object.index, str(found.spot.path)))
            yield Problem(
                f"{listed(list(lost))} set, but mpirun starts the ranks without {'it' if len(lost) == 1 else 'them'}",
                first.spot.saying("does not reach the ranks by ssh"),
                related=(*(found.spot for found in others), launch.spot.saying("passes on what -x names")),
                help="pass them on: " + " ".join(f"-x {name}" for name in sorted(lost)),
            )


@rule("ENV025", "transport-lists", Severity.WARNING, needs=Workload, fix="safe")
@once
def transport_lists(workload: Workload) -> Iterator[Problem]:
    """Open MPI's lists of transports and interfaces leave something out that it needs.

    An include list and an exclude list of one family exclude each other. An exclude list takes the place of the
    default, which held loopback. A list of byte transfer layers without `self` keeps a rank from itself, and `openib`
    is gone since Open MPI 5. The UCX layer of Open MPI's own builds refuses to load where UCX_TLS holds no fast
    transport; images such as HPC-X allow it, so that is information.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMPI_MCA_btl_tcp_if_exclude: docker0}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMPI_MCA_btl_tcp_if_exclude: "lo,docker0"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {OMPI_MCA_btl: "^openib"}

    Source: https://github.com/openucx/ucx/issues/8952
    """
    for each in environments(workload):
        for family in _FAMILIES_OF_OPEN_MPI:
            include, exclude = each.get(f"{family}_include"), each.get(f"{family}_exclude")
            if include is not None and exclude is not None:
                yield Problem(
                    f"{include.name} and {exclude.name} exclude each other",
                    exclude.spot,
                    related=(include.spot,),
                    help="keep one of the two",
                )
            elif exclude is not None and exclude.value and not _LOOPBACK & set(exclude.value.split(",")):
                yield Problem(
                    f"{exclude.name} is {exclude.value}, which brings loopback back",
                    exclude.spot.saying("takes the place of the default, which held lo"),
                    help=f"write lo,{exclude.value}",
                    fix=assigned(exclude, f"lo,{exclude.value}"),
                )
        layers, layer, transports = each.get("OMPI_MCA_btl"), each.get("OMPI_MCA_pml"), each.get("UCX_TLS")
        if layers is not None and layers.value and (missing := _layers_lack(layers.value)):
            yield Problem(
                f"OMPI_MCA_btl is {layers.value}, {missing}", layers.spot, help="write vader,tcp,self, or ^openib"
            )
        only = set((transports.value or "").split(",")) if transports is not None else set()
        asked = each.get("OMPI_MCA_pml_ucx_tls", "OMPI_MCA_pml_ucx_devices")
        if layer is not None and layer.value == "ucx" and only and only <= _LOCAL_TRANSPORTS and asked is None:
            yield Problem(
                f"OMPI_MCA_pml is ucx, which most builds do not load where UCX_TLS is {','.join(sorted(only))}",
                layer.spot,
                related=() if transports is None else (transports.spot,),
                help="set OMPI_MCA_pml to ob1, or OMPI_MCA_pml_ucx_tls to any, unless the image does so",
                severity=Severity.INFO,
            )


@rule("ENV027", "root-not-confirmed", Severity.ERROR, needs=Workload, fix="safe")
@once
def root_not_confirmed(workload: Workload) -> Iterator[Problem]:
    """OMPI_ALLOW_RUN_AS_ROOT is set without its confirmation.

    mpirun wants both OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 before it runs as root; with one
    it refuses.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [-np, "8", train]
                env: [{name: OMPI_ALLOW_RUN_AS_ROOT, value: "1"}]
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [-np, "8", train]
                env:
                - {name: OMPI_ALLOW_RUN_AS_ROOT, value: "1"}
                - {name: OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, value: "1"}
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [--allow-run-as-root, -np, "8", train]
                env: [{name: OMPI_ALLOW_RUN_AS_ROOT, value: "1"}]

    Source: https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html
    """
    for each in environments(workload):
        launch, allowed = launched_by(each.container, "mpirun"), each.get("OMPI_ALLOW_RUN_AS_ROOT")
        if launch is None or allowed is None or launch.option("allow_run_as_root") is not None:
            continue
        if each.lacks("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            yield Problem(
                "OMPI_ALLOW_RUN_AS_ROOT is set without OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, so mpirun refuses root",
                allowed.spot,
                related=(launch.spot,),
                help="set both to 1, or pass --allow-run-as-root",
                fix=beside(allowed, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            )


def _passed_on(launch: Launch) -> frozenset[str]:
    """The variables that mpirun is told to pass on."""
    named = launch.option("x")
    pairs: Mapping[str, Setting] = mca.value if (mca := launch.option("mca")) is not None else {}
    listed = pairs.get("mca_base_env_list")
    in_list = str(listed.value or "").replace(";", ",").split(",") if listed is not None else ()
    return frozenset(named.value if named is not None else ()) | {item.partition("=")[0] for item in in_list}


def _brings_its_own(container: Container, launch: Launch) -> bool:
    """Whether the ranks get variables otherwise: all are passed on, or a shell sets them around the program."""
    first = launch.program[0].text.rpartition("/")[2] if launch.program else ""
    inline = first in _SHELLS and any(word.text == "-c" or "=" in word.text for word in launch.program[1:3])
    return (
        inline
        or any(word.text in _PASSING_ALL for word in container.words)
        or any(not word.known for word in container.words if word.text.startswith("$"))
    )


def _by_ssh(workload: Workload, each: Environment, launch: Launch) -> bool:
    """Whether ranks start on other hosts, and by ssh: kubectl exec would give them what their pod has."""
    agent = each.get("OMPI_MCA_plm_rsh_agent")
    hosts = launch.option("hostfile") or launch.option("host")
    over_hosts = workload.object.kind in ("MPIJob", "TrainJob") or hosts is not None
    return over_hosts and (agent is None or "ssh" in (agent.value or ""))


def _is_open_mpi(workload: Workload) -> bool:
    """Whether mpirun is Open MPI's, which the operators take where nothing else is said."""
    spec = mapping(workload.object.data.get("spec"))
    runtimes = (mapping(obj.data.get("spec")) for obj in workload.objects if obj.kind.endswith("TrainingRuntime"))
    said = [mapping(mapping(runtime.get("mlPolicy")).get("mpi")).get("mpiImplementation") for runtime in runtimes]
    return all(text(name) in ("", "OpenMPI") for name in (spec.get("mpiImplementation"), *said))


def _is_plain_sshd(container: Container) -> bool:
    """Whether a container runs an ssh server and nothing that could hand its variables on."""
    return bool(container.words) and container.words[0].text.rpartition("/")[2] == _SSHD


def _layers_lack(value: str) -> str:
    names = value.split(",")
    if value.startswith("^"):
        return ""
    if "self" not in names:
        return "so a rank cannot reach itself"
    return "and Open MPI 5 no longer has openib" if "openib" in names else ""
