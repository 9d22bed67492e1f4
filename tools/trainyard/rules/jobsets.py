"""What JobSet refuses: JBS001 and up."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.jobspecs import jobset_spec
from trainyard.rules.common.parts import either, integer, items, part, word, words
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import text

_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_BEHIND_GATES = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z")


@rule("JBS001", "replicated-job-unknown", Severity.ERROR, needs=Object, fix="safe")
def replicated_job_unknown(item: Object) -> Iterator[Problem]:
    """A policy of a JobSet names a replicatedJob that it does not have.

    The JobSet is refused. Success and failure policies, the coordinator and dependsOn all go by these names.

    Bad:
        # on: jobset
        spec: {successPolicy: {operator: All, targetReplicatedJobs: [leader]}, replicatedJobs: [{name: driver}]}
    Bad:
        # on: jobset
        spec: {successPolicy: {operator: All, targetReplicatedJobs: [nodes]}, replicatedJobs: [{name: driver}]}
    Good:
        # on: jobset
        spec: {successPolicy: {operator: All, targetReplicatedJobs: [driver]}, replicatedJobs: [{name: driver}]}
    Near miss:
        # on: jobset
        spec:
          failurePolicy: {maxRestarts: 2, rules: [{action: FailJobSet, targetReplicatedJobs: []}]}
          replicatedJobs: [{name: driver}]

    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/webhooks/jobset_webhook.go
    """
    spec = jobset_spec(item)
    names = set() if spec is None else {text(data.get("name")) for _, data in items(spec.below("replicatedJobs"))}
    for spot, name in _named(spec) if spec is not None and names else ():
        if name not in names:
            near = get_close_matches(name, sorted(names), 1, 0.7)
            fix = put(spot, near[0]).saying(f"name {near[0]}") if near else None
            yield Problem(f"the JobSet has no replicatedJob {name}", spot, (), f"name {either(sorted(names))}", fix)


@rule("JBS002", "start-order-refused", Severity.ERROR, needs=Object)
def start_order_refused(item: Object) -> Iterator[Problem]:
    """A JobSet cannot start its Jobs in the order that dependsOn asks for.

    A replicatedJob may wait for those that are listed before it, so the first waits for none.

    Bad:
        # on: jobset
        spec: {replicatedJobs: [{name: node, dependsOn: [{name: data, status: Complete}]}, {name: data}]}
    Good:
        # on: jobset
        spec: {replicatedJobs: {$replace: [{name: data}, {name: node, dependsOn: [{name: data, status: Complete}]}]}}
    Near miss:
        # on: jobset
        spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: {$replace: [{name: data}, {name: node}]}}

    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/webhooks/jobset_webhook.go
    """
    spec = jobset_spec(item)
    if spec is None:
        return
    jobs = [(spot, text(data.get("name"))) for spot, data in items(spec.below("replicatedJobs"))]
    for index, (job, _) in enumerate(jobs):
        before, after = {name for _, name in jobs[:index]}, {name for _, name in jobs[index:]}
        for spot, data in items(job.below("dependsOn")):
            name = text(data.get("name"))
            if name in after and name not in before:
                help = f"list {name} before it"
                yield Problem(f"dependsOn names {name}, which is not listed before it", spot.below("name"), help=help)


@rule("JBS003", "failure-rule-refused", Severity.ERROR, needs=Object, fix="unsafe")
def failure_rule_refused(item: Object) -> Iterator[Problem]:
    """A rule of a JobSet's failurePolicy is refused.

    Names of rules are unique words, and reasons are those of a failed Job. Restarting one Job alone, or in place, is
    behind feature gates that are off: with them off the JobSet is not taken.

    Bad:
        # on: jobset
        spec: {failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [OOMKilled]}]}}
    Bad:
        # on: jobset
        spec: {failurePolicy: {restartStrategy: InPlaceRestart}}
    Good:
        # on: jobset
        spec: {failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}]}}
    Near miss:
        # on: jobset
        spec:
          failurePolicy:
            restartStrategy: BlockingRecreate
            rules: [{action: RestartJobSetAndIgnoreMaxRestarts, name: host_maintenance}, {action: FailJobSet}]

    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/webhooks/jobset_webhook.go
    """
    spec = jobset_spec(item)
    if spec is None:
        return
    strategy = spec.below("failurePolicy", "restartStrategy")
    if word(strategy) == "InPlaceRestart":
        yield Problem(
            "InPlaceRestart is behind a feature gate that is off by default",
            strategy,
            (),
            "use Recreate",
            put(strategy, "Recreate").unsafe(),
        )
    seen: set[str] = set()
    for spot, data in items(spec.below("failurePolicy", "rules")):
        name, action = text(data.get("name")), text(data.get("action"))
        if name and (name in seen or not _RULE_NAME.match(name)):
            said = "stands twice" if name in seen else "has a character that no name of a rule may have"
            yield Problem(f"rule name {name} {said}", spot.below("name"), help="use letters, digits and underscores")
        seen.add(name)
        if action in _BEHIND_GATES:
            help = "use RestartJobSet"
            fix = put(spot.below("action"), "RestartJobSet").unsafe()
            yield Problem(
                f"{action} is behind a feature gate that is off by default", spot.below("action"), (), help, fix
            )
        for where, reason in words(spot.below("onJobFailureReasons")):
            if reason not in _REASONS:
                yield Problem(f"no Job fails for the reason {reason}", where, help=f"use {either(_REASONS)}")


@rule("JBS004", "coordinator-refused", Severity.ERROR, needs=Object)
def coordinator_refused(item: Object) -> Iterator[Problem]:
    """The coordinator of a JobSet is a pod that it does not have.

    Its Job and its pod are given by indices that count from 0, and its Job is Indexed and says its completions.

    Bad:
        # on: jobset
        spec: {coordinator: {replicatedJob: node, jobIndex: 0, podIndex: 4}}
    Good:
        # on: jobset
        spec: {coordinator: {replicatedJob: node, jobIndex: 0, podIndex: 0}}
    Near miss:
        # on: jobset
        spec: {coordinator: {replicatedJob: node}, replicatedJobs: [{name: node, replicas: 2}]}

    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/webhooks/jobset_webhook.go
    """
    spec = jobset_spec(item)
    coordinator = None if spec is None else spec.below("coordinator")
    if spec is None or coordinator is None or not part(coordinator):
        return
    for job, data in items(spec.below("replicatedJobs")):
        if not data.get("name") or data.get("name") != part(coordinator).get("replicatedJob"):
            continue
        jobs = integer(job.below("replicas"))
        pods = integer(job.below("template", "spec", "completions"))
        if pods is None:
            yield Problem("the coordinator's Job must say its completions", coordinator, help="set completions")
        for field, count in (("jobIndex", 1 if jobs is None else jobs), ("podIndex", pods)):
            index = integer(coordinator.below(field)) or 0
            if count is not None and not 0 <= index < count:
                help = f"use an index from 0 to {count - 1}"
                yield Problem(f"{field} {index} does not exist: there are {count}", coordinator.below(field), help=help)


@rule("JBS005", "claim-template-unmounted", Severity.ERROR, needs=Object)
def claim_template_unmounted(item: Object) -> Iterator[Problem]:
    """A claim that a JobSet makes is mounted nowhere, or its name is that of another volume.

    JobSet adds a volume for each template of volumeClaimPolicies to the pods that mount its name. It refuses a template
    that nobody mounts, and one whose name a pod uses for a volume of its own.

    Bad:
        # on: jobset
        spec:
          volumeClaimPolicies: [{templates: [{metadata: {name: scratch}}]}]
    Good:
        # on: jobset
        spec:
          volumeClaimPolicies: [{templates: [{metadata: {name: scratch}}]}]
          replicatedJobs:
          - name: node
            template: {spec: {template: {spec: {containers: [{name: node, volumeMounts: [{name: scratch}]}]}}}}
    Near miss:
        # on: jobset
        spec:
          volumeClaimPolicies: [{templates: [{metadata: {name: scratch}}]}]
          replicatedJobs:
          - name: node
            template: {spec: {template: {spec: {initContainers: [{name: pull, volumeMounts: [{name: scratch}]}]}}}}

    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/webhooks/jobset_webhook.go
    """
    spec = jobset_spec(item)
    if spec is None:
        return
    pods = [job.below("template", "spec", "template", "spec") for job, _ in items(spec.below("replicatedJobs"))]
    own = {text(data.get("name")): spot for pod in pods for spot, data in items(pod.below("volumes"))}
    mounted = {text(mount.get("name")) for pod in pods for mount in _mounts(pod)}
    for policy, _ in items(spec.below("volumeClaimPolicies")):
        for template, _ in items(policy.below("templates")):
            name, spot = word(template.below("metadata", "name")), template.below("metadata", "name")
            if name in own:
                related = (own[name].saying("has the name"),)
                yield Problem(f"volume {name} of a pod has the name of a claim template", spot, related, "rename one")
            elif name and name not in mounted:
                yield Problem(
                    f"no container mounts {name}, which the JobSet makes", spot, help="mount it, or remove it"
                )


def _named(spec: Spot) -> Iterator[tuple[Spot, str]]:
    """Each name of a replicatedJob in the policies of a JobSet."""
    yield from words(spec.below("successPolicy", "targetReplicatedJobs"))
    for spot, _ in items(spec.below("failurePolicy", "rules")):
        yield from words(spot.below("targetReplicatedJobs"))
    for job, _ in items(spec.below("replicatedJobs")):
        for spot, _ in items(job.below("dependsOn")):
            yield spot.below("name"), word(spot.below("name"))
    coordinator = spec.below("coordinator", "replicatedJob")
    if part(spec.below("coordinator")):
        yield coordinator, word(coordinator)


def _mounts(pod: Spot) -> Iterator[dict[object, object]]:
    for field in ("containers", "initContainers"):
        for container, _ in items(pod.below(field)):
            yield from (dict(mount) for _, mount in items(container.below("volumeMounts")))
