"""What a job's controller does when a pod ends: replace it, start all anew, or end the job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from trainyard.objects.objects import Object
from trainyard.rehearse.pods import RunningPod
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import count, entries, mapping, sequence, text

Step = Literal["wait", "replace", "restart all", "fail"]
_JOB_BACKOFF = 6
"""Kubernetes' backoffLimit where a Job says none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done about a pod that failed, and why."""

    step: Step
    reason: str = ""


class Controller(Protocol):
    """A job's controller."""

    def failed(self, pod: RunningPod) -> Decision:
        """What to do about a pod that failed."""

    def done(self, pods: Sequence[RunningPod]) -> bool:
        """Whether the job has succeeded."""


@dataclass(slots=True)
class Jobs:
    """batch/v1 Job: its own, or each of those that a JobSet, an MPIJob's launcher or a RayJob's submitter is."""

    spec: Mapping[str, Any]
    failures: int = 0

    def failed(self, pod: RunningPod) -> Decision:
        """By podFailurePolicy, then by backoffLimit."""
        action = _by_policy(mapping(self.spec.get("podFailurePolicy")), pod)
        if action == "FailJob":
            return Decision("fail", "PodFailurePolicy")
        if action == "Ignore":
            return Decision("replace", "a disruption, which does not count")
        self.failures += 1
        limit = count(self.spec.get("backoffLimit"))
        limit = _JOB_BACKOFF if limit is None else limit
        if self.failures > limit:
            return Decision("fail", f"BackoffLimitExceeded: backoffLimit is {limit}")
        return Decision("replace", f"failure {self.failures} of {limit} that backoffLimit forgives")

    def done(self, pods: Sequence[RunningPod]) -> bool:
        """All of its pods succeeded."""
        return all(pod.phase == "succeeded" for pod in pods)


@dataclass(slots=True)
class JobSets:
    """JobSet: a Job that fails starts all anew, or ends the JobSet."""

    spec: Mapping[str, Any]
    jobs: dict[str, Jobs]
    restarts: int = 0

    def failed(self, pod: RunningPod) -> Decision:
        """First what the pod's Job does, then the JobSet's failurePolicy."""
        role = pod.plan.member.pod_set.role
        decision = self.jobs[role].failed(pod)
        if decision.step != "fail":
            return decision
        policy = mapping(self.spec.get("failurePolicy"))
        reason = decision.reason.partition(":")[0]
        for _, rule in entries(policy.get("rules")):
            reasons, targets = sequence(rule.get("onJobFailureReasons")), sequence(rule.get("targetReplicatedJobs"))
            if (reasons and reason not in reasons) or (targets and role not in targets):
                continue
            if rule.get("action") == "FailJobSet":
                return Decision("fail", f"failurePolicy's rule {text(rule.get('name'))}")
            if rule.get("action") == "RestartJobSetAndIgnoreMaxRestarts":
                return self._anew(text(rule.get("name")))
            break
        self.restarts += 1
        limit = count(policy.get("maxRestarts")) or 0
        if self.restarts > limit:
            return Decision("fail", f"maxRestarts is {limit}")
        return self._anew(f"restart {self.restarts} of {limit}")

    def _anew(self, reason: str) -> Decision:
        for job in self.jobs.values():
            job.failures = 0
        return Decision("restart all", reason)

    def done(self, pods: Sequence[RunningPod]) -> bool:
        """All pods of all Jobs succeeded, or of those that successPolicy names."""
        policy = mapping(self.spec.get("successPolicy"))
        targets = sequence(policy.get("targetReplicatedJobs"))
        counted = [pod for pod in pods if not targets or pod.plan.member.pod_set.role in targets]
        good = [pod.phase == "succeeded" for pod in counted]
        return any(good) if policy.get("operator") == "Any" else all(good)


