"""How many nodes a launcher counts on, and which of them each pod is."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, put
from trainyard.rules.common.counts import number, whole
from trainyard.rules.common.meetings import meetings
from trainyard.rules.common.once import once
from trainyard.rules.common.remedies import told
from trainyard.rules.common.starts import Start, meets_others, names_a_meeting, nodes, pods_that_start, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Setting, Workload
from trainyard.workload.of_unit import companions
from trainyard.workload.plain import mapping
from trainyard.workload.rendezvous import rendezvous
from trainyard.workload.templates import ALONE


@rule("RDV001", "nodes-mismatch", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def nodes_mismatch(workload: Workload) -> Iterator[Problem]:
    """The launcher waits for another number of nodes than the pods that run it.

    With too many nodes expected, every rank waits at the rendezvous until it times out. With too few, the first pods
    train and the others are turned away, or each pod trains a model of its own. Jobs of one input that meet at one
    place, such as a leader's and a worker's, are counted together.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NNODES
                  value: "5"

    Good:

        kind: Job
        spec:
          completions: 5
          parallelism: 5
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NNODES
                  value: "5"

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NNODES
                  value: "2:8"

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for start in starts(workload) if workload.object.kind not in ALONE else ():
        launcher, expected = start.launch.launcher, nodes(start.launch)
        pods = pods_that_start(workload, launcher)
        if expected is None or pods is None or (launcher == "deepspeed" and start.launch.option("no_ssh") is None):
            continue
        least, most = expected.value
        if least <= pods <= most or (most == 1 and not names_a_meeting(start)):
            continue
        others = _in_other_jobs(workload, start)
        if others is None or least <= pods + others <= most:
            continue
        pods += others
        run = "pod runs" if pods == 1 else "pods run"
        if expected.implied:
            message = f"{pods} {run} {launcher}, but it counts on 1 node where it is not told the number"
        elif least == most:
            message = f"{launcher} counts on {number(most, 'node')}, but {pods} {run} it"
        else:
            message = f"{launcher} counts on {least} to {most} nodes, but {pods} {run} it"
        related = (start.pod_set.count.spot.saying(number(start.pod_set.count.value, "pod")),)
        yield Problem(
            message,
            expected.spot.saying("nodes"),
            related,
            f"set the number of nodes to {pods}",
            _with_nodes(expected, pods),
        )


def _in_other_jobs(workload: Workload, start: Start) -> int | None:
    """How many pods of the jobs beside it run the same launcher and meet at the same place; None where that is not
    known."""
    here = rendezvous(start.launch)
    if here is None or here.host.implied:
        return 0
    counts = []
    for other in (other for companion in companions(workload) for other in starts(companion)):
        there = rendezvous(other.launch)
        if there is None or other.launch.launcher != start.launch.launcher:
            continue
        if here.host.value is None or there.host.value is None:
            return None
        if (here.host.value, here.port.value) == (there.host.value, there.port.value):
            counts.append(other.pod_set.count.value)
    return None if None in counts else sum(counts)


@rule("RDV007", "job-not-indexed", Severity.ERROR, needs=Workload, fix="safe")
def job_not_indexed(workload: Workload) -> Iterator[Problem]:
    """A Job of several ranks gives its pods no index, or does not run them all at once.

    Only completionMode Indexed gives the pods fixed host names and JOB_COMPLETION_INDEX, from which ranks find each
    other. With fewer parallel pods than completions the ranks that run wait for ranks that are not started.

    Bad:

        kind: Job
        spec:
          completionMode: NonIndexed

    Good:

        kind: Job
        spec:
          completionMode: Indexed

    Near miss:

        kind: Job
        spec:
          completionMode: NonIndexed
          completions: 1
          parallelism: 1
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_NNODES
                  value: "1"

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    """
    if (workload.object.group, workload.object.kind) != ("batch", "Job"):
        return
    for start in starts(workload):
        job, spec = workload.object.at("spec"), mapping(workload.object.data.get("spec"))
        parallelism, completions = whole(spec.get("parallelism", 1)), whole(spec.get("completions"))
        several = max(parallelism or 0, completions or 0) > 1
        if not several or not meets_others(start):
            continue
        if spec.get("completionMode") != "Indexed":
            count = number(max(parallelism or 0, completions or 0), "pod")
            yield Problem(
                f"{count} run {start.launch.launcher}, but the job gives them no index",
                job.below("completionMode", label="must be Indexed"),
                (start.launch.spot.saying("needs a fixed name for each pod"),),
                "set completionMode: Indexed",
                _with_indices(job, parallelism, completions),
            )
        elif parallelism is not None and completions is not None and parallelism < completions:
            yield Problem(
                f"only {parallelism} of {completions} pods run at once",
                job.below("parallelism", label=f"{parallelism} at once"),
                (job.below("completions", label=f"{completions} in all"),),
                f"set parallelism to {completions}, so that all ranks meet",
                put(job.below("parallelism"), completions),
            )


@rule("RDV008", "node-rank-fixed", Severity.ERROR, needs=Workload)
@once
def node_rank_fixed(workload: Workload) -> Iterator[Problem]:
    """Several pods have the same node rank.

    A template is shared by its pods, so a number written there is the rank of all of them. With static rendezvous,
    which is torchrun's default, a missing node rank is 0 everywhere: each pod takes itself for the first and waits.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                args: [--node-rank=0, -m, trainer]
                env:
                - name: PET_RDZV_BACKEND
                  value: static

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                args: [--node-rank=$(JOB_COMPLETION_INDEX), -m, trainer]
                env:
                - name: PET_RDZV_BACKEND
                  value: static

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                args: [-m, trainer]

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    met = list(meetings(workload))
    for start in starts(workload):
        pods, rank = start.pod_set.count.value, _node_rank(start)
        if pods is None or pods < 2 or rank is None or whole(rank.value) is None or not meets_others(start):
            continue
        if rank.implied and not any(meeting.start == start and not meeting.host.implied for meeting in met):
            continue
        value = f"no node rank, so each takes {rank.value}" if rank.implied else f"node rank {rank.value}"
        yield Problem(
            f"all {pods} pods have {value}",
            rank.spot.saying("the same in every pod"),
            (start.pod_set.count.spot.saying(number(pods, "pod")),),
            "take the rank from the pod's index: $(JOB_COMPLETION_INDEX), or use rdzv_backend c10d, which needs none",
        )


def _with_nodes(expected: Setting, pods: int) -> Remedy | None:
    """The number of pods for that of nodes; unsafe, since the number of pods may be the one that is wrong."""
    least, most = expected.value
    written = Setting(str(most) if least == most else f"{least}:{most}", expected.spot, expected.implied)
    remedy = told(written, pods, "nnodes", "num_nodes", "num_machines")
    return None if remedy is None else remedy.unsafe()


def _with_indices(job: Spot, parallelism: int | None, completions: int | None) -> Remedy | None:
    """Indices, and the completions that they need."""
    indexed = put(job.below("completionMode"), "Indexed")
    if completions is not None and completions == parallelism:
        return indexed
    return None if completions is not None else indexed & put(job.below("completions"), parallelism)


def _node_rank(start: Start) -> Setting | None:
    """What gives a pod its place among the pods, where the launcher reads it."""
    launch = start.launch
    if launch.launcher == "torchrun":
        backend, rank = launch.option("rdzv_backend"), launch.option("node_rank")
        return rank if backend is not None and backend.value == "static" else None
    name = {"accelerate": "machine_rank", "deepspeed": "node_rank", "python": "rank"}.get(launch.launcher)
    return None if name is None else launch.option(name)
