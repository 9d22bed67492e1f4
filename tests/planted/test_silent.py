"""What kustomize lets pass without a word: each silent failure of the contract, caught."""

import pytest

from tests.planted.checkout import BOTH, GPT2, LLAMA, Checkout, Found
from tests.planted.test_patches import HEAD, JOB, POD, PODS, TARGET

pytestmark = pytest.mark.commands

CONTAINER = "  spec:\n    containers:\n    - name: trainer\n"
OF_THE_POD = "template.spec"
TEMPLATE = "PodTemplate/research/training-job"
GPT2_JOB = "Job/research/gpt2-124m"
WIRING = "base/wiring/job.yaml"
PODS_WIRING = "base/wiring/pod-template.yaml"
KUSTOMIZATION = f"{LLAMA}/kustomization.yaml"
LLAMA_JOB = f"{LLAMA}/job.yaml"
FACTS = "TrainingJob/research/llama-8b-sft"


class TestSurvivingDefaultName:
    """Renaming by replacement updates no reference: a field that is not wired keeps the base's name."""

    def test_subdomain_is_not_wired(self, checkout: Checkout) -> None:
        checkout.replace(WIRING, "    - spec.template.spec.subdomain\n", "")
        checkout.expect(
            Found("CTR001", "base/torchrun/pod-template.yaml", "subdomain: ▸training-job", GPT2_JOB, f"{POD}.subdomain")
        )

    def test_name_that_the_endpoint_is_made_from_is_not_wired(self, checkout: Checkout) -> None:
        checkout.replace(PODS_WIRING, "    - template.spec.containers.[name=^trainer$].env.[name=^JOB$].value\n", "")
        path = f"{POD}.containers[0].env[JOB]"
        checkout.expect(
            Found("CTR001", "base/run/pod-template.yaml", "- name: JOB\n        value: ▸training-job", GPT2_JOB, path)
        )

    def test_label_that_a_policy_selects_by_is_not_wired(self, checkout: Checkout) -> None:
        field = "    - spec.egress.0.to.0.podSelector.matchLabels.[trainyard.dev/job]\n"
        checkout.replace("base/wiring/network-policy.yaml", field, "")
        text = "egress:\n  - to:\n    - podSelector:\n        matchLabels:\n          trainyard.dev/job: ▸training-job"
        path = "spec.egress[0].to[0].podSelector.matchLabels[trainyard.dev/job]"
        checkout.expect(
            Found(
                "CTR001",
                "base/run/network-policy-peers.yaml",
                text,
                "NetworkPolicy/research/gpt2-124m-peers",
                path,
            )
        )

    def test_config_map_is_not_renamed(self, checkout: Checkout) -> None:
        block = (
            "  - select:\n      kind: ConfigMap\n      name: training-job-nccl\n    fieldPaths:\n    - metadata.name\n"
        )
        checkout.replace("base/wiring/names.yaml", block + "    options:\n      delimiter: -nccl\n      index: 0\n", "")
        title = "ConfigMap/research/training-job-nccl"
        checkout.expect(
            Found("CTR001", "base/run/config-map-nccl.yaml", "name: ▸training-job-nccl", title, "metadata.name")
        )


class TestWiredTargetUnequalToSource:
    def test_two_replacements_write_one_field(self, checkout: Checkout) -> None:
        checkout.replace(
            WIRING,
            "    fieldPaths:\n    - spec.backoffLimit\n",
            "    fieldPaths:\n    - spec.backoffLimit\n    - spec.completions\n",
        )
        checkout.expect(
            Found(
                "CTR002",
                WIRING,
                "▸source:\n    kind: TrainingJob\n    fieldPath: spec.nodes\n",
                GPT2_JOB,
                "spec.completions",
            )
        )


