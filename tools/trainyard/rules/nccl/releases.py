"""What the image's release of NCCL does not know yet."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import Assignment, assignments
from trainyard.rules.nccl.image import Release, parsed, release
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_GROUPS = (2, 24)
"""The release that reads `function:` and `^` in NCCL_ALGO and NCCL_PROTO, and stops at a word that it does not know."""


@rule("NCL074", "newer-than-image", Severity.WARNING, needs=Workload)
@once
def newer_than_image(workload: Workload) -> Iterator[Problem]:
    """A variable or a word of its value is newer than the image's NCCL.

    An older release ignores a name that it does not know, and skips words of NCCL_ALGO and NCCL_PROTO: the setting
    never applies. This rule knows the release from `ncclVersion` in job.yaml or cluster.yaml, and is silent without.

    Bad:
        kind: TrainingJob
        spec: {ncclVersion: "2.19.3"}
        ---
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: "allreduce:ring"}
    Good:
        kind: TrainingJob
        spec: {ncclVersion: "2.24.3"}
        ---
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: "allreduce:ring"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_ALGO: "allreduce:ring"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    image = release(workload)
    if image is None:
        return
    for found in assignments(workload):
        facts = found.facts
        in_use = facts is not None and facts.owner == "nccl" and facts.status != "removed"
        since = parsed(facts.since) if facts is not None and in_use else None
        if since is not None and image < since:
            what, needed = found.name, since
        elif newer := _newer_words(found, image):
            what, needed = newer
        else:
            continue
        yield Problem(
            f"{what} needs NCCL {_text(needed)}, but the image has {_text(image)}",
            found.spot.saying("ignored without a message"),
            help="remove it, or take an image with that release",
        )


def _newer_words(found: Assignment, image: Release) -> tuple[str, Release] | None:
    """The part of an algorithm or protocol list that a release does not read, and the release that does."""
    facts, value = found.facts, found.value or ""
    if facts is None or facts.parse != "nccl-choice" or facts.refuses(value):
        return None
    if image < _GROUPS and any(mark in value for mark in ":;^"):
        return f"{found.name}={value}", _GROUPS
    words = {word.lower() for word in value.replace(";", ",").replace(":", ",").replace("^", "").split(",")}
    for word, since in facts.items_since.items():
        needed = parsed(since)
        if word.lower() in words and needed is not None and image < needed:
            return f"{found.name}={word}", needed
    return None


def _text(numbers: Release) -> str:
    return ".".join(map(str, numbers))
