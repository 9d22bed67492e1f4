"""Rules on secrets, images and tokens: SEC001 and up."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.common.plain_secrets import (
    FoundSecret,
    given_secret,
    given_secrets,
    is_reference,
    readable_content,
    secret_in,
    takes_a_value,
)
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries
from trainyard.yaml.fieldpath import Path

_NO_API_KINDS = ("Job", "JobSet", "PyTorchJob", "TFJob", "MPIJob", "TrainJob")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


@rule("SEC001", "secret-in-plain-sight", Severity.ERROR, needs=Unit, guarded=True)
@once
def secret_in_plain_sight(unit: Unit) -> Iterator[Problem]:
    """A secret stands in Git.

    Everyone who may read the repository, and its history for ever, has it. Name a Secret and let the cluster hold its
    content: an ExternalSecret, a sealed or an encrypted one. What was committed once must be revoked. Arguments such as
    --wandb_api_key, and what scripts set, count like variables. A placeholder such as REPLACE_WITH_YOUR_TOKEN is not a
    secret. Of manifests that nothing shows to be synced, a weak password and a
    Secret whose content has not the shape of a key, are information: they may be made for a test.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, env: [{name: WANDB_API_KEY, value: 0123456789abcdef0123456789abcdef01234567}]}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [
          {name: WANDB_API_KEY, valueFrom: {secretKeyRef: {name: wandb, key: api-key}}}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [
          {name: trainer, env: [{name: HF_TOKEN_PATH, value: /var/run/secrets/hugging-face/token}]}]}}}

    Source: https://kubernetes.io/docs/concepts/security/secrets-good-practices/
    """
    for obj in unit.objects:
        if obj.kind == "Secret" and obj.api_version == "v1":
            yield from _secret_object(obj, unit.is_synced)
            continue
        for path, name, text in _texts(obj.data):
            for given, found in _secrets(name, text):
                yield Problem(
                    f"{given or 'a text'} holds {found.what}: {found.part[:4]}...",
                    obj.at(*path, label="readable by everyone who can read the repository"),
                    help="revoke it, and name a Secret instead (valueFrom.secretKeyRef)",
                    severity=None if found.certain or unit.is_synced else Severity.INFO,
                )


@rule("SEC002", "image-not-by-digest", Severity.WARNING, needs=Workload, guarded=True)
@once
def image_not_by_digest(workload: Workload) -> Iterator[Problem]:
    """A job folder's image is named by a tag, which may mean another image tomorrow.

    A tag can be moved between the start of two pods of one job, and between a run and its repetition. A digest cannot:
    every rank runs the same bytes, and a result can be reproduced.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.example.com/trainer:v2.0"}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.example.com/trainer:v2.0@sha256:\
7d0b1b5c3f6f9a52d6a2c1d84e0f7a9b3c5d7e9f1a2b3c4d5e6f708192a3b4c5"}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, image: "${TRAINER_IMAGE}"}]}}}

    Source: https://kubernetes.io/docs/concepts/containers/images/#image-names
    """
    if workload.in_job_folder:
        yield from _tagged_images(workload)


@rule("SEC003", "token-mounted", Severity.WARNING, needs=Workload, fix="safe", guarded=True)
@once
def token_mounted(workload: Workload) -> Iterator[Problem]:
    """Pods of a plain manifest that never call the Kubernetes API carry a token for it.

    torchrun, DeepSpeed and MPI over ssh need no API. Unless `automountServiceAccountToken` is false on the pod or on
    its ServiceAccount, a token lies in every pod, readable by whatever the training program loads. Where a binding
    gives the account rights, the token is there on purpose. In a job folder none is: SEC012 refuses it.

    Bad:
        # on: job
        spec: {template: {spec: {serviceAccountName: train}}}
        ---
        apiVersion: v1
        kind: ServiceAccount
        metadata: {name: train, namespace: research}
    Good:
        # on: job
        spec: {template: {spec: {serviceAccountName: train, automountServiceAccountToken: false}}}
        ---
        apiVersion: v1
        kind: ServiceAccount
        metadata: {name: train, namespace: research}
    Near miss:
        # on: job
        spec: {template: {spec: {serviceAccountName: train}}}
        ---
        apiVersion: v1
        kind: ServiceAccount
        metadata: {name: train, namespace: research}
        automountServiceAccountToken: false

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
    """
    accounts = workload.of_kind("ServiceAccount")
    if workload.in_job_folder or workload.object.kind not in _NO_API_KINDS or _enters_pods(workload):
        return
    for pod_set in workload.pod_sets:
        name = pod_set.spec.get("serviceAccountName") or "default"
        own = [account for account in accounts if account.name == name]
        opened = pod_set.spec.get("automountServiceAccountToken") is True
        closed = not opened and any(account.data.get("automountServiceAccountToken") is False for account in own)
        if own and not closed and _mounts_token(pod_set) and not _has_rights(workload, str(name)):
            yield Problem(
                f"the pods of {workload.object.kind} {workload.object.name} carry a token of ServiceAccount {name}",
                pod_set.template.below("spec", "automountServiceAccountToken"),
                related=tuple(account.at("automountServiceAccountToken") for account in own),
                help="set automountServiceAccountToken: false on the pod",
                fix=put(pod_set.template.below("spec", "automountServiceAccountToken"), False),
            )


@rule("SEC004", "image-by-tag", Severity.INFO, needs=Workload, guarded=True)
@once
def image_by_tag(workload: Workload) -> Iterator[Problem]:
    """An image of a plain manifest is named by a tag, which may mean another image tomorrow.

    The same as SEC002, as advice: what is not in a job folder may be an example, or get its image elsewhere.

    Bad:
        # on: job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.example.com/trainer:v2.0"}]}}}
    Good:
        # on: job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.example.com/trainer:v2.0@sha256:\
