"""What only shows at full size is said, though fewer ranks train a smaller model."""

import json
from pathlib import Path

import pytest
import yaml

from tests.controlplane.checkout import add_job, make_checkout
from tests.rehearse.rehearsing import rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]
ONE_RANK = ("--nodes", "1", "--gpus-per-node", "1", "--once", "--steps", "1")


@pytest.mark.long
@pytest.mark.parametrize(
    ("spec", "told", "line"),
    [
        (
            {"sequenceLength": 2048},
            "RHS013 as it is written, with 32 ranks, the trainer does not start: sequence_length 2048 is longer than "
            "the context of gpt2-124m, which is 1024",
            "sequenceLength: 2048",
        ),
        (
            {"batch": {"micro": 15, "accumulation": 1, "global": 450}},
            "RHS013 as it is written, with 32 ranks, the trainer does not start: "
            "micro_batch 15 x accumulation 1 x ranks 32 = 480, but global_batch is 450",
            "global: 450",
        ),
    ],
    ids=["sequence length", "batch"],
)
def test_what_the_trainer_refuses_at_full_size_is_told(
    tmp_path: Path, spec: dict[str, object], told: str, line: str
) -> None:
    root = make_checkout(tmp_path / "checkout")
    folder = add_job(root, "refused", spec=spec)

    found = rehearse(folder, *ONE_RANK, cwd=root)

    assert found.code == 1, said(found)
    assert found.findings[0].startswith(told), said(found)
    place = found.document["findings"][0]
    assert (root / place["file"]).read_text().splitlines()[place["line"] - 1].strip() == line


POLICY = {"train_batch_size": 15, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1}}
SETTINGS = {
    "MODEL": "gpt2-124m",
    "DATASET": "/claim/text",
    "CHECKPOINT_DIR": "/claim/checkpoints",
    "RUN": "own",
    "PARALLELISM": "deepspeed",
    "DEEPSPEED_CONFIG": "/policy/zero.json",
    "PRECISION": "bf16",
    "MICRO_BATCH": "15",
    "ACCUMULATION": "1",
    "GLOBAL_BATCH": "15",
    "STEPS": "1000",
    "WARMUP_STEPS": "0",
}


def test_numbers_that_a_policy_repeats_are_no_fault(tmp_path: Path) -> None:
    """The rehearsal takes a smaller batch in another format, and the trainer holds its DeepSpeed file to both."""
    container = {
        "name": "trainer",
        "image": "registry.example.com/trainer:v1",
        "command": ["python", "-m", "trainer"],
        "env": [{"name": f"TRAINER_{name}", "value": value} for name, value in SETTINGS.items()],
        "volumeMounts": [{"name": "claim", "mountPath": "/claim"}, {"name": "policy", "mountPath": "/policy"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    claim = {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}
    volumes = [claim, {"name": "policy", "configMap": {"name": "policy"}}]
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes}}}
    metadata = {"namespace": "research"}
    objects = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**metadata, "name": "own"}, "spec": spec},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": "policy"},
         "data": {"zero.json": json.dumps(POLICY)}},
    ]  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump_all(objects))

    found = rehearse("job.yaml", "--once", "--steps", "1", cwd=tmp_path)

    assert found.code == 0, said(found)
    assert found.document["rehearsal"]["substitutes"]["DeepSpeed policy"] == "auto for train_batch_size, bf16.enabled"
    assert found.runs[0]["steps"] == [1]
