"""Rules on secrets, images and tokens: SEC001 and up."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trainyard.catalogues.variables import variable
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import entries, mapping
from trainyard.yaml.fieldpath import Path

_SHAPES = (
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}"), "a Hugging Face token"),
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), "an AWS access key"),
    (re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})"), "a GitHub token"),
    (re.compile(r"\bglpat-[\w-]{20,}"), "a GitLab token"),
    (re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"), "a Slack token"),
    (re.compile(r"\bsk-(ant-|proj-)?[A-Za-z0-9_-]{32,}"), "an API key"),
    (re.compile(r"\bAIza[0-9A-Za-z_-]{35}"), "a Google API key"),
    (re.compile(r"\bnvapi-[\w-]{32,}"), "an NVIDIA API key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,40}://[^\s/:@${}<>]+:(?P<part>[^\s/@${}<>]{3,})@"), "a password in a URL"),
)
_HINT = re.compile(r"hf_|A[KS]IA|gh[pousr]_|github_pat_|glpat-|xox|sk-|AIza|nvapi-|PRIVATE KEY|://[^/]*@")
"""What every shape above holds; one search instead of ten for nearly every text."""
_NAME = re.compile(r"(API_?KEY|ACCESS_KEY|SECRET|SECRET_KEY|PASSWORD|PASSWD|TOKEN|CREDENTIALS?)\Z", re.IGNORECASE)
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_.~-]{16,}\Z")
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*\Z")
_REFERENCES = ("$(", "${", "{{", "<")
_PLACEHOLDER = re.compile(
    r"your|replace|change.?me|change.?it|placeholder|example|dummy|insert|enter|todo|fixme|redacted|-here\b|_here\b|xxxx"
    r"|\*\*\*|\.\.\.",
    re.IGNORECASE,
)
"""What stands in a text that is to be replaced by a secret."""
_SETTINGS = frozenset(
    {"database", "enableOCI", "endpoint", "host", "hostname", "insecure", "name", "namespace", "port", "project"}
    | {"region", "server", "type", "url", "user", "username"}
)
"""Keys of a Secret that say where it is used, and hold none."""
_VARIED = 8
"""Different characters of a key that was drawn at random; a password made up for a test has fewer."""
_NO_API_KINDS = ("Job", "JobSet", "PyTorchJob", "TFJob", "MPIJob", "TrainJob")

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


@rule("SEC001", "secret-in-plain-sight", Severity.ERROR, needs=Unit, guarded=True)
@once
def secret_in_plain_sight(unit: Unit) -> Iterator[Problem]:
    """A secret stands in Git.

    Everyone who may read the repository, and its history for ever, has it. Name a Secret and let the cluster hold its
    content: an ExternalSecret, a sealed or an encrypted one. What was committed once must be revoked. A placeholder
    such as REPLACE_WITH_YOUR_TOKEN is no secret. Of manifests that nothing shows to be synced, a weak password, and a
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
            found = _secret(name, text)
            if found:
                yield Problem(
                    f"{name or 'a text'} holds {found.what}: {found.part[:4]}...",
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
            if _DIGEST.search(container.image) or _is_reference(container.image):
                continue
            tagged = ":" in container.image.rpartition("/")[2]
            yield Problem(
                f"image {container.image} is named by {'a tag' if tagged else 'nothing but its name'}, not by digest",
                container.spot.below("image"),
                help="append @sha256: and the digest that was tested",
            )


def known_secrets(text: str) -> list[str]:
    """Everything in a text that has the shape of a token or a password in a URL."""
    if not _HINT.search(text):
        return []
    found = (match for shape, _ in _SHAPES for match in shape.finditer(text))
    return [match.groupdict().get("part") or match[0] for match in found]


def is_plain_secret(obj: Object) -> bool:
    """Whether an object is a Secret that SEC001 speaks of."""
    return obj.kind == "Secret" and obj.api_version == "v1" and any(True for _ in _readable(obj))


def _secret_object(obj: Object, is_synced: bool) -> Iterator[Problem]:
    for field, key, found in _readable(obj):
        yield Problem(
            f"Secret {obj.name} holds its content in Git",
            obj.at(field, key, label="readable by everyone who can read the repository"),
            help="revoke it; use an ExternalSecret, a SealedSecret or SOPS",
            severity=None if is_synced or (found is not None and found.certain) else Severity.INFO,
        )


@dataclass(frozen=True, slots=True)
class _Secret:
    """A secret in a text."""

    what: str
    part: str
    certain: bool
    """False for a password that is weak enough to be made for a test."""


def _readable(obj: Object) -> Iterator[tuple[str, str, _Secret | None]]:
    """Fields and keys of a Secret's readable content, and what is known of it: SOPS encrypts some, the deployer fills
    some in.
    """
    for field in ("data", "stringData") if "sops" not in obj.data else ():
        for key, text in mapping(obj.data.get(field)).items():
            if not isinstance(text, str) or not text:
                continue
            found = _secret(str(key), _decoded(text) if field == "data" else text)
            if found is not None or not (key in _SETTINGS or _stands_for_a_secret(text)):
                yield field, key, found


@lru_cache(maxsize=4096)
def _secret(name: str, text: str) -> _Secret | None:
    """The secret that a text holds, or None. `name` is the variable or key it is given to."""
    for shape, what in _SHAPES if _HINT.search(text) else ():
        match = shape.search(text)
        if match:
            part = match.groupdict().get("part") or match[0]
            return None if len(set(part[6:])) < 3 and len(part) > 12 else _Secret(what, part, certain=True)
    if not name or name.startswith("checksum/"):
        return None
    facts, named = variable(name), _NAME.search(name)
    shared = facts is not None and facts.secret
    if not (named or shared) or _stands_for_a_secret(text):
        return None
    if text.startswith(("/", "./", "~")) or text.endswith((".json", ".txt")):
        return None
    if shared and text:
        return _Secret("a shared key", text, certain=True)
    if named and _OPAQUE.match(text) and any(mark.isdigit() for mark in text) and len(set(text)) > 3:
        return _Secret("what looks like a secret", text, certain=len(set(text)) >= _VARIED)
    weak = re.search(r"PASSW(OR)?D\Z", name, re.IGNORECASE) and len(text) >= 6 and " " not in text
    return _Secret("what looks like a secret", text, certain=False) if weak else None


def _stands_for_a_secret(text: str) -> bool:
    """Whether a text is to be replaced by a secret: a reference, a template, or words that say so, in base64 too."""
    return _is_reference(text) or any(_PLACEHOLDER.search(each) for each in (text, _decoded(text)))


def _decoded(text: str) -> str:
    """The text that stands in base64, or nothing where none does."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""


def _texts(tree: Any, path: Path = (), name: str = "") -> Iterator[tuple[Path, str, str]]:
    """Every text of an object, with the variable or key that it is given to."""
    if isinstance(tree, str):
        yield path, name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            given = tree.get("name") if key == "value" else key
            yield from _texts(value, (*path, key), given if isinstance(given, str) else "")
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _texts(value, (*path, index))


def _is_reference(text: str) -> bool:
    return bool(_VARIABLE.match(text)) or any(mark in text for mark in _REFERENCES)


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
