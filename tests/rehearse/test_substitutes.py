"""What is put in place of a job's own settings fits together."""

import pytest

from trainyard.rehearse.substitutes import Substitutes


@pytest.mark.parametrize(
    ("steps", "written", "warmup"), [(6, "2000", "2"), (2, "2000", "1"), (1, "2000", "0"), (6, "0", "0")]
)
def test_warm_up_leaves_steps_to_train(steps: int, written: str, warmup: str) -> None:
    assert Substitutes(steps, 2, trains=True).variable("TRAINER_WARMUP_STEPS", written) == warmup
