"""Pods that are meant to train together, and whose launchers know nothing of one another."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.counts import number, whole
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import integer
from trainyard.rules.common.programs import programs
from trainyard.rules.common.starts import Start, names_a_meeting, nodes, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.accelerate import hands_to_deepspeed, spreads
from trainyard.workload.hostfiles import hosts_may_be_known
from trainyard.workload.model import Workload
from trainyard.workload.templates import ALONE

_ONE_JOB = ("JAXJob", "PaddleJob", "PyTorchJob", "TrainJob")
"""Kinds whose pods, whatever their role, are the ranks of one training."""
_OF_FABRICS = ("rdma/", "vpc.amazonaws.com/efa")
_GROUPS = ("scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name")
_MEETS = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT")
_RANKED = ("hugging-face", "megatron", "nanogpt", "torchtitan")
"""Programs that take rank and world size from RANK and WORLD_SIZE."""
_LOCAL = ("localhost", "127.", "0.0.0.0", "::1", "[::1]")


@rule("RDV014", "separate-worlds", Severity.ERROR, needs=Workload)
@once
def separate_worlds(workload: Workload) -> Iterator[Problem]:
    """Several pods run one launch line, and each of them starts a training of its own.

    A launcher that is not told of other hosts starts the ranks of its own pod and calls that the world. Every pod then
    trains the whole model alone, all of them write the same checkpoints, and nothing fails. The pods are taken to be
    meant as one where the kind, a gang, a fabric's device or a name that pods find each other by says so.

    Bad:
        kind: Job
        spec:
          template: {spec: {containers: [{name: trainer, command: [deepspeed], args: [--num_gpus=8, train.py]}]}}
    Good:
        kind: Job
        spec:
          template: {spec: {containers: [{name: trainer, command: [torchrun], args: [train.py]}]}}
    Near miss:
        # on: job
        spec:
          parallelism: 4
          completions: 4
          completionMode: Indexed
          template: {spec: {containers: [{name: trainer, command: [deepspeed], args: [--num_gpus=8, train.py]}]}}

    Source: https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/launcher/runner.py
    """
    for pods, alone, meant in _worlds(workload):
        if meant is not None:
            yield Problem(
                f"each of the {number(pods, 'pod')} trains alone: {alone.why}",
                alone.spot.saying("starts the ranks of its own pod"),
                (meant,),
                alone.help,
            )


def worlds_apart(workload: Workload) -> Iterator[tuple[int, str, Spot]]:
    """How many pods start a world each, why and where, if nothing says whether they are one training or several."""
    for pods, alone, meant in _worlds(workload):
        if meant is None:
            yield pods, alone.why, alone.spot


def _worlds(workload: Workload) -> Iterator[tuple[int, "_Alone", Spot | None]]:
    """Launch lines that several pods run, each for itself, and what says that these were meant as one."""
    if workload.object.kind in ALONE:
        return
    for start in starts(workload):
        pods, alone = _pods(workload, start), _alone(workload, start)
        if pods is not None and pods > 1 and alone is not None and start.launch.certain:
            yield pods, alone, _meant_as_one(workload, start)


@dataclass(frozen=True, slots=True)
class _Alone:
    """Why a launch line starts a world in each pod."""

    why: str
    spot: Spot
    help: str


def _pods(workload: Workload, start: Start) -> int | None:
    """Pods that run the launch line of a start at once, and would form one world."""
    if workload.object.kind == "Job" and workload.object.group == "batch":
        at_once = integer(workload.object.at("spec", "parallelism"))
        return min(whole(start.pod_set.count.value) or 0, 1 if at_once is None else at_once)
    if workload.object.kind not in _ONE_JOB:
        return whole(start.pod_set.count.value)
    counts = [each.pod_set.count.value for each in starts(workload) if each.launch.launcher == start.launch.launcher]
    return None if None in counts else sum(counts)


def _meant_as_one(workload: Workload, start: Start) -> Spot | None:
    """What says that the pods train together; None where they may as well be runs of their own."""
    count = start.pod_set.count.spot
    if workload.training_job is not None:
        return workload.training_job.at("spec", "nodes", label="nodes of one training")
    if workload.object.kind in _ONE_JOB:
        return count.saying(f"pods of one {workload.object.kind}")
    gang = workload.object.at("spec", "minAvailable")
    if workload.object.group == "batch.volcano.sh" and (integer(gang) or 0) > 1:
        return gang.saying("pods that start together")
    for place in ("labels", "annotations"):
        named = getattr(start.pod_set, place)
        if group := next((key for key in _GROUPS if key in named), None):
            return start.pod_set.template.below("metadata", place, group, label="one pod group")
    for name in _MEETS:
        variable = start.container.env.get(name)
        if variable is not None and not str(variable.value).startswith(_LOCAL):
            return variable.spot.saying("where the pods would meet")
    for name, limit in start.container.limits.items():
        if name.startswith(_OF_FABRICS):
            return limit.spot.saying("a network between pods")
    subdomain = start.pod_set.subdomain
    if workload.object.kind != "StatefulSet" and subdomain is not None and not subdomain.implied:
        return subdomain.spot.saying("names by which the pods find each other")
    return None


def _alone(workload: Workload, start: Start) -> _Alone | None:
    """Why each pod would be a world; None where it joins others, or where nobody can tell."""
    launch = start.launch
    alone = partial(_Alone, spot=launch.spot)
    if launch.launcher == "torchrun":
        return _torchrun(start)
    if launch.launcher == "accelerate":
        return _accelerate(start)
    if launch.launcher == "fabric":
        size = launch.option("num_nodes")
        if (size is None and launch.complete) or (size is not None and size.value == "1"):
            return alone("fabric run counts on 1 node", help="give it --num-nodes, --node-rank and --main-address")
    if launch.launcher == "composer" and launch.complete and launch.option("world_size") is None:
        return alone("composer is not given --world_size", help="give it --world_size, --node_rank, --master_addr")
    if launch.launcher in _BY_HOSTS and not hosts_may_be_known(start.pod_set, start.container):
        size = launch.option("num_nodes")
        if launch.option("no_ssh") is None and (size is None or whole(size.value) == 1):
            return alone(f"{launch.launcher} does not know any other host", help=_BY_HOSTS[launch.launcher])
    if launch.launcher == "python":
        return _python(workload, start)
    return None


_BY_HOSTS = {
    "deepspeed": "use torchrun, which meets the other pods by itself, or an MPIJob with a hostfile",
    "horovodrun": "use an MPIJob, and give horovodrun its hostfile",
    "mpirun": "use an MPIJob, whose operator gives mpirun the hosts",
}


def _torchrun(start: Start) -> _Alone | None:
    standalone, size = start.launch.option("standalone"), nodes(start.launch)
    if standalone is not None and standalone.value is True:
        return _Alone(
            "torchrun --standalone is a training of one node", standalone.spot, f"leave it out and {_TORCHRUN}"
        )
    if size is None or size.value[1] != 1 or names_a_meeting(start):
        return None
    return _Alone("torchrun counts on 1 node", size.spot, _TORCHRUN)


_TORCHRUN = "set nnodes, rdzv_backend and rdzv_endpoint"


def _accelerate(start: Start) -> _Alone | None:
    launch = start.launch
    machines, file = launch.option("num_machines"), launch.option("config_file")
    if not launch.complete or launch.option("tpu") is not None or launch.option("mpirun_hostfile") is not None:
        return None
    if machines is not None and (whole(machines.value) or 0) > 1 and hands_to_deepspeed(launch):
        told = any(launch.option(name) is not None for name in ("deepspeed_hostfile", "config_file"))
        missing = not told and launch.option("machine_rank") is not None
        why = "deepspeed, which accelerate launch hands over to, is given no deepspeed_hostfile"
        return _Alone(why, machines.spot, "set --deepspeed_multinode_launcher standard") if missing else None
    if (machines is None and file is not None) or (machines is not None and machines.value != "1"):
        return None
    if not spreads(launch, start.container.gpus) and launch.option("world_size") is not None:
        return None  # one process, which may read the variables of its pod itself
    spot = launch.spot if machines is None else machines.spot
    asks = "give it --num_machines, --machine_rank, --main_process_ip, --main_process_port and all --num_processes"
    return _Alone("accelerate launch counts on 1 machine", spot, asks)


def _python(workload: Workload, start: Start) -> _Alone | None:
    """A program that takes its rank from variables which nothing sets."""
    launch = start.launch
    if workload.in_job_folder and "PET_NPROC_PER_NODE" in start.container.env:
        return None  # RDV012 says it
    program = next((each for each in programs(workload) if each.container is start.container), None)
    if program is None or not program.is_named or program.trainer.name not in _RANKED or not launch.complete:
        return None
    if any(launch.option(name) is not None for name in ("world_size", "rank")):
        return None
    what = next(word for word in launch.program if not word.text.startswith("-"))
    return _Alone(f"{what.text} takes its rank from variables that nothing sets", launch.spot, "start it with torchrun")
