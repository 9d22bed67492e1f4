"""Steps of training in what a program prints, whoever wrote it."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trainyard.errors import UsageError

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_LOSS = re.compile(rf"(?i)\b(?:\w*[_ ])?loss\b['\"]?\s*[:=]?\s*\[?['\"]?(?P<loss>{_NUMBER})")
_STEP = re.compile(
    r"(?i)(?<![\w.-])(?:global[_ ]?|train(?:ing)?[_ ]?)?(?:steps?|iter|iteration|batch)\b"
    r"['\"]?\s*[:=#]?\s*\[?\s*(?P<step>\d+)"
)
_EPOCH = re.compile(r"(?i)(?<![\w.-])epoch\b['\"]?\s*[:=#]?\s*\[?\s*(?P<step>\d+)(?![\d.]*\s*%)")
_AT_WORK = re.compile(
    r"(?i)loss\b|\blr\b|learning.rate|it/s|s/it|samples/s|tok(?:en)?s?/s|elapsed|grad.?norm|perplexity"
)
"""What stands beside the number of a step that was taken."""
_BAR = re.compile(r"(?P<name>[^|]*?)\s*\d+%\|[^|]*\|\s*(?P<step>\d+)/(?P<of>\d+) ?\[")
_OF_TRAINING = re.compile(r"(?i)\s*(?:(?:epoch|train\w*|steps?|iterations?)[\s\d/:]*)*\Z")
_OF_EPOCH = re.compile(r"(?i)epoch\s*(\d+)")
_KERAS = re.compile(r"\s*(?P<step>\d+)/(?P<of>\d+)\s.*\bloss: ")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEP_KEYS = ("step", "global_step", "iteration", "iter")
_LOSS_KEYS = ("loss", "train_loss", "training_loss", "lm loss")
EPOCHS, BARS, WORDS = 0, 1, 2
"""How sure a form is: what is more sure takes the place of what is less."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a line tells of."""

    number: int | None
    """None where the line has a loss alone: that of the step before it."""
    loss: float | None = None
    sure: int = WORDS


def pattern_of(text: str) -> re.Pattern[str]:
    """The form that --step-pattern gives. UsageError where it is none."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise UsageError(f"--step-pattern {text}: {error}") from None
    if not found.groups:
        raise UsageError(f"--step-pattern {text}: expected a group for the number of the step, as in 'at (\\d+)'")
    return found


def step_in(text: str, form: re.Pattern[str] | None = None) -> Step | None:
    """The step that a line tells of: as `form` says, else in a form of one of the usual programs.

    A JSON object or words with a step, a progress bar, or an epoch where nothing is finer, each beside a loss, a rate
    or a time; Hugging Face's line of losses has no number.
    """
    text = _ANSI.sub("", text)
    if form is not None:
        return _of_form(text, form)
    if (found := _of_json(text)) is not None:
        return found
    loss = _number(match["loss"]) if (match := _LOSS.search(text)) else None
    if bar := _BAR.match(text):
        epoch, step = _OF_EPOCH.search(bar["name"]), int(bar["step"])
        before = int(epoch[1]) * int(bar["of"]) if epoch else 0
        return Step(before + step, loss, BARS) if step and _OF_TRAINING.match(bar["name"]) else None
    if keras := _KERAS.match(text):
        return Step(int(keras["step"]), loss, BARS)
    if (words := _STEP.search(text)) and _AT_WORK.search(text):
        return Step(int(words["step"]), loss)
    if text.lstrip().startswith("{'") and loss is not None:
        return Step(None, loss) if "'train_runtime'" not in text else None
    if loss is not None and (words := _EPOCH.search(text)):
        return Step(int(words["step"]), loss, EPOCHS)
    return None


def object_in(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a line ends with; None where there is none."""
    start = text.find("{")
    if start >= 0:
        with suppress(ValueError, RecursionError):
            found = json.loads(text[start:])
            return found if isinstance(found, dict) else None
    return None


def _of_json(text: str) -> Step | None:
    content = object_in(text)
    if content is None:
        return None
    number = next((content[key] for key in _STEP_KEYS if key in content), None)
    loss = next((content[key] for key in _LOSS_KEYS if key in content), None)
    if isinstance(number, bool) or not isinstance(number, int) or loss is None:
        return None
    return Step(number, _number(loss))


def _of_form(text: str, form: re.Pattern[str]) -> Step | None:
    match = form.search(text)
    if match is None:
        return None
    named = match.groupdict()
    written = named.get("step") or match[1]
    if not written or not written.replace(",", "").isdecimal():
        return None
    loss = named.get("loss") or (found["loss"] if (found := _LOSS.search(text)) else None)
    return Step(int(written.replace(",", "")), _number(loss))


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError):
        return float(value)
    return None
