"""What only shows at full size is said, though fewer ranks train a smaller model."""

from pathlib import Path

import pytest

from tests.controlplane.checkout import add_job, make_checkout
from tests.rehearse.rehearsing import rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root]
ONE_RANK = ("--nodes", "1", "--gpus-per-node", "1", "--once", "--steps", "1")


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
