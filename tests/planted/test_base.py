"""Mistakes in base/torchrun and in what every base takes from base/run: each reaches every job, and is told once."""

import pytest

from tests.planted.checkout import BOTH, GPT2, LLAMA, Checkout, Found

pytestmark = pytest.mark.commands

BASE = "base/torchrun"
RUN = "base/run"
TITLE = "Job/research/gpt2-124m"
POD = "spec.template.spec"


@pytest.mark.parametrize(
    ("rule", "file", "old", "new", "text", "object", "path"),
    [
        (
            "RDV005",
            f"{BASE}/service.yaml",
            "publishNotReadyAddresses: true",
            "publishNotReadyAddresses: false",
            "publishNotReadyAddresses: ▸false",
            "Service/research/gpt2-124m",
            "spec.publishNotReadyAddresses",
        ),
        (
            "RDV004",
            f"{BASE}/service.yaml",
            "  selector:\n    trainyard.dev/job:",
            "  selector:\n    app: trainer\n    trainyard.dev/job:",
            "app: ▸trainer",
            "Service/research/gpt2-124m",
            "spec.selector.app",
        ),
        (
            "RDV004",
            f"{BASE}/service.yaml",
            "clusterIP: None",
            'clusterIP: ""',
            'clusterIP: ▸""',
            "Service/research/gpt2-124m",
            "spec.clusterIP",
        ),
        (
            "NET001",
            f"{RUN}/network-policy-peers.yaml",
            "  egress:\n  - to:",
            "    ports:\n    - port: 29400\n  egress:\n  - to:",
            "▸ports:\n    - port",
            "NetworkPolicy/research/gpt2-124m-peers",
            "spec.ingress[0].ports",
        ),
        (
            "STO002",
            f"{RUN}/persistent-volume-claim.yaml",
            "accessModes: [ReadWriteMany]",
            "accessModes: [ReadWriteOnce]",
            "▸accessModes:",
            "PersistentVolumeClaim/research/gpt2-124m-checkpoints",
            "spec.accessModes",
        ),
        (
            "RDV003",
            "base/rendezvous/pod-template.yaml",
            "value: $(RENDEZVOUS_HOST):$(RENDEZVOUS_PORT)",
            "value: $(JOB)-master.$(JOB):$(RENDEZVOUS_PORT)",
            "value: ▸$(JOB)-master",
            TITLE,
            f"{POD}.containers[0].env[PET_RDZV_ENDPOINT]",
        ),
        (
            "RDV007",
            f"{BASE}/job.yaml",
            "completionMode: Indexed",
            "completionMode: NonIndexed",
            "completionMode: ▸NonIndexed",
            TITLE,
            "spec.completionMode",
        ),
        (
            "MEM001",
            f"{RUN}/pod-template.yaml",
            "mountPath: /dev/shm",
            "mountPath: /dev/shmem",
            "▸volumeMounts:",
            TITLE,
            f"{POD}.containers[0].volumeMounts",
        ),
        (
            "SCH001",
            f"{BASE}/job.yaml",
            "podReplacementPolicy:",
            "podReplacementPolice:",
            "▸podReplacementPolice: Failed",
            TITLE,
            "spec.podReplacementPolice",
        ),
        (
            "SEC012",
            f"{RUN}/pod-template.yaml",
            "automountServiceAccountToken: false",
            "automountServiceAccountToken: true",
            "automountServiceAccountToken: ▸true",
            TITLE,
            f"{POD}.automountServiceAccountToken",
        ),
        (
            "SEC002",
            f"{RUN}/training-job.yaml",
            "trainer@sha256:0b6a5a4a5e2c3f4f7dfb3ff13d4b2b9f5e5b0f8f8c6f3f2d2c5d7a1e9b8c7d6a",
            "trainer:v1",
            "image: ▸registry",
            TITLE,
            f"{POD}.containers[0].image",
        ),
        (
            "STO001",
            f"{RUN}/pod-template.yaml",
            "claimName: datasets",
            "claimName: datasets\n        readOnly: true\n    - name: more\n      persistentVolumeClaim:\n"
            "        claimName: more-datasets",
            "claimName: ▸more",
            TITLE,
            f"{POD}.volumes[more].persistentVolumeClaim.claimName",
        ),
        (
            "STO004",
            f"{RUN}/config-map-trainer.yaml",
            "DIR: /checkpoints",
            "DIR: /checkpoint",
            "DIR: ▸/checkpoint",
            "ConfigMap/research/gpt2-124m-trainer",
            "data.TRAINER_CHECKPOINT_DIR",
        ),
    ],
)
def test_one_line_of_the_base(
    checkout: Checkout, rule: str, file: str, old: str, new: str, text: str, object: str, path: str
) -> None:
    checkout.replace(file, old, new)
    checkout.expect(Found(rule, file, text, object, path))


def test_ready_pods_alone_are_published(checkout: Checkout) -> None:
    checkout.replace(f"{BASE}/service.yaml", "  publishNotReadyAddresses: true\n", "")
    checkout.expect(
        Found("RDV005", f"{BASE}/service.yaml", "▸spec:", "Service/research/gpt2-124m", "spec.publishNotReadyAddresses")
    )


def test_dns_is_closed(checkout: Checkout) -> None:
    checkout.replace(f"{RUN}/kustomization.yaml", "- network-policy-dns.yaml\n", "")
    [finding] = checkout.lint()[1]["findings"]
    assert (finding["rule"], finding["file"], finding["jobs"]) == (
        "NET003",
        f"{RUN}/network-policy-deny.yaml",
        list(BOTH),
    )


def test_peers_are_closed(checkout: Checkout) -> None:
    checkout.replace(f"{RUN}/kustomization.yaml", "- network-policy-peers.yaml\n", "")
    [finding] = checkout.lint()[1]["findings"]
    assert (finding["rule"], finding["file"], finding["jobs"]) == (
        "NET001",
        f"{RUN}/network-policy-deny.yaml",
        list(BOTH),
    )


def test_service_is_left_out(checkout: Checkout) -> None:
    checkout.replace(f"{BASE}/kustomization.yaml", "- service.yaml\n", "")
    [one, other] = checkout.lint()[1]["findings"]
    assert [(each["rule"], each["path"]) for each in (one, other)] == [("RDV004", f"{POD}.subdomain")] * 2
    assert [one["file"], other["file"]] == [f"{GPT2}/job.yaml", f"{LLAMA}/job.yaml"]


def test_mistake_reaches_the_one_job_that_is_linted(checkout: Checkout) -> None:
    checkout.replace(f"{RUN}/persistent-volume-claim.yaml", "ReadWriteMany", "ReadWriteOnce")
    code, document = checkout.lint(LLAMA)
    assert (code, [finding["jobs"] for finding in document["findings"]]) == (1, [[LLAMA]])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("policyTypes: [Egress]", "policyTypes: [Ingress]"),
        ("    - protocol: UDP\n      port: 53\n", ""),
        ("protocol: UDP\n      port: 53", "protocol: UDP\n      port: 5353"),
    ],
)
def test_dns_is_not_let_through(checkout: Checkout, old: str, new: str) -> None:
    checkout.replace(f"{RUN}/network-policy-dns.yaml", old, new)
    _, document = checkout.lint()
    assert {found["rule"] for found in document["findings"]} == {"NET003"}
