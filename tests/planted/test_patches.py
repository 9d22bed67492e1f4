"""Mistakes in patches that lie in the job's folder."""

import pytest

from tests.planted.checkout import LLAMA, Checkout, Found

pytestmark = pytest.mark.commands

JOB = "Job/research/llama-8b-sft"
TARGET = "{kind: Job}"
HEAD = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: training-job\n"
POD = "spec.template.spec"
OF_PODS = "{kind: PodTemplate}"
PODS = "apiVersion: v1\nkind: PodTemplate\nmetadata:\n  name: training-job\ntemplate:\n"


def test_job_deletes_itself(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, HEAD + "spec:\n  ttlSecondsAfterFinished: 3600\n")
    checkout.expect(Found("GIT001", patch, "ttlSecondsAfterFinished: ▸3600", JOB, "spec.ttlSecondsAfterFinished"))


def test_job_is_suspended(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, HEAD + "spec:\n  suspend: true\n")
    checkout.expect(Found("GIT003", patch, "suspend: ▸true", JOB, "spec.suspend"))


def test_word_for_number_by_json_patch(checkout: Checkout) -> None:
    path = "/template/spec/containers/0/env/-"
    value = "{name: NCCL_IB_TIMEOUT, value: long}"
    patch = checkout.patch(LLAMA, f"- op: add\n  path: {path}\n  value: {value}\n", OF_PODS)
    checkout.expect(Found("ENV001", patch, "value: ▸long", JOB, f"{POD}.containers[0].env[NCCL_IB_TIMEOUT]"))


def test_variable_stands_twice(checkout: Checkout) -> None:
    path = "/template/spec/containers/0/env/-"
    patch = checkout.patch(LLAMA, f"- op: add\n  path: {path}\n  value: {{name: PET_RDZV_ID, value: llama}}\n", OF_PODS)
    [finding] = checkout.expect(
        Found("ENV008", patch, "value: ▸{name: PET", JOB, f"{POD}.containers[0].env[PET_RDZV_ID]")
    )
    assert finding["related"][0]["file"] == "base/rendezvous/pod-template.yaml"


def test_misspelt_field(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, HEAD + "spec:\n  activeDeadlineSecond: 3600\n")
    checkout.expect(Found("SCH001", patch, "▸activeDeadlineSecond: 3600", JOB, "spec.activeDeadlineSecond"))


def test_text_for_number(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, HEAD + "spec:\n  activeDeadlineSeconds: 1h\n")
    checkout.expect(Found("SCH001", patch, "activeDeadlineSeconds: ▸1h", JOB, "spec.activeDeadlineSeconds"))


def test_ranks_may_not_run_at_once(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, HEAD + "spec:\n  completionMode: NonIndexed\n")
    checkout.expect(Found("RDV007", patch, "completionMode: ▸NonIndexed", JOB, "spec.completionMode"))


def test_container_name_is_misspelt(checkout: Checkout) -> None:
    lines = "  spec:\n    containers:\n    - name: trianer\n      workingDir: /work\n"
    patch = checkout.patch(LLAMA, PODS + lines)
    checkout.expect(Found("CTR014", patch, "- name: ▸trianer", JOB, f"{POD}.containers[0].name"))


def test_helper_image_by_tag(checkout: Checkout) -> None:
    lines = "  spec:\n    initContainers:\n    - name: fetch\n      image: busybox:1.36\n"
    patch = checkout.patch(LLAMA, PODS + lines)
    place = (patch, "image: ▸busybox", JOB, f"{POD}.initContainers[0].image")
    checkout.expect(Found("SEC002", *place), Found("SEC011", *place))


def test_shared_memory_is_taken_away(checkout: Checkout) -> None:
    lines = "  spec:\n    containers:\n    - name: trainer\n      volumeMounts:\n"
    lines += "      - mountPath: /dev/shm\n        $patch: delete\n"
    patch = checkout.patch(LLAMA, PODS + lines)
    [finding] = checkout.lint()[1]["findings"]
    assert (finding["rule"], finding["object"]) == ("MEM001", JOB)
    assert finding["file"] in (patch, "base/run/pod-template.yaml")


def test_token_is_mounted(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, PODS + "  spec:\n    automountServiceAccountToken: true\n")
    checkout.expect(
        Found("SEC012", patch, "automountServiceAccountToken: ▸true", JOB, f"{POD}.automountServiceAccountToken")
    )


def test_service_gets_an_address(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, "- op: replace\n  path: /spec/clusterIP\n  value: 10.1.2.3\n", "{kind: Service}")
    checkout.expect(Found("RDV004", patch, "value: ▸10.1.2.3", "Service/research/llama-8b-sft", "spec.clusterIP"))


def test_service_selects_by_a_label_that_no_pod_has(checkout: Checkout) -> None:
    head = HEAD.replace("batch/v1", "v1").replace("Job\n", "Service\n")
    patch = checkout.patch(LLAMA, head + "spec:\n  selector:\n    trainyard.dev/part: workers\n")
    checkout.expect(
        Found("RDV004", patch, "part: ▸workers", "Service/research/llama-8b-sft", "spec.selector[trainyard.dev/part]")
    )