@dataclass(slots=True)
class Operators:
    """The training operator's PyTorchJob and TFJob."""

    job: Object
    policies: Mapping[str, str]
    """restartPolicy by role, as written."""
    failures: int = 0

    def failed(self, pod: RunningPod) -> Decision:
        """A pod that ends for good fails the job, unless its exit code says that the machine was to blame."""
        role = pod.plan.member.pod_set.role
        code = max(pod.exit_codes.values(), default=1)
        if pod.disrupted or (self.policies.get(role) == "ExitCode" and code >= 128):
            self.failures += 1
            limit = count(mapping(mapping(self.job.data.get("spec")).get("runPolicy")).get("backoffLimit"))
            if limit is not None and self.failures > limit:
                return Decision("fail", f"backoffLimit is {limit}")
            return Decision("replace", "the operator makes a pod that is gone anew")
        return Decision("fail", f"a {role} ended with {code} under restartPolicy {pod.plan.restart_policy}")

    def done(self, pods: Sequence[RunningPod]) -> bool:
        """The master or chief succeeded, and where there is none all workers did, or one of an elastic job."""
        led = [pod for pod in pods if pod.plan.member.pod_set.role in ("master", "chief")]
        workers = [pod for pod in pods if pod.plan.member.pod_set.role == "worker"]
        if not led and isinstance(mapping(self.job.data.get("spec")).get("elasticPolicy"), dict):
            return any(pod.phase == "succeeded" for pod in workers)
        return all(pod.phase == "succeeded" for pod in led or workers or pods)


@dataclass(slots=True)
class LeaderJob:
    """A job whose end is that of one pod: the launcher of an MPIJob, the submitter of a RayJob."""

    leader: str
    job: Jobs
    whole: int = 0
    """How often all pods may start anew."""
    by_itself: bool = True
    """Whether the leader's pod alone is made anew."""
    restarts: int = field(default=0)

    def failed(self, pod: RunningPod) -> Decision:
        """The leader's Job decides about it; other pods are made anew."""
        if pod.plan.member.pod_set.role != self.leader:
            return Decision("replace", "the operator makes a pod that is gone anew")
        decision = self.job.failed(pod)
        if decision.step != "fail" or not self.whole:
            return decision
        self.restarts += 1
        if self.restarts > self.whole:
            return Decision("fail", f"backoffLimit is {self.whole}")
        self.job.failures = 0
        return Decision("restart all", f"cluster {self.restarts + 1}")

    def done(self, pods: Sequence[RunningPod]) -> bool:
        """The leader succeeded."""
        return all(pod.phase == "succeeded" for pod in pods if pod.plan.member.pod_set.role == self.leader)


def controller(workload: Workload) -> Controller:
    """The controller of a job."""
    job = workload.object
    spec = mapping(job.data.get("spec"))
    match job.kind:
        case "Job" if job.group == "batch":
            return Jobs(spec)
        case "JobSet" | "TrainJob":
            owner = workload.pod_sets[0].template.object
            return _jobset(mapping(owner.data.get("spec")))
        case "PyTorchJob" | "TFJob":
            return Operators(job, {each.role: _written_policy(job, each) for each in workload.pod_sets})
        case "MPIJob":
            return LeaderJob("launcher", Jobs({"backoffLimit": mapping(spec.get("runPolicy")).get("backoffLimit")}))
        case "RayJob":
            own = {"backoffLimit": mapping(spec.get("submitterConfig")).get("backoffLimit", 2)}
            return LeaderJob("submitter", Jobs(own), whole=count(spec.get("backoffLimit")) or 0)
        case _:
            return Jobs({"backoffLimit": 3})


def _jobset(spec: Mapping[str, Any]) -> JobSets:
    jobs = {
        text(each.get("name")): Jobs(mapping(mapping(each.get("template")).get("spec")))
        for _, each in entries(spec.get("replicatedJobs"))
    }
    return JobSets(spec, jobs)


def _written_policy(job: Object, pod_set: PodSet) -> str:
    path = pod_set.template.path[:-1]
    replica: Any = job.data
    for step in path:
        replica = replica[step] if isinstance(replica, dict) and step in replica else {}
    return text(mapping(replica).get("restartPolicy"))


def _by_policy(policy: Mapping[str, Any], pod: RunningPod) -> str:
    """The action of the first rule of a podFailurePolicy that matches; empty where none does."""
    for _, rule in entries(policy.get("rules")):
        if conditions := sequence(rule.get("onPodConditions")):
            if pod.disrupted and any(mapping(each).get("type") == "DisruptionTarget" for each in conditions):
                return text(rule.get("action"))
            continue
        wanted = mapping(rule.get("onExitCodes"))
        named, values = text(wanted.get("containerName")), sequence(wanted.get("values"))
        codes = [code for name, code in pod.exit_codes.items() if code and named in ("", name)]
        inside = [code in values for code in codes]
        if any(inside) if wanted.get("operator") == "In" else (bool(inside) and not all(inside)):
            return text(rule.get("action"))
    return ""
