"""Mistakes in job.yaml."""

import pytest

from tests.planted.checkout import BOTH, GPT2, LLAMA, Checkout, Found

pytestmark = pytest.mark.commands

LLAMA_JOB = f"{LLAMA}/job.yaml"
GPT2_JOB = f"{GPT2}/job.yaml"
CONTAINER = "spec.template.spec.containers[0]"


def test_global_batch_is_not_the_product(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "accumulation: 2", "accumulation: 4")
    [finding] = checkout.expect(
        Found("BAT001", LLAMA_JOB, "global: ▸128", "TrainingJob/research/llama-8b-sft", "spec.batch.global")
    )
    assert "256" in finding["message"]


def test_learning_rate_does_not_follow_its_rule(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "learningRate: 2e-5", "learningRate: 3e-5")
    checkout.expect(
        Found("BAT002", LLAMA_JOB, "learningRate: ▸3e-5", "TrainingJob/research/llama-8b-sft", "spec.learningRate")
    )


def test_warm_up_is_longer_than_the_run(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "warmupSteps: 60", "warmupSteps: 6000")
    checkout.expect(
        Found("BAT005", LLAMA_JOB, "warmupSteps: ▸6000", "TrainingJob/research/llama-8b-sft", "spec.warmupSteps")
    )


@pytest.mark.parametrize(
    ("right", "wrong", "text", "path"),
    [
        ("warmupSteps:", "warmupStep:", "▸warmupStep:", "spec.warmupStep"),
        ("nodes: 4", "nodes: four", "nodes: ▸four", "spec.nodes"),
        ("nodes: 4", 'nodes: "4"', 'nodes: ▸"4"', "spec.nodes"),
        ("nodes: 4", "nodes: 4.0", "nodes: ▸4.0", "spec.nodes"),
        ("warmupSteps: 60", "warmupSteps: 6e1", "warmupSteps: ▸6e1", "spec.warmupSteps"),
        ("warmupSteps: 60", "warmupSteps: 0o74", "warmupSteps: ▸0o74", "spec.warmupSteps"),
        ("micro: 2", "micro: 0", "micro: ▸0", "spec.batch.micro"),
        ("learningRate: 2e-5", "learningRate: 2e-5x", "learningRate: ▸2e-5x", "spec.learningRate"),
        ("parallelism: fsdp", "parallelism: fdsp", "parallelism: ▸fdsp", "spec.parallelism"),
        ("size: 2Ti", "size: 2TB", "size: ▸2TB", "spec.checkpoint.size"),
        ("steps: 2000", "steps: 2000\n  rendezvousPort: 70000", "rendezvousPort: ▸70000", "spec.rendezvousPort"),
        ("kind: TrainingJob", "kind: TrainJob", "kind: ▸TrainJob", "kind"),
    ],
)
def test_schema_is_not_met(checkout: Checkout, right: str, wrong: str, text: str, path: str) -> None:
    checkout.replace(LLAMA_JOB, right, wrong)
    kind = "TrainJob" if path == "kind" else "TrainingJob"
    checkout.expect(Found("SCH003", LLAMA_JOB, text, f"{kind}/llama-8b-sft", path))


def test_secret_in_env(checkout: Checkout) -> None:
    checkout.append(LLAMA_JOB, "  env:\n    HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n")
    checkout.expect(
        Found("SEC001", LLAMA_JOB, "HF_TOKEN: ▸hf_", "ConfigMap/research/llama-8b-sft-env", "data.HF_TOKEN")
    )


def test_name_is_not_that_of_the_folder(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "name: llama-8b-sft", "name: llama-8b")
    checkout.expect(Found("CTR009", LLAMA_JOB, "name: ▸llama-8b", "TrainingJob/llama-8b", "metadata.name"))


def test_cluster_is_not_the_one_whose_facts_are_taken(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "  model:", "  cluster: lab-west\n  model:")
    checkout.expect(
        Found("CTR008", LLAMA_JOB, "cluster: ▸lab-west", "TrainingJob/research/llama-8b-sft", "spec.cluster")
    )


def test_more_ranks_than_gpus(checkout: Checkout) -> None:
    checkout.replace(GPT2_JOB, "gpusPerNode: 8", "gpusPerNode: 16")
    checkout.replace(GPT2_JOB, "global: 480", "global: 960")
    checkout.expect(
        Found(
            "RDV002",
            GPT2_JOB,
            "gpusPerNode: ▸16",
            "Job/research/gpt2-124m",
            f"{CONTAINER}.env[PET_NPROC_PER_NODE]",
        )
    )


