"""Names of objects that pods use and that lead to nothing: generated ones, prefixed ones, those of other namespaces."""

from collections.abc import Iterator
from difflib import get_close_matches

from trainyard.findings.finding import Severity
from trainyard.objects.hashed import REMEDY, hash_of, is_hashed_form
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.rules.common.meetings import meetings
from trainyard.rules.common.once import once
from trainyard.rules.references.named import NamedObject, elsewhere, named, there
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping
from trainyard.workload.services import Means, resolve

_PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


@rule("REF001", "generated-name-not-carried", Severity.ERROR, needs=Workload)
@once
def generated_name_not_carried(workload: Workload) -> Iterator[Problem]:
    """A pod names a generated ConfigMap or Secret without its hash, or with the hash of older content.

    kustomize ends the names of what its generators make in a hash, and writes the new name only into fields that it
    knows. Those of custom resources such as PyTorchJob and MPIJob are not among them, so their pods wait for an object
    that is never made.

    Bad:
        # on: pytorchjob
        metadata: {name: sft}
        spec:
          pytorchReplicaSpecs: {Worker: {template: {spec: {volumes: [{name: ds, configMap: {name: ds-config}}]}}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: ds-config-7h2k9b4m8f, namespace: research}
    Good:
        # on: pytorchjob
        metadata: {name: sft}
        spec:
          pytorchReplicaSpecs:
            Worker: {template: {spec: {volumes: [{name: ds, configMap: {name: ds-config-7h2k9b4m8f}}]}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: ds-config-7h2k9b4m8f, namespace: research}
    Near miss:
        # on: pytorchjob
        metadata: {name: sft}
        spec:
          pytorchReplicaSpecs: {Worker: {template: {spec: {volumes: [{name: ds, configMap: {name: ds-config}}]}}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: ds-config-evaluation, namespace: research}

    Source: https://github.com/kubernetes-sigs/kustomize/issues/2524
    """
    for found in _unanswered(workload, "ConfigMap", "Secret"):
        made = [item for item in workload.of_kind(found.kind) if is_hashed_form(item.name, found.name)]
        if made:
            yield Problem(
                f"{found.kind} {found.name} is not made: its generator calls it {made[0].name}",
                found.spot.saying("the hash was not carried here"),
                tuple(item.at("metadata", "name", label="what is made") for item in made),
                REMEDY,
            )