def test_default_name_in_a_patch(checkout: Checkout) -> None:
    lines = "  spec:\n    dnsConfig:\n      searches: [training-job]\n"
    patch = checkout.patch(LLAMA, PODS + lines)
    checkout.expect(Found("CTR001", patch, "[▸training-job]", JOB, f"{POD}.dnsConfig.searches[0]"))


def test_config_map_of_the_job_is_not_there(checkout: Checkout) -> None:
    path = "/template/spec/containers/0/envFrom/-"
    patch = checkout.patch(
        LLAMA, f"- op: add\n  path: {path}\n  value: {{configMapRef: {{name: llama-8b-sft-extra}}}}\n", OF_PODS
    )
    checkout.expect(Found("CTR015", patch, "name: ▸llama", JOB, f"{POD}.containers[0].envFrom[3].configMapRef.name"))


def test_json_patch_takes_away_what_is_not_there(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, "- op: remove\n  path: /spec/activeDeadlineSeconds\n", TARGET)
    checkout.expect(Found("INP001", patch, "▸- op: remove"))


def test_file_of_a_patch_does_not_exist(checkout: Checkout) -> None:
    checkout.replace(f"{LLAMA}/kustomization.yaml", "transformers:\n", "- path: nodes.yaml\ntransformers:\n")
    checkout.expect(Found("INP001", f"{LLAMA}/kustomization.yaml", "path: ▸nodes.yaml"))


@pytest.mark.parametrize(
    ("path", "value", "text", "field"),
    [
        ("/template/spec/hostPID", "true", "value: ▸true", f"{POD}.hostPID"),
        (
            "/template/spec/volumes/-",
            "{name: node, hostPath: {path: /}}",
            "▸hostPath",
            f"{POD}.volumes[node].hostPath",
        ),
        ("/template/spec/securityContext/runAsUser", "0", "value: ▸0", f"{POD}.securityContext.runAsUser"),
        (
            "/template/spec/initContainers",
            f"[{{name: i, image: 'registry.example.com/t@sha256:{'0' * 64}', securityContext: {{privileged: true}}}}]",
            "privileged: ▸true",
            f"{POD}.initContainers[0].securityContext.privileged",
        ),
    ],
)
def test_job_takes_over_the_node(checkout: Checkout, path: str, value: str, text: str, field: str) -> None:
    patch = checkout.patch(LLAMA, f"- op: add\n  path: {path}\n  value: {value}\n", OF_PODS)
    checkout.expect(Found("SEC005", patch, text, JOB, field))


def test_volume_that_is_mounted_is_not_there(checkout: Checkout) -> None:
    path = "/template/spec/containers/0/volumeMounts/-"
    patch = checkout.patch(LLAMA, f"- op: add\n  path: {path}\n  value: {{name: extra, mountPath: /extra}}\n", OF_PODS)
    checkout.expect(Found("STO006", patch, "name: ▸extra", JOB, f"{POD}.containers[0].volumeMounts[extra].name"))


GENERATED = """configMapGenerator:
- name: llama-8b-sft-extra
  literals: [LEVEL=debug]
"""
FROM_EXTRA = """- op: add
  path: /template/spec/containers/0/envFrom/-
  value: {configMapRef: {name: llama-8b-sft-extra}}
"""


def test_a_generated_config_map_is_found_by_its_hash(checkout: Checkout) -> None:
    """kustomize carries the hash into the pods of a Job: what is copied there ends otherwise, and right."""
    checkout.append(f"{LLAMA}/kustomization.yaml", GENERATED)
    checkout.patch(LLAMA, FROM_EXTRA, OF_PODS)
    checkout.expect()


def test_the_hash_of_a_generated_config_map_is_not_carried_into_custom_resources(checkout: Checkout) -> None:
    checkout.replace(f"{LLAMA}/kustomization.yaml", "../../../base/torchrun", "../../../base/mpijob")
    checkout.append(f"{LLAMA}/kustomization.yaml", GENERATED)
    patch = checkout.patch(LLAMA, FROM_EXTRA, OF_PODS)
    _, document = checkout.lint(LLAMA)
    [found] = [each for each in document["findings"] if each["rule"] == "CTR015"]
    assert (found["file"], "disableNameSuffixHash: true" in found["help"]) == (patch, True)


def test_a_config_map_by_the_name_of_the_operators_own(checkout: Checkout) -> None:
    checkout.replace(f"{LLAMA}/kustomization.yaml", "../../../base/torchrun", "../../../base/mpijob")
    own = GENERATED.replace("-extra", "-config") + "  options: {disableNameSuffixHash: true}\n"
    checkout.append(f"{LLAMA}/kustomization.yaml", own)
    _, document = checkout.lint(LLAMA)
    assert "MPI012" in {each["rule"] for each in document["findings"]}
