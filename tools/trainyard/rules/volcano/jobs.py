"""What Volcano refuses of its jobs: VOL001 and up."""

from collections import Counter
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put, remove
from trainyard.rules.common.parts import either, integer, items, part, word
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import sequence, text

_PLUGINS = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
_DEFAULT_QUEUE = "default"


@rule("VOL001", "task-gang-too-large", Severity.ERROR, needs=Object, fix="safe")
def task_gang_too_large(item: Object) -> Iterator[Problem]:
    """A task of a Volcano job asks for more pods than it makes, or its partitions do not add up.

    `minAvailable` of a task is a part of its replicas, and a task in partitions has exactly as many pods as they hold.
    Volcano refuses the job.

    Bad:
        # on: volcano
        spec: {tasks: [{name: worker, replicas: 4, minAvailable: 8}]}
    Good:
        # on: volcano
        spec: {tasks: [{name: worker, replicas: 4, minAvailable: 4}]}
    Near miss:
        # on: volcano
        spec: {tasks: [{name: worker, replicas: 4, partitionPolicy: {totalPartitions: 2, partitionSize: 2}}]}

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/webhooks/admission/jobs/validate/admit_job.go
    """
    for spot, data in items(item.at("spec", "tasks")) if item.group == "batch.volcano.sh" else ():
        pods = 1 if data.get("replicas") is None else integer(spot.below("replicas"))
        least, policy = integer(spot.below("minAvailable")), spot.below("partitionPolicy")
        if pods is None:
            continue
        if least is not None and least > pods:
            said = f"task {text(data.get('name'))} waits for {least} pods, but has {pods}"
            where = spot.below("minAvailable")
            yield Problem(said, where, help=f"set it to at most {pods}", fix=put(where, pods))
        number, size = integer(policy.below("totalPartitions")), integer(policy.below("partitionSize"))
        if number is not None and size is not None and number * size != pods:
            said = f"{number} partitions of {size} are {number * size} pods, but the task has {pods}"
            yield Problem(said, policy, help="make replicas the product of both")


@rule("VOL002", "plugin-refused", Severity.ERROR, needs=Object)
def plugin_refused(item: Object) -> Iterator[Problem]:
    """A Volcano job names a plugin or a task that is not there.

    Volcano refuses a plugin that it does not know, and the plugin mpi without its master task, which is called master
    unless an argument says otherwise. Two tasks of one name are refused too.

    Bad:
        # on: volcano
        spec: {plugins: {mpi: []}, tasks: [{name: launcher, replicas: 1}]}
    Good:
        # on: volcano
        spec: {plugins: {mpi: [--master=launcher]}, tasks: [{name: launcher, replicas: 1}]}
    Near miss:
        # on: volcano
        spec: {plugins: {ssh: []}, tasks: [{name: launcher, replicas: 1}]}

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/webhooks/admission/jobs/validate/admit_job.go
    """
    if (item.group, item.kind) != ("batch.volcano.sh", "Job"):
        return
    plugins = item.at("spec", "plugins")
    for name in part(plugins):
        if isinstance(name, str) and name not in _PLUGINS:
            yield Problem(f"Volcano has no plugin {name}", plugins.below(name), help=f"use {either(_PLUGINS)}")
    tasks = [(spot.below("name"), text(data.get("name"))) for spot, data in items(item.at("spec", "tasks"))]
    counted = Counter(name for _, name in tasks if name)
    for spot, name in tasks:
        if counted[name] > 1:
            yield Problem(f"{counted[name]} tasks are called {name}", spot, help="give each its own name")
            break
    master = _argument(part(plugins).get("mpi"), "master")
    if "mpi" in part(plugins) and master is not None and tasks and master not in counted:
        help = f"add --master={tasks[0][1]} to its arguments, or rename the task"
        yield Problem(
            f"the plugin mpi starts ranks from a task {master}, and there is none", plugins.below("mpi"), help=help
        )


@rule("VOL003", "volcano-queue-missing", Severity.ERROR, needs=Workload)
def volcano_queue_missing(workload: Workload) -> Iterator[Problem]:
    """A Volcano job goes to a queue that takes no jobs.

    Jobs are taken by queues that exist, are open, and have no queues below them. Volcano refuses others.

    Bad:
        # on: volcano
        spec: {queue: reserach}
        ---
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: Queue
        metadata: {name: research}
    Good:
        # on: volcano
        spec: {queue: research}
        ---
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: Queue
        metadata: {name: research}
    Near miss:
        # on: volcano
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: Queue
        metadata: {name: research}

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/webhooks/admission/jobs/validate/admit_job.go
    """
    spot = workload.object.at("spec", "queue")
    queues = [queue for queue in workload.of_cluster("Queue") if queue.group == "scheduling.volcano.sh"]
    name = word(spot)
    if workload.object.group != "batch.volcano.sh" or not name or not (queues or name == "root"):
        return
    below = [queue for queue in queues if word(queue.at("spec", "parent")) == name]
    if name == "root":
        yield Problem("queue root takes no jobs", spot, help="use a queue below it")
    elif below:
        related = tuple(queue.at("spec", "parent") for queue in below)
        yield Problem(f"queue {name} has queues below it, and takes no jobs", spot, related, f"use {below[0].name}")
    elif name != _DEFAULT_QUEUE and name not in {queue.name for queue in queues}:
        help = f"use {either(sorted(queue.name for queue in queues))}"
        yield Problem(f"there is no queue {name}", spot, help=help)


@rule("VOL004", "topology-said-twice", Severity.ERROR, needs=Object, fix="unsafe")
def topology_said_twice(item: Object) -> Iterator[Problem]:
    """A Volcano job says twice how far its pods may be apart.

    The highest tier is given by number or by name. Volcano refuses both together.

    Bad:
        # on: volcano
        spec: {networkTopology: {mode: hard, highestTierAllowed: 2, highestTierName: rack}}
    Good:
        # on: volcano
        spec: {networkTopology: {mode: hard, highestTierAllowed: 2}}
    Near miss:
        # on: volcano
        spec: {networkTopology: {mode: soft, highestTierName: rack}}

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/webhooks/admission/jobs/validate/admit_job.go
    """
    if item.group not in ("batch.volcano.sh", "scheduling.volcano.sh"):
        return
    tasks = (spot.below("partitionPolicy", "networkTopology") for spot, _ in items(item.at("spec", "tasks")))
    for spot in (item.at("spec", "networkTopology"), *tasks):
        if value_at(spot.below("highestTierAllowed")) is not None and word(spot.below("highestTierName")):
            related = (spot.below("highestTierAllowed").saying("says it too"),)
            help = "leave one of them out"
            yield Problem(
                "the highest tier is given by number and by name",
                spot.below("highestTierName"),
                related,
                help,
                remove(spot.below("highestTierName")).unsafe(),
            )


def _argument(given: object, name: str) -> str | None:
    """The value of a plugin's argument, by default the argument's own name; None where it is not clear."""
    for item in sequence(given):
        option, joined, value = str(item).lstrip("-").partition("=")
        if option == name:
            return value if joined else None
    return name