@rule("REF002", "prefix-not-carried", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def prefix_not_carried(workload: Workload) -> Iterator[Problem]:
    """A prefix or suffix was put before the names of objects, and not before the name that a pod uses.

    kustomize's namePrefix and nameSuffix change names, and the fields that it knows to hold names. The fields of custom
    resources, and host names in arguments and variables, keep the old name.

    Bad:
        # on: pytorchjob
        metadata: {name: dev-sft}
        spec:
          pytorchReplicaSpecs:
            Worker: {template: {spec: {containers: [{name: pytorch, envFrom: [{configMapRef: {name: settings}}]}]}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: dev-settings, namespace: research}
    Good:
        # on: pytorchjob
        metadata: {name: dev-sft}
        spec:
          pytorchReplicaSpecs:
            Worker:
              template: {spec: {containers: [{name: pytorch, envFrom: [{configMapRef: {name: dev-settings}}]}]}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: dev-settings, namespace: research}
    Near miss:
        # on: pytorchjob
        metadata: {name: dev-sft}
        spec:
          pytorchReplicaSpecs:
            Worker: {template: {spec: {containers: [{name: pytorch, envFrom: [{configMapRef: {name: settings}}]}]}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: other-settings, namespace: research}

    Source: https://github.com/kubernetes-sigs/kustomize/issues/4674
    """
    for found in _unanswered(workload, "ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount"):
        for item in workload.of_kind(found.kind):
            affix = _affix(item.name, found.name, workload.object.name)
            if affix:
                yield Problem(
                    f"{found.kind} {found.name} is not there, but {item.name} is: {affix} was not carried here",
                    found.spot.saying(f"without {affix}"),
                    (item.at("metadata", "name", label="what is made"),),
                    _remedy(found.kind, found.spot, item.name),
                    put(found.spot, item.name).saying(f"write {item.name}").unsafe(),
                )
    for meeting in meetings(workload):
        renamed = _renamed_host(workload, str(meeting.host.value))
        if meeting.means.means is Means.ELSEWHERE and renamed:
            yield Problem(
                f"rendezvous host {meeting.host.value} is not a pod of the job, but {renamed} is",
                meeting.host.spot.saying("every rank dials this"),
                (workload.object.at("metadata", "name", label="the job's name now"),),
                f"write {renamed}: kustomize changes no names in arguments and variables",
            )


def _remedy(kind: str, field: Spot, name: str) -> str:
    """What carries a name: a name that is written into a base would be wrong for its other overlays."""
    if "." not in field.object.group:  # its fields are known to kustomize, where it sees both
        return f"write {name}, or list both objects in the kustomization that renames"
    path = "/".join(step for step in field.path if isinstance(step, str))
    reference = f"{{kind: {kind}, version: v1, fieldSpecs: [{{kind: {field.object.kind}, path: {path}}}]}}"
    return (
        f"write {name} where no other kustomization reads this; else list a file with nameReference: [{reference}] "
        "under configurations of the kustomization that renames"
    )


@rule("REF003", "object-of-another-namespace", Severity.ERROR, needs=Workload)
@once
def object_of_another_namespace(workload: Workload) -> Iterator[Problem]:
    """A pod names a claim, Secret, ConfigMap or ServiceAccount that is only in another namespace.

    A pod sees the objects of its own namespace alone, so it waits for one of that name there: for the claim it stays
    Pending, for the others its containers are never created, or its image is not pulled.

    Bad:
        # on: job
        spec: {template: {spec: {imagePullSecrets: [{name: registry}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: registry, namespace: default}
        type: kubernetes.io/dockerconfigjson
    Good:
        # on: job
        spec: {template: {spec: {imagePullSecrets: [{name: registry}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: registry, namespace: research}
        type: kubernetes.io/dockerconfigjson
    Near miss:
        # on: job
        spec: {template: {spec: {imagePullSecrets: [{name: registry}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: registry}
        type: kubernetes.io/dockerconfigjson

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
    """
    for found in named(workload):
        other = elsewhere(workload, found)
        told = workload.in_job_folder and found.kind == "PersistentVolumeClaim"
        if other is not None and not found.optional and not told and found.name != "default":
            yield Problem(
                f"{found.kind} {found.name} is in namespace {other.namespace}, but the pods are in "
                f"{workload.object.namespace}",
                found.spot.saying("looked for in the pods' own namespace"),
                (other.at("metadata", "namespace", label="pods of other namespaces cannot use it"),),
                f"put it into namespace {workload.object.namespace} too",
            )


@rule("REF004", "key-not-in-object", Severity.ERROR, needs=Workload, fix="safe")
@once
def key_not_in_object(workload: Workload) -> Iterator[Problem]:
    """A pod reads a key of a ConfigMap or Secret that is there and has no such key.

    The kubelet does not create the container, or does not mount the volume, until the key appears.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: SEED, valueFrom: {
          configMapKeyRef: {name: llama-sft-trainer, key: TRAINER_SEED}}}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: BATCH, valueFrom: {
          configMapKeyRef: {name: llama-sft-trainer, key: TRAINER_MICRO_BATCH}}}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: SEED, valueFrom: {
          configMapKeyRef: {name: llama-sft-trainer, key: TRAINER_SEED, optional: true}}}]}]}}}

    Source: https://kubernetes.io/docs/concepts/configuration/configmap/
    """
    for found in named(workload):
        source = there(workload, found)
        if source is None or found.key is None or found.key_spot is None or found.optional:
            continue
        keys = _keys(source)
        if not keys or found.key in keys:
            continue
        near = get_close_matches(found.key, keys, 1, 0.6)
        yield Problem(
            f"{found.kind} {found.name} has no key {found.key}",
            found.key_spot.saying("no such key"),
            (source.at("data", label=f"it has {', '.join(sorted(keys)[:6])}"),),
            f"did you mean {near[0]}?" if near else f"add {found.key} to {found.kind} {found.name}",
            put(found.key_spot, near[0]).saying(f"write {near[0]}") if near else None,
        )


@rule("REF005", "pull-secret-of-another-type", Severity.ERROR, needs=Workload)
@once
def pull_secret_of_another_type(workload: Workload) -> Iterator[Problem]:
    """A Secret that pods pull their images with is not one for registries.

    The kubelet reads `kubernetes.io/dockerconfigjson` alone, or the older `kubernetes.io/dockercfg`, and passes over
    anything else: the image is asked for without a password, and the pods stay in ImagePullBackOff.

    Bad:
        # on: job
        spec: {template: {spec: {imagePullSecrets: [{name: registry}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: registry, namespace: research}
        type: Opaque
    Good:
        # on: job
        spec: {template: {spec: {imagePullSecrets: [{name: registry}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: registry, namespace: research}
        type: kubernetes.io/dockerconfigjson
    Near miss:
        # on: job
        spec: {template: {spec: {containers: [{name: trainer, envFrom: [{secretRef: {name: wandb}}]}]}}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: wandb, namespace: research}
        type: Opaque

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/
    """
    for found in named(workload):
        source = there(workload, found)
        kind = "Opaque" if source is None else source.data.get("type") or "Opaque"
        if "imagePullSecrets" not in found.spot.path or source is None or source.api_version != "v1":
            continue
        if isinstance(kind, str) and kind not in _PULL_TYPES:
            yield Problem(
                f"the images are pulled with Secret {found.name}, which is of type {kind}",
                found.spot.saying("passed over"),
                (source.at("type", label="not for registries"),),
                "make it with type kubernetes.io/dockerconfigjson",
            )


def _unanswered(workload: Workload, *kinds: str) -> Iterator[NamedObject]:
    """What pods name and need, of these kinds, and nobody shows; without a job folder's own, which CTR015 tells."""
    job = workload.training_job.name if workload.training_job is not None else None
    for found in named(workload):
        own = job is not None and (found.name == job or found.name.startswith(f"{job}-"))
        if found.kind in kinds and not found.optional and not own and there(workload, found) is None:
            yield found


def _affix(made: str, written: str, job: str) -> str:
    """The prefix or suffix that an object shares with the job and that the written name lacks."""
    if made == written or not written:
        return ""
    if made.endswith(written):
        prefix = made.removesuffix(written)
        return f"prefix {prefix}" if job.startswith(prefix) and job != prefix else ""
    if made.startswith(written):
        suffix = made.removeprefix(written)
        plain = not hash_of(made) and suffix.startswith("-")
        return f"suffix {suffix}" if plain and job.endswith(suffix) and job != suffix else ""
    return ""


def _renamed_host(workload: Workload, host: str) -> str:
    """A pod's name under the job's present name, where the host is that name without a prefix."""
    pod, _, rest = host.partition(".")
    subdomain = rest.partition(".")[0]
    for prefix in {workload.object.name[:end] for end, mark in enumerate(workload.object.name, 1) if mark == "-"}:
        renamed = f"{prefix}{pod}.{prefix}{subdomain}"
        if subdomain and resolve(workload, renamed).means is Means.POD:
            return renamed
    return ""


def _keys(source: Object) -> set[str]:
    fields = ("data", "binaryData", "stringData")
    return {key for field in fields for key in mapping(source.data.get(field)) if isinstance(key, str)}
