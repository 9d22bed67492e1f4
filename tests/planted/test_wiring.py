"""Mistakes in base/wiring that kustomize stops at, or does not."""

import pytest

from tests.planted.checkout import GPT2, Checkout, Found

pytestmark = pytest.mark.commands

WIRING = "base/wiring/job.yaml"
PODS = "base/wiring/pod-template.yaml"
SOURCE = "▸source:\n    kind: {kind}\n    fieldPath: {path}\n"


def test_source_field_is_missing(checkout: Checkout) -> None:
    checkout.replace(WIRING, "fieldPath: spec.nodes\n", "fieldPath: spec.nodez\n")
    checkout.expect(Found("CTR007", WIRING, SOURCE.format(kind="TrainingJob", path="spec.nodez")))


def test_source_kind_is_missing(checkout: Checkout) -> None:
    checkout.replace(
        WIRING, "kind: TrainingJob\n    fieldPath: spec.nodes\n", "kind: Trainingjob\n    fieldPath: spec.nodes\n"
    )
    checkout.expect(Found("CTR007", WIRING, SOURCE.format(kind="Trainingjob", path="spec.nodes")))


def test_target_field_is_missing(checkout: Checkout) -> None:
    checkout.replace(WIRING, "    - spec.parallelism\n", "    - spec.template.spec.nodes\n")
    checkout.expect(Found("CTR007", WIRING, SOURCE.format(kind="TrainingJob", path="spec.nodes")))


def test_a_patch_that_replaces_a_list_of_the_base(checkout: Checkout) -> None:
    """envFrom has no merge key: what a patch lists stands alone."""
    checkout.replace(
        f"{GPT2}/kustomization.yaml",
        "transformers:\n",
        """\
- patch: |
    apiVersion: v1
    kind: PodTemplate
    metadata: {name: training-job}
    template:
      spec:
        containers:
        - name: trainer
          envFrom:
          - secretRef: {name: keys}
transformers:
""",
    )
    checkout.expect(Found("CTR007", f"{GPT2}/kustomization.yaml", "▸- secretRef: {name: keys}"))


def test_delimiter_is_not_in_the_target(checkout: Checkout) -> None:
    block = "envFrom.1.configMapRef.name\n    options:\n      delimiter: "
    checkout.replace(PODS, f"{block}-nccl", f"{block}-ncl")
    path = "template.spec.containers[0].envFrom[1].configMapRef.name"
    first = "replacements:\n- ▸source:\n    kind: TrainingJob\n    fieldPath: metadata.name\n"
    checkout.expect(Found("CTR007", PODS, first, "PodTemplate/research/training-job", path))


def test_replacement_is_left_out(checkout: Checkout) -> None:
    text = (checkout.root / WIRING).read_text()
    start = text.index("- source:\n    kind: TrainingJob\n    fieldPath: spec.gpusPerNode")
    end = text.index("- source:", start + 1)
    checkout.replace(WIRING, text[start:end], "")
    file = "base/rendezvous/pod-template.yaml"
    checkout.replace(file, 'value: "8"', 'value: "16"')
    path = "spec.template.spec.containers[0].env[PET_NPROC_PER_NODE]"
    checkout.expect(Found("RDV002", file, 'value: ▸"16"', "Job/research/gpt2-124m", path))


def test_file_of_the_wiring_is_left_out(checkout: Checkout) -> None:
    checkout.replace("base/wiring/kustomization.yaml", "- service.yaml\n", "")
    code, document = checkout.lint()
    assert code == 1
    assert {(finding["rule"], finding["file"]) for finding in document["findings"]} == {
        ("CTR001", "base/torchrun/service.yaml")
    }


def test_facts_are_not_deleted(checkout: Checkout) -> None:
    checkout.replace("base/wiring/kustomization.yaml", "- facts\n", "")
    checkout.expect()