class TestOverwrittenPatch:
    def test_strategic_patch_on_a_wired_field(self, checkout: Checkout) -> None:
        patch = checkout.patch(LLAMA, HEAD + "spec:\n  completions: 8\n")
        [finding] = checkout.expect(Found("CTR003", patch, "completions: ▸8", JOB, "spec.completions"))
        assert finding["related"][0]["file"] == f"{LLAMA}/job.yaml"

    def test_json_patch_on_a_wired_field(self, checkout: Checkout) -> None:
        patch = checkout.patch(LLAMA, "- op: replace\n  path: /spec/parallelism\n  value: 8\n", TARGET)
        checkout.expect(Found("CTR003", patch, "value: ▸8", JOB, "spec.parallelism"))

    def test_image_by_patch(self, checkout: Checkout) -> None:
        patch = checkout.patch(LLAMA, PODS + CONTAINER + "      image: registry.example.com/llama:v2\n")
        checkout.expect(Found("CTR003", patch, "image: ▸registry", TEMPLATE, f"{OF_THE_POD}.containers[0].image"))

    def test_command_that_a_later_replacement_writes_into_the_copy(self, checkout: Checkout) -> None:
        patch = checkout.patch(LLAMA, PODS + CONTAINER + "      command: [python, -m, trainer]\n")
        [finding] = checkout.expect(
            Found("CTR003", patch, "[▸python", TEMPLATE, f"{OF_THE_POD}.containers[0].command[0]")
        )
        assert finding["help"] == "set spec.command[0] of TrainingJob instead"

    def test_pod_of_the_job_itself(self, checkout: Checkout) -> None:
        patch = checkout.patch(LLAMA, HEAD + "spec:\n  template:\n    spec:\n      hostIPC: true\n")
        [finding] = checkout.expect(Found("CTR003", patch, "hostIPC: ▸true", JOB, f"{POD}.hostIPC"))
        assert finding["help"] == "set template.spec.hostIPC of PodTemplate instead"

    def test_pod_of_the_job_itself_by_json_patch(self, checkout: Checkout) -> None:
        path = "/spec/template/spec/volumes/-"
        patch = checkout.patch(LLAMA, f"- op: add\n  path: {path}\n  value: {{name: x, emptyDir: {{}}}}\n", TARGET)
        [finding] = checkout.expect(Found("INP001", patch, "▸- op: add"))
        assert "patch that one, at /template/spec/volumes/-" in finding["message"]

    def test_resources_under_a_wired_map(self, checkout: Checkout) -> None:
        lines = "      resources:\n        limits:\n          memory: 64Gi\n"
        patch = checkout.patch(LLAMA, PODS + CONTAINER + lines)
        path = f"{OF_THE_POD}.containers[0].resources.limits.memory"
        checkout.expect(Found("CTR003", patch, "memory: ▸64Gi", TEMPLATE, path))

    def test_nccl_settings_under_a_wired_map(self, checkout: Checkout) -> None:
        patch = checkout.patch(
            LLAMA, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: training-job-nccl\ndata:\n  NCCL_DEBUG: INFO\n"
        )
        checkout.expect(
            Found("CTR003", patch, "NCCL_DEBUG: ▸INFO", "ConfigMap/research/llama-8b-sft-nccl", "data.NCCL_DEBUG")
        )

    def test_image_by_transformer(self, checkout: Checkout) -> None:
        checkout.replace(KUSTOMIZATION, "transformers:\n", "images:\n- name: trainer\n  newTag: v2\ntransformers:\n")
        checkout.expect(Found("CTR003", KUSTOMIZATION, "newTag: ▸v2"))


class TestSettingWithoutEffect:
    def test_policy_without_deepspeed(self, checkout: Checkout) -> None:
        checkout.replace(f"{LLAMA}/job.yaml", "  parallelism: fsdp\n", "  parallelism: fsdp\n  deepspeed: zero-3\n")
        checkout.expect(Found("CTR018", LLAMA_JOB, "deepspeed: ▸zero-3", FACTS, "spec.deepspeed"))

    def test_priority_without_a_queue(self, checkout: Checkout) -> None:
        checkout.replace(f"{LLAMA}/job.yaml", "  nodes: 4\n", "  nodes: 4\n  priority: high\n")
        checkout.expect(Found("CTR018", LLAMA_JOB, "priority: ▸high", FACTS, "spec.priority"))

    def test_priority_with_a_queue(self, checkout: Checkout) -> None:
        checkout.replace(f"{LLAMA}/job.yaml", "  nodes: 4\n", "  nodes: 4\n  priority: high\n")
        checkout.replace(KUSTOMIZATION, "patches:\n", "components:\n- ../../../base/queue/kueue\npatches:\n")
        checkout.expect()


