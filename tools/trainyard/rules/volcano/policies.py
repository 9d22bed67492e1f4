"""What Volcano does when pods fail or complete: VOL005 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.parts import either, integer, items, word, words
from trainyard.rules.common.places import value_at
from trainyard.rules.registry import Problem, rule

_EVENTS = (
    "*",
    "JobUpdated",
    "PodEvicted",
    "PodFailed",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "Unknown",
)
_ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


@rule("VOL005", "lifecycle-policy-refused", Severity.ERROR, needs=Object)
def lifecycle_policy_refused(item: Object) -> Iterator[Problem]:
    """A policy of a Volcano job names an event or an action that there is not, or looks at two things at once.

    Each policy reacts to events or to an exit code, no event stands in two policies of a list, `*` stands alone, and 0
    is no failure. Volcano refuses the job.

    Bad:
        # on: volcano
        spec: {policies: [{event: PodFailed, exitCode: 137, action: RestartJob}]}
    Good:
        # on: volcano
        spec: {policies: [{event: PodFailed, action: RestartJob}, {event: TaskCompleted, action: CompleteJob}]}
    Near miss:
        # on: volcano
        spec:
          policies: [{event: PodFailed, action: RestartJob}]
          tasks: [{name: worker, policies: [{event: PodFailed, action: RestartTask}]}]

    Source: https://github.com/volcano-sh/volcano/blob/v1.15.1/pkg/webhooks/admission/jobs/validate/util.go
    """
    if (item.group, item.kind) != ("batch.volcano.sh", "Job"):
        return
    tasks = (spot.below("policies") for spot, _ in items(item.at("spec", "tasks")))
    for policies in (item.at("spec", "policies"), *tasks):
        seen: dict[str, Spot] = {}
        for policy, _ in items(policies):
            yield from _refused(policy)
            for spot, event in _events(policy):
                if event in seen or "*" in seen or (event == "*" and seen):
                    first = next(iter(seen.values()))
                    said = f"{event} is met by another policy already"
                    yield Problem(said, spot, (seen.get(event, first),), "join them into one policy")
                    return
                seen[event] = spot


@rule("VOL006", "task-never-completes", Severity.ERROR, needs=Object)
def task_never_completes(item: Object) -> Iterator[Problem]:
    """A Volcano job waits for a task to complete whose pods are started again for ever.

    With restartPolicy Always the kubelet also restarts a container that ended with success, so the pod never
    succeeds and TaskCompleted never comes: the training begins anew, and the job keeps its GPUs.

    Bad:
        # on: volcano
        spec:
          tasks:
          - name: worker
            policies: [{event: TaskCompleted, action: CompleteJob}]
            template: {spec: {restartPolicy: Always}}
    Good:
        # on: volcano
        spec:
          tasks:
          - name: worker
            policies: [{event: TaskCompleted, action: CompleteJob}]
            template: {spec: {restartPolicy: OnFailure}}
    Near miss:
        # on: volcano
        spec:
          minAvailable: 5
          tasks:
          - name: worker
            policies: [{event: TaskCompleted, action: CompleteJob}]
            template: {spec: {restartPolicy: OnFailure}}
          - {name: parameters, template: {spec: {restartPolicy: Always, containers: [{name: server}]}}}

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
    """
    if item.group != "batch.volcano.sh" or item.kind != "Job":
        return
    for task, _ in items(item.at("spec", "tasks")):
        policy = task.below("template", "spec", "restartPolicy")
        waits = [
            event
            for spot, _ in items(task.below("policies"))
            for event in (spot.below("event"), *(each for each, _ in words(spot.below("events"))))
            if value_at(event) == "TaskCompleted"
        ]
        if waits and word(policy) == "Always":
            yield Problem(
                "the job waits for TaskCompleted, but restartPolicy Always starts its containers again for ever",
                policy.saying("never succeeds"),
                (waits[0].saying("never comes"),),
                "set restartPolicy: OnFailure",
            )


def _refused(policy: Spot) -> Iterator[Problem]:
    code, events = policy.below("exitCode"), list(_events(policy))
    if bool(events) == (value_at(code) is not None):
        said = "a policy reacts to events or to an exit code, and to one of them"
        yield Problem(said, policy, help="make two policies of it")
    elif integer(code) == 0:
        yield Problem("exit code 0 is no failure", code, help="use another code")
    for spot, event in events:
        if event not in _EVENTS:
            yield Problem(f"{event} is not an event of a policy", spot, help=f"use {either(_EVENTS)}")
    action = word(policy.below("action"))
    if events and action not in _ACTIONS:
        said = f"{action or 'nothing'} is not an action of a policy"
        yield Problem(said, policy.below("action"), help=f"use {either(_ACTIONS)}")


def _events(policy: Spot) -> Iterator[tuple[Spot, str]]:
    single = policy.below("event")
    if word(single):
        yield single, word(single)
    yield from words(policy.below("events"))