def test_fewer_ranks_than_gpus(checkout: Checkout) -> None:
    checkout.replace(GPT2_JOB, "gpusPerNode: 8", "gpusPerNode: 4")
    checkout.replace(GPT2_JOB, "global: 480", "global: 240")
    checkout.expect(
        Found(
            "RDV009",
            GPT2_JOB,
            "gpusPerNode: ▸4",
            "Job/research/gpt2-124m",
            f"{CONTAINER}.env[PET_NPROC_PER_NODE]",
        )
    )


def test_more_nodes_than_the_cluster_has(checkout: Checkout) -> None:
    checkout.replace(GPT2_JOB, "nodes: 4", "nodes: 400")
    checkout.replace(GPT2_JOB, "global: 480", "global: 48000")
    checkout.expect(Found("CTR011", GPT2_JOB, "nodes: ▸400", "TrainingJob/research/gpt2-124m", "spec.nodes"))


def test_more_nodes_than_the_queue_has(checkout: Checkout) -> None:
    """Said once for all resources, at the number of nodes, in the units of the quota."""
    quota = "clusters/gpu-east/platform/research/resource-quota.yaml"
    checkout.replace(quota, "requests.memory: 57664Gi", "requests.memory: 3600Gi")
    checkout.replace(
        f"{LLAMA}/kustomization.yaml", "transformers:\n", "components:\n- ../../../base/queue/kueue\ntransformers:\n"
    )

    code, document = checkout.lint(LLAMA)

    (namespace, queue) = document["findings"]
    assert (code, namespace["rule"], queue["rule"]) == (1, "RES008", "QUE014")
    assert queue["message"] == "the job asks for 7200Gi memory, but queue research has 3600Gi at most"
    assert (queue["file"], queue["line"]) == (LLAMA_JOB, 10)


def test_dataset_that_the_cluster_does_not_have(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "claim: datasets", "claim: dataset")
    checkout.expect(
        Found(
            "STO001",
            LLAMA_JOB,
            "claim: ▸dataset\n",
            "Job/research/llama-8b-sft",
            "spec.template.spec.volumes[dataset].persistentVolumeClaim.claimName",
        )
    )


def test_image_by_tag(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "  model:", "  image: registry.example.com/llama:v2\n  model:")
    checkout.expect(Found("SEC002", LLAMA_JOB, "image: ▸registry", "Job/research/llama-8b-sft", f"{CONTAINER}.image"))


@pytest.mark.parametrize(
    ("rule", "name", "value"),
    [
        ("ENV001", "NCCL_IB_TIMEOUT", "high"),
        ("ENV003", "NCCL_BUFFSIZE", "8M"),
        ("ENV004", "NCCL_IB_TIMEOUT", '"40"'),
    ],
)
def test_variable_of_nccl(checkout: Checkout, rule: str, name: str, value: str) -> None:
    checkout.append(LLAMA_JOB, f"  env:\n    {name}: {value}\n")
    checkout.expect(Found(rule, LLAMA_JOB, f"{name}: ▸{value}", "ConfigMap/research/llama-8b-sft-env", f"data.{name}"))


def test_name_of_a_variable_is_misspelt(checkout: Checkout) -> None:
    checkout.append(LLAMA_JOB, '  env:\n    NCCL_IB_TIMOUT: "22"\n')
    env = "ConfigMap/research/llama-8b-sft-env"
    checkout.expect(Found("ENV002", LLAMA_JOB, "▸NCCL_IB_TIMOUT", env, "data.NCCL_IB_TIMOUT"))


def test_key_stands_twice(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "steps: 2000", "steps: 2000\n  nodes: 8")
    checkout.expect(Found("INP001", LLAMA_JOB, "▸nodes: 8"))


def test_broken_yaml(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "  batch:\n", "  batch: {\n")
    code, document = checkout.lint()
    [finding] = document["findings"]
    assert (code, finding["rule"], finding["file"]) == (2, "INP001", LLAMA_JOB)
    assert finding["line"] > 0


def test_untouched_repository_is_clean(checkout: Checkout) -> None:
    checkout.expect()
    _, document = checkout.lint()
    assert document["summary"]["jobs"] == len(BOTH)


def test_command_starts_no_launcher(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "  model:", "  command: [python, -m, trainer]\n  model:")
    checkout.expect(Found("RDV012", LLAMA_JOB, "▸python, -m", "Job/research/llama-8b-sft", f"{CONTAINER}.command[0]"))


def test_digest_is_cut_short(checkout: Checkout) -> None:
    checkout.replace(LLAMA_JOB, "  model:", "  image: registry.example.com/llama@sha256:0b6a5a4a\n  model:")
    checkout.expect(Found("SEC002", LLAMA_JOB, "image: ▸registry", "Job/research/llama-8b-sft", f"{CONTAINER}.image"))