class TestMapIntoText:
    def test_batch_into_a_setting(self, checkout: Checkout) -> None:
        checkout.replace("base/wiring/config-map.yaml", "fieldPath: spec.batch.micro\n", "fieldPath: spec.batch\n")
        checkout.expect(
            Found(
                "CTR004",
                "base/wiring/config-map.yaml",
                "▸source:\n    kind: TrainingJob\n    fieldPath: spec.batch\n",
                "ConfigMap/research/gpt2-124m-trainer",
                "data.TRAINER_MICRO_BATCH",
            )
        )


class TestVanishedContainers:
    FOREIGN = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bert
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          automountServiceAccountToken: false
          containers:
          - name: pytorch
            image: registry.example.com/bert@sha256:0b6a5a4a5e2c3f4f7dfb3ff13d4b2b9f5e5b0f8f8c6f3f2d2c5d7a1e9b8c7d6a
            command: [python, train.py]
"""
    PATCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bert
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            env:
            - name: NCCL_DEBUG
              value: WARN
"""

    def test_strategic_patch_on_a_pytorchjob(self, checkout: Checkout) -> None:
        checkout.write("foreign/pytorchjob.yaml", self.FOREIGN)
        checkout.write("foreign/patch.yaml", self.PATCH)
        checkout.write("foreign/kustomization.yaml", "resources:\n- pytorchjob.yaml\npatches:\n- path: patch.yaml\n")
        checkout.expect(
            Found(
                "CTR005",
                "foreign/patch.yaml",
                "▸containers:",
                "PyTorchJob/bert",
                "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]",
                ("foreign",),
            ),
            lint=("foreign",),
        )


class TestPatchThatHitsNothing:
    @pytest.mark.parametrize(
        ("target", "text"),
        [
            ("{kind: Jobb}", "- op: add\n  path: /spec/suspend\n  value: false\n"),
            ("{kind: Job, name: llama-8b-sft}", "- op: add\n  path: /spec/suspend\n  value: false\n"),
            ("", HEAD.replace("training-job", "llama-8b-sft") + "spec:\n  suspend: false\n"),
        ],
    )
    def test_target_matches_no_object(self, checkout: Checkout, target: str, text: str) -> None:
        checkout.patch(LLAMA, text, target)
        checkout.expect(Found("INP001", KUSTOMIZATION, "- ▸path: patch.yaml"))


class TestFactsMissingOrDoubled:
    def test_no_cluster(self, checkout: Checkout) -> None:
        checkout.replace(
            KUSTOMIZATION, "- ../../../clusters/gpu-east/facts # where it runs, and so on what fabric\n", ""
        )
        checkout.expect(Found("CTR006", KUSTOMIZATION, "▸resources:"))

    def test_two_clusters(self, checkout: Checkout) -> None:
        checkout.replace(KUSTOMIZATION, "patches:\n", "- ../../../clusters/lab-west/facts\npatches:\n")
        [finding] = checkout.expect(Found("CTR006", KUSTOMIZATION, "▸resources:"))
        assert [place["file"] for place in finding["related"]] == [
            "overlays/rdma/fabric.yaml",
            "overlays/ethernet/fabric.yaml",
            "clusters/gpu-east/facts/cluster.yaml",
            "clusters/lab-west/facts/cluster.yaml",
        ]

    def test_cluster_without_a_fabric(self, checkout: Checkout) -> None:
        checkout.replace("clusters/gpu-east/facts/kustomization.yaml", "- ../../../overlays/rdma\n", "")
        checkout.expect(Found("CTR006", KUSTOMIZATION, "▸resources:"))

    def test_no_base(self, checkout: Checkout) -> None:
        checkout.replace(KUSTOMIZATION, "- ../../../base/torchrun # how it is launched\n", "")
        checkout.expect(Found("CTR006", KUSTOMIZATION, "▸resources:"))

    def test_wiring_is_left_out(self, checkout: Checkout) -> None:
        checkout.replace(KUSTOMIZATION, "transformers:\n- ../../../base/wiring\n", "")
        checkout.expect(Found("CTR010", KUSTOMIZATION, "▸resources:"))


def test_one_cause_is_one_finding_for_all_jobs(checkout: Checkout) -> None:
    checkout.replace("base/torchrun/service.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false")
    [finding] = checkout.lint()[1]["findings"]
    assert finding["jobs"] == list(BOTH)
    code, document = checkout.lint(GPT2)
    assert (code, [finding["jobs"] for finding in document["findings"]]) == (1, [[GPT2]])
