"""A step of training is known in the lines of the usual programs, and nowhere else."""

import pytest

from trainyard.errors import UsageError
from trainyard.rehearse.steps import pattern_of, step_in

BAR = "█"


@pytest.mark.parametrize(
    ("line", "number", "loss"),
    [
        ('{"step": 3, "loss": 1.5, "samples_per_second": 9}', 3, 1.5),
        ('rank 0: {"global_step": 12, "train_loss": "2.5"}', 12, 2.5),
        ("step 5 loss 0.27", 5, 0.27),
        ("Step: 5, Loss: 1.2e-3", 5, 0.0012),
        ("[2026-01-01 10:00:00] step=5 train_loss=nan lr=0.1", 5, float("nan")),
        ("iter 250: loss 3.1234, time 120.12ms, mfu 12%", 250, 3.1234),  # nanoGPT
        ("Epoch 1 | Batch 20 | Loss 0.3", 20, 0.3),
        ("[Epoch 1, Step 20/100] loss: 1.25", 20, 1.25),
        ("epoch 3: loss 0.5", 3, 0.5),
        ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.3", 2, 2.3),  # PyTorch's MNIST
        (
            " [2026-01-01 10:00:00] iteration        5/     100 | consumed samples:          80 | elapsed time per "
            "iteration (ms): 500.1 | learning rate: 1.5E-04 | global batch size:    16 | lm loss: 1.071E+01 |",
            5,
            10.71,
        ),  # Megatron
        ("[2026-01-01 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05]", 10, None),
        ("steps: 10 loss: 7.3672 iter time (s): 0.123 samples/sec: 65.0", 10, 7.3672),  # DeepSpeed's pipeline
        (
            "\x1b[31mstep:  7  \x1b[32mloss:  8.1325  \x1b[33mmemory: 1.2GiB(3%)  tps: 1,234\x1b[39m",
            7,
            8.1325,
        ),  # torchtitan
        (f" 42%|{BAR}{BAR}     | 5/12 [00:00<00:01,  6.80it/s]", 5, None),  # Hugging Face
        (f"Steps:  10%|{BAR}   | 3/30 [00:03<00:27,  1.10s/it, lr=1e-5, step_loss=0.09]", 3, 0.09),  # diffusers
        (f"Epoch 2:  40%|{BAR}   | 4/10 [00:01<00:02, 8.90it/s, v_num=0, train_loss=0.31]", 24, 0.31),  # Lightning
        ("{'loss': '3.914', 'grad_norm': '1.16', 'learning_rate': '4.583e-05', 'epoch': '0.007812'}", None, 3.914),
        ("{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.01}", None, 2.1),
        ("10/20 ━━━━━━━━━━━━━━━━━━━━ 1s 50ms/step - accuracy: 0.1 - loss: 2.30", 10, 2.3),  # Keras
    ],
)
def test_a_step_is_known(line: str, number: int | None, loss: float | None) -> None:
    found = step_in(line)

    assert found is not None
    assert (found.number, found.loss) == (number, pytest.approx(loss, nan_ok=True) if loss is not None else None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Step 1/10 : FROM python:3.11",
        "  Total optimization steps = 1,000",
        "max_steps=1000, save_steps=500, learning_rate=5e-05",
        "TrainingArguments(logging_steps=10, loss=None)",
        f"Writing model shards: 100%|{BAR}| 1/1 [00:00<00:00, 33.73it/s]",
        f"Map:  50%|{BAR}  | 500/1000 [00:00<00:00, 9000 examples/s]",
        f"Loading checkpoint shards:  50%|{BAR}  | 1/2 [00:01<00:01, 1.0s/it]",
        "  0%|          | 0/12 [00:00<?, ?it/s]",
        "{'train_runtime': '1.034', 'train_samples_per_second': '23.2', 'train_loss': '3.908', 'epoch': '0.04688'}",
        '{"step": "one", "loss": 1}',
        '{"world_size": 4, "steps": 6}',
        "the loss of packets was 5 in step with the load",
        "batch size 8, learning rate 1e-4",
        "{" * 5000,
    ],
)
def test_what_is_no_step_is_none(line: str) -> None:
    assert step_in(line) is None


def test_another_form_can_be_told() -> None:
    assert step_in("done with 1,200 of many", pattern_of(r"done with ([\d,]+)")).number == 1200  # type: ignore[union-attr]
    named = step_in("at 7: L=0.5", pattern_of(r"at (?P<step>\d+): L=(?P<loss>\S+)"))
    assert named is not None
    assert (named.number, named.loss) == (7, 0.5)
    assert step_in("step 5 loss 1", pattern_of(r"at (\d+)")) is None


@pytest.mark.parametrize(("form", "message"), [(r"(\d+", "missing"), (r"at \d+", "expected a group")])
def test_a_form_that_is_none_is_said(form: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pattern_of(form)
