"""Where a job tells Kueue of its queue: QUE001 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put, remove
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import pairs
from trainyard.rules.queues.kueue import FRAMEWORKS, PRIORITY, QUEUE, frameworks, is_queued, pod_metadata, settings
from trainyard.rules.registry import Problem, rule
from trainyard.workload.adapters import PLAIN, adapter
from trainyard.workload.model import Workload
from trainyard.workload.plain import digits

_MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"


@rule("QUE001", "queue-label-misplaced", Severity.WARNING, needs=Workload, fix="safe")
@once
def queue_label_misplaced(workload: Workload) -> Iterator[Problem]:
    """A job names its queue where Kueue does not look.

    Kueue reads the labels of the job itself. On its pods, or as an annotation, the name changes nothing: the job starts
    at once, past every quota, or each pod is queued alone.

    Bad:
        kind: Job
        spec: {template: {metadata: {labels: {kueue.x-k8s.io/queue-name: research}}}}
    Good:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
    Near miss:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        spec: {template: {metadata: {labels: {kueue.x-k8s.io/queue-name: research}}}}

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
    """
    item = workload.object
    for key in (QUEUE, PRIORITY):
        if key in pairs(item.at("metadata", "labels")):
            continue
        places = [item.at("metadata", "annotations")]
        places += [spot.below(field) for spot in pod_metadata(workload) for field in ("labels", "annotations")]
        for spot in places:
            if key in pairs(spot):
                yield Problem(
                    f"{key} is read on the labels of the {item.kind} alone, and is not there",
                    spot.below(key),
                    help=f"move it to metadata.labels of the {item.kind}",
                    fix=remove(spot.below(key)) & put(item.at("metadata", "labels", key), pairs(spot)[key]),
                )


@rule("QUE002", "kind-not-queued", Severity.WARNING, needs=Unit)
def kind_not_queued(unit: Unit) -> Iterator[Problem]:
    """A job names a queue of Kueue, which does not manage jobs of its kind.

    The label changes nothing then: the job starts at once, past every quota. Kueue knows kubeflow.org/v2beta1 MPIJobs
    and no jobs of Volcano, and it manages the kinds that its settings name. Since 0.19 those of the training operator
    are off unless named.

    Bad:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: kueue-manager-config, namespace: kueue-system}
        data:
          controller_manager_config.yaml: |
            apiVersion: config.kueue.x-k8s.io/v1beta2
            kind: Configuration
            integrations: {frameworks: [ray.io/rayjob]}
    Good:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: kueue-manager-config, namespace: kueue-system}
        data:
          controller_manager_config.yaml: |
            apiVersion: config.kueue.x-k8s.io/v1beta2
            kind: Configuration
            integrations: {frameworks: [batch/job]}
    Near miss:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: kueue-manager-config, namespace: kueue-system}
        data:
          controller_manager_config.yaml: |
            apiVersion: config.kueue.x-k8s.io/v1beta2
            kind: Configuration

    Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/
    """
    named = [(frameworks(parsed), spot) for parsed, spot in settings((*unit.objects, *(unit.platform or ())))]
    for item in unit.objects:
        known = FRAMEWORKS.get(f"{item.api_version}/{item.kind}")
        if not is_queued(item) or (_is_foreign(item) and known is None):
            continue
        spot = item.at("metadata", "labels", QUEUE)
        if known is None:
            help = "use a kind that Kueue manages" if item.kind != "MPIJob" else "use kubeflow.org/v2beta1"
            yield Problem(f"Kueue does not know the {item.kind} of {item.api_version}", spot, help=help)
        for listed, where in named:
            if known is not None and listed and known not in listed:
                related = (where.saying("integrations.frameworks"),)
                help = f"add {known} to integrations.frameworks"
                yield Problem(f"Kueue manages no {item.kind}s: its settings leave {known} out", spot, related, help)


@rule("QUE003", "run-time-refused", Severity.ERROR, needs=Object)
def run_time_refused(item: Object) -> Iterator[Problem]:
    """The longest run time of a queued job is not a number of seconds above zero.

    Kueue refuses the job.

    Bad:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research, kueue.x-k8s.io/max-exec-time-seconds: 12h}}
    Good:
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/queue-name: research, kueue.x-k8s.io/max-exec-time-seconds: "43200"}}
    Near miss:
        kind: Job
        metadata: {annotations: {kueue.x-k8s.io/max-exec-time-seconds: 12h}}

    Source: https://kueue.sigs.k8s.io/docs/concepts/workload/#maximum-execution-time
    """
    labels = item.at("metadata", "labels")
    seconds = pairs(labels).get(_MAX_SECONDS)
    if seconds is not None and not digits(seconds):
        help = "write the number of seconds, above 0"
        yield Problem(f"{seconds} is not a number of seconds", labels.below(_MAX_SECONDS), help=help)


def _is_foreign(item: Object) -> bool:
    """Whether nothing is known of what Kueue makes of a kind: no training job, or one of pods that it counts alone."""
    return (adapter(item) is None and item.kind != "MPIJob") or item.kind in PLAIN
