"""Names of jobs, of what they make, and in their pods."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.rules.common.jobspecs import job_specs
from trainyard.rules.common.once import once
from trainyard.rules.common.parts import items, pairs, word
from trainyard.rules.registry import Problem, rule
from trainyard.schemas.filledin import is_filled_in
from trainyard.schemas.schema import KUSTOMIZE
from trainyard.workload.adapters import made_names
from trainyard.workload.made_names import LONGEST
from trainyard.workload.model import Workload
from trainyard.workload.plain import text

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_FROM_LETTER = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\Z")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_PORT = re.compile(r"(?=.*[a-z])[a-z0-9](-?[a-z0-9])*\Z")
_OF_PARTS = (
    ("replicatedJobs", "name", _LABEL, "replicatedJob"),
    ("replicatedJobs", "groupName", _FROM_LETTER, "group of replicatedJobs"),
    ("tasks", "name", _LABEL, "task"),
)
"""Lists of a job's parts, and the field of an entry that holds a name."""
_LONGEST_PORT, _LONGEST_OBJECT = 15, 253
_FROM_LETTER_KINDS = {
    "": ("Service",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"),
    "ray.io": ("RayCluster", "RayCronJob", "RayJob", "RayService"),
    "trainer.kubeflow.org": ("TrainJob",),
}
_ANY_NAME = ("rbac.authorization.k8s.io",)


@rule("NAM001", "name-too-long", Severity.ERROR, needs=Workload)
def name_too_long(workload: Workload) -> Iterator[Problem]:
    """A name that the job's controller makes from the job's own is longer than it may be.

    Pods, their host names and Services are called after the job, with a role and a number at the end, and DNS allows 63
    characters. Some controllers refuse such a job. Others take it, fail to create what is named so, and try again for
    ever: the job has no pods, and says so in events alone.

    Bad:
        # on: pytorchjob
        metadata: {name: llama-8b-supervised-finetuning-on-the-second-instruction-mix}
    Good:
        # on: pytorchjob
        metadata: {name: llama-8b-sft-mix-2}
    Near miss:
        # on: job
        metadata: {name: llama-8b-supervised-finetuning-on-the-second-instruction-mix}
        spec: {completionMode: Indexed, completions: 4, parallelism: 4}

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """
    longest = max(
        (made for made in made_names(workload) if len(made.text) > made.limit),
        key=lambda made: len(made.text) - made.limit,
        default=None,
    )
    if longest is None:
        return
    over = len(longest.text) - longest.limit
    name, length = workload.object.at("metadata", "name"), len(longest.text)
    yield Problem(
        f"{longest.what} would be called {longest.text}: {length} characters, but {longest.limit} are allowed",
        name.saying(f"{over} too long" if longest.spot.path == name.path else "the name"),
        () if longest.spot.path == name.path else (longest.spot.saying("a part of it"),),
        f"shorten the job's name by {over}",
    )


@rule("NAM002", "name-refused", Severity.ERROR, needs=Object, fix="unsafe")
def name_refused(item: Object) -> Iterator[Problem]:
    """An object has a name that the API server or its controller does not take.

    Names are lower-case letters, digits and hyphens. Names of operators' jobs become host names of pods and names of
    Services, so they start with a letter and have no dots; an underscore or a capital letter no name has.

    Bad:
        # on: rayjob
        metadata: {name: ViT_large}
    Good:
        # on: rayjob
        metadata: {name: vit-large}
    Near miss:
        # whole
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {name: "system:Vit_reader"}

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """
    name = word(item.at("metadata", "name"))
    if not name or item.group in _ANY_NAME or item.api_version == KUSTOMIZE:
        return
    if is_filled_in(name) or any(mark in name for mark in "${"):
        return
    pattern, rule_of = _SUBDOMAIN, "lower-case letters, digits, hyphens and dots"
    indexed = item.kind == "Job" and any(job.indexed for job in job_specs(item))
    if indexed or (item.group, item.kind) == ("", "Namespace"):
        pattern, rule_of = _LABEL, "lower-case letters, digits and hyphens"
    if item.kind in _FROM_LETTER_KINDS.get(item.group, ()):
        pattern, rule_of = _FROM_LETTER, "lower-case letters, digits and hyphens, a letter first"
    if not pattern.match(name) or len(name) > _LONGEST_OBJECT:
        better = _mended(name)
        yield Problem(
            f"{name} is not a valid name for a {item.kind}: those are {rule_of}",
            item.at("metadata", "name", label="is refused"),
            help=f"call it {better}" if pattern.match(better) else "give it another name",
            fix=put(item.at("metadata", "name"), better).unsafe() if pattern.match(better) else None,
        )


@rule("NAM003", "name-in-pod-refused", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def name_in_pod_refused(workload: Workload) -> Iterator[Problem]:
    """A container, a volume or a port of a pod has a name that the API server refuses, or two have the same.

    Containers and volumes are called by lower-case letters, digits and hyphens, as are replicatedJobs and tasks, after
    which pods are called. Ports have at most 15 of them, with one letter. The job is taken where only its pods are
    refused, and has none then.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: pytorch-rendezvous, containerPort: 1}]}]}}}
    Bad:
        kind: Job
        spec: {template: {spec: {volumes: [{name: Scratch_Disk, emptyDir: {sizeLimit: 1Gi}}]}}}
    Bad:
        # on: jobset
        spec: {replicatedJobs: [{name: node, groupName: 2nd_rack}]}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, ports: [{name: rendezvous, containerPort: 1}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: Torch_Home, value: /cache}]}]}}}

    Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
    """
    for field, called, pattern, what in _OF_PARTS:
        for spot, _ in items(workload.object.at("spec", field)):
            name, mended = word(spot.below(called)), _mended(word(spot.below(called)))
            if name and not pattern.match(name):
                yield Problem(
                    f"{name} is not a valid name for a {what}",
                    spot.below(called),
                    help=f"call it {mended}" if pattern.match(mended) else "start it with a letter",
                    fix=put(spot.below(called), mended).unsafe() if pattern.match(mended) else None,
                )
    for pod_set in workload.pod_sets:
        pod = pod_set.template.below("spec")
        for kind in ("containers", "initContainers", "volumes"):
            what = "volume" if kind == "volumes" else "container"
            seen: set[str] = set()
            for spot, data in items(pod.below(kind)):
                name = text(data.get("name"))
                if name in seen:
                    help = "give each its own name"
                    yield Problem(f"two {what}s are called {name}", spot.below("name"), help=help)
                elif name and (not _LABEL.match(name) or len(name) > LONGEST):
                    help = f"call it {_mended(name)}"
                    fix = put(spot.below("name"), _mended(name)).unsafe()
                    yield Problem(f"{name} is not a valid name for a {what}", spot.below("name"), help=help, fix=fix)
                seen.add(name)
                for port, _ in items(spot.below("ports")):
                    own = word(port.below("name"))
                    if own and (not _PORT.match(own) or len(own) > _LONGEST_PORT):
                        help = (
                            f"use at most {_LONGEST_PORT} lower-case letters, digits and hyphens, one letter among them"
                        )
                        yield Problem(f"{own} is not a valid port name", port.below("name"), help=help)


@rule("NAM004", "label-refused", Severity.ERROR, needs=Workload)
@once
def label_refused(workload: Workload) -> Iterator[Problem]:
    """A label of a job or of its pods has a key or a value that the API server refuses.

    A value has at most 63 characters: letters, digits, hyphens, dots and underscores, with a letter or a digit at both
    ends. A path, a model's name with its owner, or a sentence is none: annotations take those.

    Bad:
        kind: Job
        metadata: {labels: {model: meta-llama/Llama-3-8B}}
    Good:
        kind: Job
        metadata: {labels: {model: Llama-3-8B}}
    Near miss:
        kind: Job
        metadata: {annotations: {model: meta-llama/Llama-3-8B}}

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
    """
    places = [workload.object.at("metadata", "labels")]
    places += [pod_set.template.below("metadata", "labels") for pod_set in workload.pod_sets]
    for spot in places:
        for key, value in pairs(spot).items():
            if not _KEY.match(key) or len(key.rpartition("/")[2]) > LONGEST:
                help = "use letters, digits and hyphens"
                yield Problem(f"{key} is not a valid label key", spot.below(key), help=help)
            elif not _VALUE.match(value) or len(value) > LONGEST:
                help = "shorten it, or write it as an annotation"
                yield Problem(f"{value} is not a valid label value", spot.below(key), help=help)


def _mended(name: str) -> str:
    """A name as near as may be: lower case, and hyphens for what no name holds."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
