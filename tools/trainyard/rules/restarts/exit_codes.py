"""Whether a run that fails is seen to fail: RST008 and RST009."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.remedy import Remedy, begin
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import PLAIN
from trainyard.workload.model import Container, HiddenFailure, PodSet, Workload
from trainyard.workload.ray_entrypoint import LAUNCHER as RAY

_ENDING = ("Never", "OnFailure")


@rule("RST008", "failure-hidden", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def failure_hidden(workload: Workload) -> Iterator[Problem]:
    """The script around a launcher ends with exit code 0 whether the training failed or not.

    The exit code of the container is all that Kubernetes sees. A pipe ends as its last command does, a script as its
    last line: behind `| tee log`, `|| true` or `; echo done` a failed run counts as complete. Nothing restarts it, no
    alert fires, and what waits for the job goes on with a model that is not there.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, command: [bash, -c, torchrun -m trainer 2>&1 | tee /checkpoints/log], args: null}
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, set -o pipefail; torchrun -m trainer 2>&1 | tee /checkpoints/log]
                args: null
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, "torchrun -m trainer | tee /checkpoints/log; exit ${PIPESTATUS[0]}"]
                args: null

    Source: https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
    """
    yield from _told(workload, certain=True)


@rule("RST009", "failure-left-to-another", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def failure_left_to_another(workload: Workload) -> Iterator[Problem]:
    """The script around a launcher ends with the exit code of another program, which may succeed after a failed run.

    Nothing is known of that program. Where it fails without the files that the training should have left, the job fails
    too; where it takes those of an earlier checkpoint, a failed run counts as complete.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, torchrun -m trainer; aws s3 sync /checkpoints s3://runs]
                args: null
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, torchrun -m trainer && aws s3 sync /checkpoints s3://runs]
                args: null
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, "torchrun -m trainer; code=$?; aws s3 sync /checkpoints s3://runs; exit $code"]
                args: null

    Source: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html
    """
    yield from _told(workload, certain=False)


def _told(workload: Workload, *, certain: bool) -> Iterator[Problem]:
    for pod_set, container in _trainers(workload):
        launch = container.launch
        found = launch.hidden if launch is not None and _counts(workload, pod_set, container) else None
        if launch is None or found is None or found.certain != certain:
            continue
        if launch.launcher == "python" and found.followed:
            continue  # which of the programs trains is not known
        how = _HOW[found.way].format(by=found.by, launcher=launch.launcher)
        counts = "counts as a success" if certain else "may count as a success"
        yield Problem(
            f"a failed {_name(launch.launcher)} {counts}: {how}",
            launch.spot.saying("its exit code does not reach Kubernetes"),
            (),
            _help(found),
            _fix(found, container),
        )


def _trainers(workload: Workload) -> Iterator[tuple[PodSet, Container]]:
    """The containers that train, as far as the manifest shows: with a launcher, or with a GPU."""
    for pod_set in workload.pod_sets:
        main = pod_set.main()
        if main is None or main.launch is None or main.by_controller:
            continue
        if main.launch.launcher != "python" or main.gpus or workload.in_job_folder:
            yield pod_set, main


def _counts(workload: Workload, pod_set: PodSet, container: Container) -> bool:
    """Whether a container's exit code decides what becomes of its job."""
    policy = pod_set.spec.get("restartPolicy")
    if container.launch is not None and container.launch.launcher == RAY:
        return True
    return policy in _ENDING or (policy is None and workload.object.kind not in PLAIN)


_HOW = {
    "pipe": "a pipe ends as its last command does, here `{by}`",
    "or": "`|| {by}` takes its place",
    "after": "the script ends as `{by}` does",
    "exit": "the script ends with `{by}`",
    "background": "the script ends without waiting for what it started in the background (`&`)",
    "wait": "`wait` without a process id ends with 0",
    "condition": "it stands in the condition of `if`, `while` or `until`, which only decides what runs next",
    "not": "`!` turns its failure into 0",
    "trap": "the trap on EXIT ends with `{by}`",
}


def _name(launcher: str) -> str:
    return "entrypoint" if launcher == RAY else launcher


def _help(found: HiddenFailure) -> str:
    if found.mended_by:
        return f"begin the script with `{found.mended_by}`"
    if found.way == "pipe":
        return "run the script with bash and begin it with `set -o pipefail`: sh knows it in some images alone"
    return _INSTEAD.get(found.way, "keep its exit code (`code=$?`) and end the script with `exit $code`").format(
        by=found.by
    )


_INSTEAD = {
    "or": "leave `|| {by}` out, or end what follows `||` with `exit 1`",
    "background": "keep its process id (`$!`) and end the script with `wait` for that id",
    "wait": "keep its process id (`$!`) and end the script with `wait` for that id",
    "condition": "let the branch that runs when it fails end with `exit 1`",
    "trap": "keep its exit code first in the trap (`code=$?`) and end it with `exit $code`",
}


def _fix(found: HiddenFailure, container: Container) -> Remedy | None:
    launch = container.launch
    if launch is None or not found.mended_by or launch.launcher == RAY:
        return None
    return begin(launch.spot, found.mended_by).unsafe()
