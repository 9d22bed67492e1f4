"""How many processes mpirun starts, and on how many GPUs."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.counts import gpu_limit
from trainyard.rules.common.mpi_slots import asked_processes, mpi_program, pods_of, slots_per_worker
from trainyard.rules.common.remedies import told
from trainyard.rules.common.settings import environments
from trainyard.rules.registry import Problem, rule
from trainyard.workload import mpijob
from trainyard.workload.model import Setting, Workload
from trainyard.workload.plain import mapping, text

_MAP_BY = ("OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy")


@rule("MPI002", "process-count-mismatch", Severity.ERROR, needs=Workload, fix="unsafe")
def process_count_mismatch(workload: Workload) -> Iterator[Problem]:
    """mpirun is asked for more processes than the workers have slots.

    The operator writes a host file with slotsPerWorker slots for each worker. Open MPI refuses to start more processes
    than there are slots, unless it may oversubscribe them (`--oversubscribe`, `--map-by slot:OVERSUBSCRIBE`); Intel MPI
    and MPICH start them all. Fewer leave GPUs idle, which rule idle-gpus says.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template: {spec: {containers: [{name: launcher, command: [mpirun, -np, "32", python, train.py]}]}}
            Worker: {replicas: 2}

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Launcher:
              template: {spec: {containers: [{name: launcher, command: [mpirun, -np, "16", python, train.py]}]}}
            Worker: {replicas: 2}

    Near miss:

        # on: mpijob
        spec:
          runLauncherAsWorker: true
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [mpirun, -np, "16", python, train.py]
                    resources: {limits: {nvidia.com/gpu: 8}}
            Worker: {replicas: 1}

    Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/
    """
    asked, slots, workers = asked_processes(workload), slots_per_worker(workload), pods_of(workload, "worker")
    if asked is None or slots is None or workers is None or not _keeps_to_slots(workload):
        return
    with_launcher = mpijob.launcher_is_worker(workload.object)
    hosts = workers.value + with_launcher
    if asked.value <= slots.value * hosts:
        return
    launcher = f" (workers {workers.value} + launcher 1)" if with_launcher else ""
    yield Problem(
        f"{mpi_program(workload)} starts {asked.value} processes, "
        f"but slots {slots.value} x hosts {hosts}{launcher} = {slots.value * hosts}",
        asked.spot.saying("more processes than slots"),
        (slots.spot.saying(f"slots of one worker: {slots.value}"), workers.spot.saying(f"workers: {workers.value}")),
        _enough_slots(workload, asked.value, slots.value, hosts),
        _fewer_processes(asked, slots.value * hosts),
    )


def _keeps_to_slots(workload: Workload) -> bool:
    """Whether mpirun reads the operator's slots, and refuses to start more processes than those."""
    if (text(mapping(workload.object.data.get("spec")).get("mpiImplementation")) or "OpenMPI") != "OpenMPI":
        return False
    for each in environments(workload):
        launch = each.container.launch if each.pod_set.role == "launcher" else None
        if launch is None:
            continue
        hostfile = launch.option("hostfile")
        if launch.option("host") is not None or (hostfile is not None and hostfile.value != mpijob.HOSTFILE):
            return False
        switch, policies = (
            each.get("OMPI_MCA_rmaps_base_oversubscribe"),
            [launch.option("map_by"), *map(each.get, _MAP_BY)],
        )
        if launch.option("oversubscribe") is not None or (switch is not None and not switch.is_off):
            return False
        if any(policy is not None and _oversubscribes(policy.value) for policy in policies):
            return False
    return True


def _oversubscribes(policy: str | None) -> bool:
    """Whether a mapping policy, `slot:OVERSUBSCRIBE`, allows more processes than slots, or may: None is not known."""
    modifiers = (policy or "").upper().replace(",", ":").split(":")[1:]
    return policy is None or any(modifier and "OVERSUBSCRIBE".startswith(modifier) for modifier in modifiers)


def _fewer_processes(asked: Setting, slots: int) -> Remedy | None:
    remedy = told(asked, slots, "np", "n", "c")
    return None if remedy is None else remedy.saying(f"start {slots} processes").unsafe()


def _enough_slots(workload: Workload, asked: int, slots: int, hosts: int) -> str:
    gpus = max((pod_set.containers[0].gpus for pod_set in workload.pod_sets if pod_set.containers), default=0)
    if slots < gpus and asked <= gpus * hosts:
        return f"set slotsPerWorker to {gpus}, the GPUs of a worker"
    return f"start {slots * hosts} processes, or add workers"


@rule("MPI003", "slots-mismatch", Severity.ERROR, needs=Workload, fix="safe")
def slots_mismatch(workload: Workload) -> Iterator[Problem]:
    """A worker has more slots than GPUs.

    Each slot takes a process and each process takes the GPU of its local rank. The ranks past the last GPU stop with
    "invalid device ordinal", or share a GPU and hang in NCCL.

    Bad:

        # on: mpijob
        spec:
          slotsPerWorker: 8
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: launcher, command: [mpirun, python, train.py]}]}}}
            Worker: {template: {spec: {containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 4}}}]}}}

    Good:

        # on: mpijob
        spec:
          slotsPerWorker: 4
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: launcher, command: [mpirun, python, train.py]}]}}}
            Worker: {template: {spec: {containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 4}}}]}}}

    Near miss:

        # on: mpijob
        spec:
          slotsPerWorker: 8
          mpiReplicaSpecs:
            Launcher: {template: {spec: {containers: [{name: launcher, command: [mpirun, python, train_on_cpu.py]}]}}}
            Worker:
              template:
                spec: {containers: [{name: worker, resources: {limits: {nvidia.com/gpu: null, cpu: "8"}}}]}

    Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/
    """
    slots = slots_per_worker(workload)
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        limit = None if container is None or pod_set.role != "worker" else gpu_limit(container)
        if container is None or slots is None or limit is None or slots.value <= container.gpus:
            continue
        yield Problem(
            f"{slots.value} slots per worker, but a worker has {container.gpus} GPUs",
            slots.spot.saying("one process for each slot"),
            (limit.spot.saying("GPUs of one worker"),),
            f"set slotsPerWorker to {container.gpus}",
            put(slots.spot, container.gpus) if container.gpus and not slots.implied else None,
        )
