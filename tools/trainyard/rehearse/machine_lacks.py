"""What a rehearsal cannot judge: where this machine, and not the job, lacks what the program asks for."""

import re

from trainyard.rehearse.network import Waiting
from trainyard.rehearse.network.explain import OUTSIDE
from trainyard.rehearse.rehearsal import RehearsalRecord

_NO_GPU = re.compile(
    r"(?i)no (?:CUDA|GPU|NVIDIA)|not compiled with CUDA|support bf16/gpu|not implemented for 'Half'"
    r"|\b(?:CUDA|GPUs?|NVIDIA driver|HIP)\b.{0,40}(?:not (?:available|found|enabled|detected)|unavailable|required)"
    r"|(?:requires?|needs?|expected?) (?:a |an |at least \w+ )?(?:CUDA|GPU)|only supported (?:with|on) (?:CUDA|GPU)"
    r"|lib(?:cuda|cudart|nccl)\S*: cannot open"
)
_NO_MODULE = re.compile(r"No module named '?(?P<module>[\w.]+)")
_OUTSIDE = re.compile(
    r"(?i)connect to 'https://|LocalEntryNotFoundError|Max retries exceeded|NameResolutionError|Could not resolve host:"
    r"|urlopen error|outgoing traffic has been disabled"
)
_NO_NAME = re.compile(r"(?i)name or service not known|name resolution|getaddrinfo|resolve host")
_OF_THE_CHECKOUT = ("trainer",)
_QUOTED = 200


def not_judged(seen: RehearsalRecord) -> tuple[str, str]:
    """Why nothing can be said of a job, and what would help; empty where something can."""
    run = seen.first
    if run.outcome.ending == "timeout" and not (seen.trains or run.moves or run.chaos.done):
        why = f"it was at work when its {seen.timeout:g} s were over, and no line that it printed is known as a step"
        return why, "--timeout gives it longer, and --step-pattern tells how it prints a step"
    said = run.said if run.outcome.ending == "failed" else None
    if said is None:
        return "", ""
    lacking, helped = _lacking(said[1], asks_outside=bool(run.waiting) and all(map(is_outside, run.waiting)))
    return (f"{lacking}, and {said[0]} said: {said[1][:_QUOTED]}", helped) if lacking else ("", "")


def is_outside(waiting: Waiting) -> bool:
    """Whether a name is none of the cluster: all that such names lead to is out of a rehearsal's reach."""
    return waiting.protocol == "DNS" and waiting.why.startswith(OUTSIDE)


def _lacking(text: str, *, asks_outside: bool) -> tuple[str, str]:
    """What this machine lacks that words of an error ask for, and what would help."""
    if _NO_GPU.search(text):
        return "a rehearsal has no GPU", "change the program for it with --arg or --env, as in --arg=--use_cpu"
    if _OUTSIDE.search(text) or (asks_outside and _NO_NAME.search(text)):
        return (
            "a rehearsal reaches nothing outside of the job",
            "let the program read a folder, which --program PATH/IN/CONTAINER=FOLDER brings, with --arg or --env",
        )
    found = _NO_MODULE.search(text)
    package = found["module"].partition(".")[0] if found else ""
    if package and package not in _OF_THE_CHECKOUT:
        return (
            f"the Python of a rehearsal has no {package}, which comes with the image",
            "bring it with --program /modules=FOLDER --env PYTHONPATH=/modules",
        )
    return "", ""
