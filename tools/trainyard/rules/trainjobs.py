"""What Kubeflow Trainer refuses of a TrainJob and of its runtime: TRJ001 and up."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.counts import is_gpu, number, whole
from trainyard.rules.common.jobspecs import jobset_spec
from trainyard.rules.common.parts import either, integer, items, part, word
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import text
from trainyard.workload.trainer_runtime import ANCESTOR, NODE, TRAINER, is_runtime
from trainyard.workload.trainjob import runtime

_CONTAINERS = {TRAINER: NODE, "dataset-initializer": "dataset-initializer", "model-initializer": "model-initializer"}
_INITIALIZERS = (("dataset", "dataset-initializer"), ("model", "model-initializer"))
_MANAGER = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    r"/[A-Za-z0-9/_.~%!$&'()*+,;=:-]+\Z"
)


@rule("TRJ001", "runtime-refused", Severity.ERROR, needs=Object)
def runtime_refused(item: Object) -> Iterator[Problem]:
    """A runtime of TrainJobs has not the shape that Trainer needs.

    Trainer fills in the replicatedJobs that carry a step of a TrainJob as label: one Job each, with a container named
    node for the trainer, and after the step for an initializer. It refuses a runtime without.

    Bad:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template:
                  metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
                  spec: {template: {spec: {containers: [{name: trainer}]}}}
    Good:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template:
                  metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
                  spec: {template: {spec: {containers: [{name: node}]}}}
    Near miss:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          template:
            spec: {replicatedJobs: [{name: log, template: {spec: {template: {spec: {containers: [{name: log}]}}}}}]}

    Source: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/webhooks/trainingruntime_webhook.go
    """
    spec = jobset_spec(item)
    for job, data in items(spec.below("replicatedJobs")) if spec is not None and is_runtime(item) else ():
        needed = _CONTAINERS.get(text(part(job.below("template", "metadata", "labels")).get(ANCESTOR)))
        if needed is None:
            continue
        if (integer(job.below("replicas")) or 1) != 1:
            yield Problem(f"{text(data.get('name'))} must be one Job", job.below("replicas"), help="set replicas: 1")
        containers = job.below("template", "spec", "template", "spec", "containers")
        names = [text(each.get("name")) for _, each in items(containers)]
        if names and needed not in names:
            spot = containers.below(0, "name") if len(names) == 1 else containers
            yield Problem(f"no container is named {needed}, which Trainer fills in", spot, help=f"name one {needed}")


@rule("TRJ002", "runtime-patch-refused", Severity.ERROR, needs=Workload)
def runtime_patch_refused(workload: Workload) -> Iterator[Problem]:
    """A patch of a TrainJob does not fit its runtime.

    Trainer takes patches of Jobs and containers that the runtime has, under a manager such as `example.com/team`.
    Variables of the node and of the initializers are not patched: they belong in `spec.trainer.env`.

    Bad:
        # on: trainjob
        spec: {runtimePatches: [{manager: research}]}
    Good:
        # on: trainjob
        spec: {runtimePatches: [{manager: example.com/research}]}
    Near miss:
        # on: trainjob
        spec:
          runtimePatches:
          - manager: example.com/research
            trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node}]}}}

    Source: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/jobset.go
    """
    job = workload.object
    if job.kind != "TrainJob":
        return
    template = runtime(job, workload.objects)
    known = None if template is None else _jobs(template)
    for patch, _ in items(job.at("spec", "runtimePatches")):
        manager = word(patch.below("manager"))
        if manager and not _MANAGER.match(manager):
            help = "write it like example.com/team"
            yield Problem(f"manager {manager} has no domain before a slash", patch.below("manager"), help=help)
        for spot, _ in items(patch.below("trainingRuntimeSpec", "template", "spec", "replicatedJobs")):
            for where, said, help in _misfits(spot, known):
                yield Problem(said, where, help=help)


@rule("TRJ003", "initializer-missing", Severity.ERROR, needs=Workload)
def initializer_missing(workload: Workload) -> Iterator[Problem]:
    """A TrainJob loads its data or its model by an initializer that its runtime does not have.

    Trainer refuses it: the runtime needs a replicatedJob dataset-initializer or model-initializer with a container of
    that name, which mounts a volume named initializer.

    Bad:
        # on: trainjob
        spec: {initializer: {dataset: {storageUri: "hf://org/data"}}}
    Bad:
        # on: trainjob
        spec: {initializer: {model: {}}}
    Good:
        # on: trainjob
        spec: {initializer: {dataset: {storageUri: "hf://org/data"}}}
        ---
        kind: ClusterTrainingRuntime
        spec:
          template:
            spec:
              replicatedJobs:
              - name: dataset-initializer
                template:
                  spec:
                    template:
                      spec: {containers: [{name: dataset-initializer, volumeMounts: [{name: initializer}]}]}
    Near miss:
        # on: trainjob
        spec: {initializer: null}

    Source: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/jobset.go
    """
    job = workload.object
    template = runtime(job, workload.objects) if job.kind == "TrainJob" else None
    for field, step in _INITIALIZERS if template is not None else ():
        spot = job.at("spec", "initializer", field)
        if template is not None and value_at(spot) is not None and step not in _initializers(template, job):
            yield Problem(
                f"runtime {template.name} has no {step} that mounts a volume named initializer",
                spot,
                (template.at("spec", "template", "spec", "replicatedJobs"),),
                "use a runtime with initializers, or load it in the trainer",
            )


@rule("TRJ004", "gang-of-those-who-wait", Severity.ERROR, needs=Object)
def gang_of_those_who_wait(item: Object) -> Iterator[Problem]:
    """A gang counts pods that are made only when others of it have ended.

    Trainer makes one gang of all pods of a TrainJob, initializers included. Where the nodes depend on the initializers,
    the scheduler waits for nodes that are not there yet, places no initializer, and the job never starts.

    Bad:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 300}}
          template:
            spec:
              replicatedJobs:
              - {name: dataset-initializer}
              - {name: node, dependsOn: [{name: dataset-initializer, status: Complete}]}
    Good:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 300}}
          template: {spec: {replicatedJobs: [{name: node}]}}
    Near miss:
        # whole
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          template:
            spec:
              replicatedJobs:
              - {name: dataset-initializer}
              - {name: node, dependsOn: [{name: dataset-initializer, status: Complete}]}

    Source: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/coscheduling/coscheduling.go
    """
    spec = jobset_spec(item)
    gang = item.at("spec", "podGroupPolicy")
    if spec is None or not is_runtime(item) or not part(gang):
        return
    for job, data in items(spec.below("replicatedJobs")):
        for waits, before in items(job.below("dependsOn")):
            yield Problem(
                f"the gang counts {text(data.get('name'))}, which is made when {text(before.get('name'))} has run",
                waits,
                (gang.saying("counts all pods of a TrainJob"),),
                "leave podGroupPolicy out, or load data before the TrainJob",
            )


def _misfits(spot: Spot, known: dict[str, set[str]] | None) -> Iterator[tuple[Spot, str, str]]:
    name = word(spot.below("name"))
    if known is not None and name not in known:
        yield (
            spot.below("name"),
            f"the runtime has no replicatedJob {name}",
            f"patch {either(sorted(known) or ['none'])}",
        )
        return
    pod = spot.below("template", "spec", "template", "spec")
    for field in ("containers", "initContainers"):
        for container, data in items(pod.below(field)):
            own = text(data.get("name"))
            if known is not None and own not in known[name]:
                help = f"patch {either(sorted(known[name]) or ['none'])}"
                yield container.below("name"), f"replicatedJob {name} of the runtime has no container {own}", help
            elif field == "containers" and data.get("env") and own in _CONTAINERS.values():
                help = "set them in spec.trainer.env, or in the env of the initializer"
                yield container.below("env"), f"variables of container {own} may not be patched", help


def _jobs(template: Object) -> dict[str, set[str]]:
    """The containers of each replicatedJob of a runtime."""
    found: dict[str, set[str]] = {}
    for job, data in items(template.at("spec", "template", "spec", "replicatedJobs")):
        pod = job.below("template", "spec", "template", "spec")
        names = {
            text(each.get("name")) for key in ("containers", "initContainers") for _, each in items(pod.below(key))
        }
        found[text(data.get("name"))] = names
    return found


def _initializers(template: Object, train_job: Object) -> set[str]:
    """The initializers of a runtime, as a TrainJob patches it, that Trainer would take."""
    patches = (patch for patch, _ in items(train_job.at("spec", "runtimePatches")))
    specs = [patch.below("trainingRuntimeSpec", "template", "spec") for patch in patches]
    found = set()
    for spec in (template.at("spec", "template", "spec"), *specs):
        for job, data in items(spec.below("replicatedJobs")):
            for container, own in items(job.below("template", "spec", "template", "spec", "containers")):
                mounts = {text(mount.get("name")) for _, mount in items(container.below("volumeMounts"))}
                if own.get("name") == data.get("name") and "initializer" in mounts:
                    found.add(text(own.get("name")))
    return found


@rule("TRJ005", "more-processes-than-gpus", Severity.ERROR, needs=Workload)
def more_processes_than_gpus(workload: Workload) -> Iterator[Problem]:
    """A TrainJob asks for more processes on a node than GPUs for the node, whatever its runtime says.

    Each process takes the GPU of its local rank. Those past the last GPU stop with "invalid device ordinal". Where the
    runtime is among the manifests, RDV002 compares the pods that come of both.

    Bad:
        # on: trainjob
        spec:
          runtimeRef: {name: torch}
          trainer: {numProcPerNode: 8, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}
    Good:
        # on: trainjob
        spec:
          runtimeRef: {name: torch}
          trainer: {numProcPerNode: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}
    Near miss:
        # on: trainjob
        spec: {runtimeRef: {name: torch}, trainer: {numProcPerNode: 8, resourcesPerNode: {limits: {cpu: "16"}}}}

    Source: https://www.kubeflow.org/docs/components/trainer/user-guides/pytorch/
    """
    if workload.object.kind != "TrainJob" or workload.pod_sets:
        return
    trainer = workload.object.at("spec", "trainer")
    limits = trainer.below("resourcesPerNode", "limits")
    asked = whole(part(trainer).get("numProcPerNode"))
    for name, amount in part(limits).items():
        gpus = whole(amount) if isinstance(name, str) and is_gpu(name) else None
        if asked is not None and gpus and asked > gpus:
            yield Problem(
                f"{number(asked, 'rank')} start on a node, but the node gets {number(gpus, 'GPU')}",
                trainer.below("numProcPerNode"),
                (limits.below(name).saying("GPUs of one node"),),
                f"set numProcPerNode to {gpus}, or ask for more GPUs",
            )
