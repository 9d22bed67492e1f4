"""Launchers that reach other pods over ssh, the hosts that they are told of, and what they refuse: LCH001 and up."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.counts import whole
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import words
from trainyard.rules.common.starts import Start, nodes, starts
from trainyard.rules.launchers.arguments import ambiguous, unreadable
from trainyard.rules.registry import Problem, rule
from trainyard.schemas.filledin import is_filled_in
from trainyard.workload.hostfiles import ListedHost, hosts_may_be_known, listed_hosts
from trainyard.workload.model import Container, Launch, Workload
from trainyard.workload.plain import entries, sequence, text
from trainyard.workload.services import Means, resolve

_OVER_SSH = ("deepspeed", "mpirun", "horovodrun")
_NO_SSH = ("nossh", "slurm", "standard")
_LOCAL = ("localhost", "127.0.0.1")
_SSHD = re.compile(r"\b(sshd|(ssh|sshd) start|start ssh)\b")
_SSH_PORTS = (22, 2222)
_PLACED = ("npernode", "map_by", "pernode", "oversubscribe", "ppn", "perhost", "rankfile")
_COUNTED = ("nnodes", "nproc_per_node", "max_restarts", "node_rank", "master_port")
_OF_HYDRA = ("ppn", "perhost", "bootstrap", "bootstrap_exec", "iface", "launcher", "launcher_exec", "rmk")


@rule("LCH001", "launcher-needs-ssh", Severity.ERROR, needs=Workload)
def launcher_needs_ssh(workload: Workload) -> Iterator[Problem]:
    """A launcher starts ranks in other pods over ssh, and no pod of the job answers ssh.

    deepspeed with several hosts, `accelerate launch --use_deepspeed` with several machines, mpirun and horovodrun log
    in to every other host. The pods of a Job run no ssh server and have no keys unless the manifest brings both. The
    operator of an MPIJob does.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [deepspeed]
                args: [--hostfile=/etc/hosts.d/hostfile, --num_nodes=4, --num_gpus=8, train.py]
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [deepspeed, --hostfile=/etc/hosts.d/hostfile, --no_ssh]
                args: [--master_addr=llama-sft-0.llama-sft, --node_rank=$(JOB_COMPLETION_INDEX), train.py]
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, command: [deepspeed], args: [--num_gpus=8, train.py]}]

    Source: https://www.deepspeed.ai/getting-started/#launching-deepspeed-training
    """
    if workload.object.kind in ("MPIJob", "RayJob", "RayCluster") or _answers_ssh(workload):
        return
    for start in starts(workload):
        hosts = _others(workload, start)
        if hosts is not None:
            name = start.launch.launcher
            yield Problem(
                f"{name} starts ranks on {hosts[0]} over ssh, but no pod runs an ssh server",
                start.launch.spot.saying("logs in to the other hosts"),
                (hosts[1].saying("the hosts"),) if hosts[1].path != start.launch.spot.path else (),
                _WITHOUT_SSH.get(name, "use an MPIJob, or run an ssh server with keys in every pod"),
            )


@rule("LCH002", "hostfile-without-slots", Severity.ERROR, needs=Workload)
def hostfile_without_slots(workload: Workload) -> Iterator[Problem]:
    """A list of hosts does not say how many ranks each of them takes.

    Open MPI then takes the number of a host's cores, or 1 if the hosts are on the command line: all ranks start on the
    first host, or there are not enough slots. deepspeed and horovodrun refuse to read a hostfile without `slots=`.

    Bad:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: hosts, namespace: research}
        data: {hostfile: "llama-sft-0.llama-sft\\nllama-sft-1.llama-sft\\n"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [--hostfile, /etc/hosts.d/hostfile, -np, "16", ./all_reduce_perf]
                volumeMounts: [{name: hosts, mountPath: /etc/hosts.d}]
              volumes: [{name: hosts, configMap: {name: hosts}}]
    Good:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: hosts, namespace: research}
        data: {hostfile: "llama-sft-0.llama-sft slots=8\\nllama-sft-1.llama-sft slots=8\\n"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [--hostfile, /etc/hosts.d/hostfile, -np, "16", ./all_reduce_perf]
                volumeMounts: [{name: hosts, mountPath: /etc/hosts.d}]
              volumes: [{name: hosts, configMap: {name: hosts}}]
    Near miss:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: hosts, namespace: research}
        data: {hostfile: "llama-sft-0.llama-sft\\nllama-sft-1.llama-sft\\n"}
        ---
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [mpirun]
                args: [--hostfile, /etc/hosts.d/hostfile, -np, "16", --map-by, "ppr:8:node", ./all_reduce_perf]
                volumeMounts: [{name: hosts, mountPath: /etc/hosts.d}]
              volumes: [{name: hosts, configMap: {name: hosts}}]

    Source: https://docs.open-mpi.org/en/v5.0.x/launching-apps/scheduling.html
    """
    for start in starts(workload):
        hosts = listed_hosts(workload, start.pod_set, start.container)
        if not hosts or any(host.slots is not None for host in hosts):
            continue
        reason = _needs_slots(start.launch, hosts)
        if reason:
            yield Problem(
                f"{reason}, and none of its {len(hosts)} hosts says its slots",
                start.launch.spot.saying("reads the hosts"),
                (hosts[0].spot.saying("no slots="),),
                "write slots=<GPUs of a host> behind each host",
            )


@rule("LCH004", "launcher-refuses", Severity.ERROR, needs=Workload)
@once
def launcher_refuses(workload: Workload) -> Iterator[Problem]:
    """A launcher starts no rank, since it lacks an option that it needs, or cannot read the value of one.

    deepspeed takes several hosts from a hostfile alone; with --no_ssh it also needs the address of the first host and
    the rank of its own, which it would ask for over ssh otherwise. accelerate with several machines needs the rank of
    its own and the address of the first. Counts, ranks and ports must be whole numbers; torchrun's nnodes is one or
    MIN:MAX, and its nproc_per_node one or a kind of device. torchrun also ends without a script, at a value that is
    none of an option's, and at the beginning of an option's name that several begin with.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, "--nnodes=4:2", train.py]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, "--nproc-per-node=-1", train.py]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, --tee=5, train.py]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, "--n=4", train.py]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, "--nnodes=4"], args: null}]}}}
    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [deepspeed]
                args: [--num_nodes=4, --num_gpus=8, --no_ssh, --node_rank=$(JOB_COMPLETION_INDEX), train.py]
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [deepspeed, --hostfile=/etc/hosts.d/hostfile, --no_ssh]
                args: [--master_addr=llama-sft-0.llama-sft, --node_rank=$(JOB_COMPLETION_INDEX), train.py]
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: [torchrun, "--nproc_per=8", train.py]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, command: null, args: [torchrun, "--nnodes=4"]}]}}}
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [accelerate, launch, --config_file=/etc/accelerate/four.yaml, --num_machines=4, train.py]

    Source: https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/launcher/runner.py
    """
    for start in starts(workload):
        for what, spot, remedy in _refusals(start):
            yield Problem(f"{start.launch.launcher} starts nothing: {what}", spot, (), remedy)


def _refusals(start: Start) -> Iterator[tuple[str, Spot, str]]:
    """What a launcher is not told, the field that asks for it, and the remedy."""
    launch = start.launch
    for name, setting in launch.options.items():
        variable = start.container.env.get(f"PET_{name.upper()}")
        if variable is not None and variable.spot == setting.spot and name not in _COUNTED:
            continue  # ENV004, and torchrun does not hold all of them against its choices
        if meant := ambiguous(launch.launcher, name):
            said = ", ".join(f"--{each}" for each in meant)
            yield f"--{name} may be short for {said}", setting.spot, "write the option's whole name"
        elif why := unreadable(launch.launcher, name, setting.value):
            yield f"{name} is {setting.value}, {why}", setting.spot, "correct it, or leave it out"
    if not launch.complete:
        return
    if launch.launcher == "torchrun" and not launch.program and launch.certain and _is_whole(start):
        yield "it is given no script", launch.spot, "name the script behind torchrun's own options"
    if launch.launcher == "deepspeed":
        yield from _of_deepspeed(start)
    if launch.launcher != "accelerate" or launch.option("config_file") is not None:
        return
    machines, multi, processes = (launch.option(name) for name in ("num_machines", "multi_gpu", "num_processes"))
    if multi is not None and processes is not None and whole(processes.value) == 1:
        yield "--multi_gpu takes 2 processes or more", processes.spot, "leave --multi_gpu out"
    if machines is None or (whole(machines.value) or 0) < 2:
        return
    missing = [name for name in ("machine_rank", "main_process_ip") if launch.option(name) is None]
    if missing:
        flags = " and ".join(f"--{name}" for name in missing)
        yield f"with {machines.value} machines it needs {flags}", machines.spot.saying("machines"), f"add {flags}"


def _is_whole(start: Start) -> bool:
    """Whether a launch line is all that its manifest will have, and is to start something."""
    if any(start.launch.option(name) is not None for name in ("help", "print_completion")):
        return False
    command = start.container.data.get("command")
    return bool(command) and not any(is_filled_in(str(word)) for word in sequence(command))


def _of_deepspeed(start: Start) -> Iterator[tuple[str, Spot, str]]:
    launch = start.launch
    hosts, alone = launch.option("num_nodes"), launch.option("no_ssh")
    known, asks = hosts_may_be_known(start.pod_set, start.container), "use torchrun, or give it a --hostfile"
    if not known and hosts is not None and (whole(hosts.value) or 0) > 1:
        yield f"it takes {hosts.value} hosts from a hostfile, and there is none", hosts.spot.saying("hosts"), asks
    elif not known and alone is not None and (whole(start.pod_set.count.value) or 0) > 1:
        yield "--no_ssh takes the other hosts from a hostfile, and there is none", alone.spot, asks
    missing = [name for name in ("master_addr", "node_rank") if launch.option(name) is None]
    if known and alone is not None and missing:
        flags = " and ".join(f"--{name}" for name in missing)
        yield f"--no_ssh needs {flags}", alone.spot, f"add {flags}"


_WITHOUT_SSH = {
    "deepspeed": "use torchrun, or start it in every pod with --no_ssh, --hostfile, --master_addr and --node_rank",
    "accelerate": "set --deepspeed_multinode_launcher standard and start it in every pod",
}


def _others(workload: Workload, start: Start) -> tuple[str, Spot] | None:
    """The other hosts that a launcher logs in to, with the field that names them; None where it stays at home."""
    launch = start.launch
    if launch.launcher == "accelerate":
        return _machines(launch)
    if launch.launcher not in _OVER_SSH or _stays(launch):
        return None
    if launch.launcher == "deepspeed" and not hosts_may_be_known(start.pod_set, start.container):
        return None  # LCH004
    hosts = listed_hosts(workload, start.pod_set, start.container)
    names = {host.host for host in hosts}
    if names and all(resolve(workload, name).means is Means.ELSEWHERE for name in names):
        return None
    if len(names) > 1 and not names & set(_LOCAL):
        return f"{len(names)} hosts", hosts[0].spot
    size = nodes(launch)
    if size is not None and not size.implied and size.value[1] > 1:
        return f"{size.value[1]} hosts", size.spot
    return None


def _machines(launch: Launch) -> tuple[str, Spot] | None:
    """Machines that accelerate hands over to the launcher of deepspeed."""
    machines, by = launch.option("num_machines"), launch.option("deepspeed_multinode_launcher")
    count = None if machines is None else whole(machines.value)
    if machines is None or count is None or count < 2 or launch.option("use_deepspeed") is None:
        return None
    if launch.option("deepspeed_hostfile") is None:
        return None  # RDV014: without one deepspeed stays at home
    if by is None and launch.option("config_file") is not None:
        return None
    if by is not None and by.value in (*_NO_SSH, None):
        return None
    return f"{count} machines", machines.spot


def _stays(launch: Launch) -> bool:
    """Whether a launcher is told to log in nowhere, or to hosts that are not all of its list."""
    if any(launch.option(name) is not None for name in ("no_ssh", "include", "exclude", "nolocal", "jsrun", "version")):
        return True
    by = launch.option("launcher")
    if launch.launcher == "deepspeed":
        return by is not None and by.value in ("slurm", None)
    return any(
        option is not None and option.value in (None, "slurm", "k8s")
        for option in (by, launch.option("bootstrap"))
        if option
    )


def _answers_ssh(workload: Workload) -> bool:
    """Whether a pod of the job runs an ssh server, as far as the manifest shows: by command, port or keys."""
    every = (c for pod_set in workload.pod_sets for c in (*pod_set.containers, *pod_set.init_containers))
    return any(_serves_ssh(container) for container in every)


def _serves_ssh(container: Container) -> bool:
    written = (each for field in ("command", "args") for _, each in words(container.spot.below(field)))
    if any(_SSHD.search(each) for each in written) or any(_SSHD.search(each.text) for each in container.words):
        return True
    if any(port.get("containerPort") in _SSH_PORTS for _, port in entries(container.data.get("ports"))):
        return True
    mounts = (text(mount.get("mountPath")) for _, mount in entries(container.data.get("volumeMounts")))
    return any(".ssh" in path or path.startswith("/etc/ssh") for path in mounts)


def _needs_slots(launch: Launch, hosts: tuple[ListedHost, ...]) -> str:
    """Why a launcher needs slots that its hosts do not say; empty where it does not."""
    if launch.launcher in ("deepspeed", "horovodrun"):
        return f"{launch.launcher} refuses a hostfile without slots"
    asked = launch.option("np")
    number = None if asked is None else whole(asked.value)
    if launch.launcher != "mpirun" or number is None or number <= len(hosts):
        return ""
    if any(launch.option(name) is not None for name in (*_PLACED, *_OF_HYDRA)):
        return ""
    return f"mpirun starts {number} ranks"
