"""On which hosts an MPI job's processes start, and whether its launcher ever does."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.counts import whole
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Launch, PodSet, Setting, Workload
from trainyard.workload.mpijob import HOSTFILE
from trainyard.workload.plain import mapping

_BY_VARIABLE = "OMPI_MCA_orte_default_hostfile"
_OF_OPEN_MPI_5 = "PRTE_MCA_prte_default_hostfile"


@rule("MPI004", "hostfile-by-variable-alone", Severity.INFO, needs=Workload)
def hostfile_by_variable_alone(workload: Workload) -> Iterator[Problem]:
    """mpirun is not given its hostfile; only Open MPI before version 5 finds it by itself.

    The operator names the hostfile in variables that Open MPI 5 does not read. There mpirun starts all ranks in the
    launcher's pod, without GPUs, and ends with success. To name the hostfile does no harm in any version.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: launcher, command: [mpirun, python, train.py]}]}}}

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers: [{name: launcher, command: [mpirun, --hostfile, /etc/mpi/hostfile, python, train.py]}]

    Near miss:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, python, train.py]
                    env: [{name: PRTE_MCA_prte_default_hostfile, value: /etc/mpi/hostfile}]

    Source: https://github.com/kubeflow/mpi-operator/issues/842
    """
    for pod_set, launch in _launchers(workload, "mpirun"):
        container = pod_set.main()
        if container is None or _BY_VARIABLE not in container.env or _OF_OPEN_MPI_5 in container.env:
            continue
        if launch.option("hostfile") is None and launch.option("host") is None and launch.option("app") is None:
            yield Problem(
                "mpirun is not given its hostfile, and Open MPI 5 would start every rank in the launcher's pod",
                launch.spot.saying("no --hostfile"),
                (),
                f"add --hostfile {HOSTFILE}, which every version reads",
            )


@rule("MPI005", "horovodrun-without-hosts", Severity.ERROR, needs=Workload)
def horovodrun_without_hosts(workload: Workload) -> Iterator[Problem]:
    """horovodrun is given no hosts, so it starts every process in the launcher's own pod.

    mpirun finds the operator's hostfile by a variable; horovodrun does not look for it, and takes `localhost` with as
    many slots as it is asked for processes. The workers stay idle, and the launcher has no GPU.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template: {spec: {containers: [{name: launcher, command: [horovodrun, -np, "16", python, train.py]}]}}

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [horovodrun, -np, "16", --hostfile, /etc/mpi/hostfile, python, train.py]

    Near miss:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [horovodrun, -np, "8", --host-discovery-script, /etc/mpi/discover_hosts.sh, ./train.py]

    Source: https://horovod.readthedocs.io/en/stable/running_include.html
    """
    for _, launch in _launchers(workload, "horovodrun"):
        if any(launch.option(name) for name in ("hosts", "hostfile", "host_discovery_script", "config_file", "jsrun")):
            continue
        asked = launch.option("np")
        number = whole(asked.value) if asked is not None else None
        yield Problem(
            f"horovodrun is given no hosts, so {number or 'all'} processes start in the launcher's pod",
            launch.spot.saying("takes localhost alone"),
            (),
            f"add --hostfile {HOSTFILE}",
        )


@rule("MPI006", "launcher-waits-for-its-gang", Severity.WARNING, needs=Workload)
def launcher_waits_for_its_gang(workload: Workload) -> Iterator[Problem]:
    """The gang counts the launcher, which is made only when the workers are ready.

    A gang scheduler places nobody before all members are there. With `WaitForWorkersReady` the launcher is no pod yet,
    so the gang of workers and launcher never fills, and the workers never become ready.

    Bad:

        # on: mpijob
        spec:
          launcherCreationPolicy: WaitForWorkersReady
          runPolicy: {schedulingPolicy: {queue: research}}
          mpiReplicaSpecs: {Worker: {replicas: 4}}

    Good:

        # on: mpijob
        spec:
          launcherCreationPolicy: WaitForWorkersReady
          runPolicy: {schedulingPolicy: {queue: research, minAvailable: 4}}
          mpiReplicaSpecs: {Worker: {replicas: 4}}

    Near miss:

        # on: mpijob
        spec: {runPolicy: {schedulingPolicy: {queue: research}}, mpiReplicaSpecs: {Worker: {replicas: 4}}}

    Source: https://github.com/kubeflow/mpi-operator/issues/608
    """
    spec = mapping(workload.object.data.get("spec"))
    policy = mapping(spec.get("runPolicy")).get("schedulingPolicy")
    workers = next((p.count for p in workload.pod_sets if p.role == "worker"), None)
    if workload.object.kind != "MPIJob" or spec.get("launcherCreationPolicy") != "WaitForWorkersReady":
        return
    if not isinstance(policy, dict) or workers is None or not isinstance(workers.value, int):
        return
    least = _least(policy, workers)
    if least is None or least <= workers.value:
        return
    at = workload.object.at("spec", "runPolicy", "schedulingPolicy")
    yield Problem(
        f"the gang has {least} members, but only {workers.value} workers are made before all of it is placed",
        (at.below("minAvailable") if "minAvailable" in policy else at).saying("workers and launcher"),
        (workload.object.at("spec", "launcherCreationPolicy").saying("the launcher comes after the workers"),),
        f"set minAvailable to {workers.value}, or leave launcherCreationPolicy out",
    )


def _least(policy: dict[str, object], workers: Setting) -> int | None:
    """Members that the gang waits for; the operator counts workers and launcher where nobody says."""
    written = policy.get("minAvailable")
    return int(workers.value) + 1 if written is None else whole(written)


def _launchers(workload: Workload, launcher: str) -> Iterator[tuple[PodSet, Launch]]:
    """Pods of an MPIJob that start its processes by a program of this name."""
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        if workload.object.kind != "MPIJob" or pod_set.role != "launcher" or container is None:
            continue
        if container.launch is not None and container.launch.launcher == launcher:
            yield pod_set, container.launch
