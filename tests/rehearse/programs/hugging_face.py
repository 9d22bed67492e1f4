"""A fine-tuning script as people write it: Hugging Face's Trainer, a small model, a data set in memory."""

import os
import time

from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Samples:
    """Rows of tokens that count up."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        tokens = [(index + place) % 64 for place in range(16)]
        return {"input_ids": tokens, "labels": tokens}


class Moment(TrainerCallback):  # type: ignore[misc]
    """A step of a real model takes longer than its save: what happens after a step does not meet the next save."""

    def on_step_begin(self, *_: object, **__: object) -> None:
        time.sleep(0.4)


(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=16))
trainer = Trainer(model=model, args=arguments, train_dataset=Samples(), callbacks=[Moment()])
last = get_last_checkpoint(arguments.output_dir) if os.path.isdir(arguments.output_dir) else None
trainer.train(resume_from_checkpoint=last)