7d0b1b5c3f6f9a52d6a2c1d84e0f7a9b3c5d7e9f1a2b3c4d5e6f708192a3b4c5"}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.example.com/trainer:v2.0"}]}}}

    Source: https://kubernetes.io/docs/concepts/containers/images/#image-names
    """
    if not workload.in_job_folder:
        yield from _tagged_images(workload)


def _tagged_images(workload: Workload) -> Iterator[Problem]:
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            if container.by_controller or not container.image:
                continue
            if _DIGEST.search(container.image) or is_reference(container.image):
                continue
            tagged = ":" in container.image.rpartition("/")[2]
            yield Problem(
                f"image {container.image} is named by {'a tag' if tagged else 'nothing but its name'}, not by digest",
                container.spot.below("image"),
                help="append @sha256: and the digest that was tested",
            )


def _secret_object(obj: Object, is_synced: bool) -> Iterator[Problem]:
    for field, key, found in readable_content(obj):
        yield Problem(
            f"Secret {obj.name} holds its content in Git",
            obj.at(field, key, label="readable by everyone who can read the repository"),
            help="revoke it; use an ExternalSecret, a SealedSecret or SOPS",
            severity=None if is_synced or (found is not None and found.certain) else Severity.INFO,
        )


def _secrets(name: str, text: str) -> Iterator[tuple[str, FoundSecret]]:
    """The secret that a text is or, first of all, gives to an argument, with the name of what it is given to."""
    found = given_secret(name, text) if takes_a_value(name) else secret_in(name, text)
    yield from [(name, found)] if found else islice(given_secrets(text), 1)


def _texts(tree: Any, path: Path = (), name: str = "") -> Iterator[tuple[Path, str, str]]:
    """Every text of an object, with the variable, key or argument that it is given to."""
    if isinstance(tree, str):
        yield path, name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            given = tree.get("name") if key == "value" else key
            yield from _texts(value, (*path, key), given if isinstance(given, str) else "")
    elif isinstance(tree, list):
        before = ""
        for index, value in enumerate(tree):
            yield from _texts(value, (*path, index), before)
            before = value if isinstance(value, str) and takes_a_value(value) else ""


def _enters_pods(workload: Workload) -> bool:
    """True of the training operator's MPIJob, whose launcher starts its ranks by kubectl exec."""
    return (workload.object.api_version, workload.object.kind) == ("kubeflow.org/v1", "MPIJob")


def _mounts_token(pod_set: PodSet) -> bool:
    if pod_set.spec.get("automountServiceAccountToken") is False:
        return False
    containers = (*pod_set.init_containers, *pod_set.containers)
    return not any("kubectl" in container.image + " ".join(w.text for w in container.words) for container in containers)


def _has_rights(workload: Workload, account: str) -> bool:
    """True where a binding beside the job grants the account something: then the token is there on purpose."""
    bindings = (
        *workload.of_kind("RoleBinding"),
        *(obj for obj in workload.objects if obj.kind == "ClusterRoleBinding"),
    )
    return any(subject.get("name") == account for obj in bindings for _, subject in entries(obj.data.get("subjects")))
