"""The release of NCCL in the image, where a fact states it."""

import re

from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, text

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")

Release = tuple[int, ...]


def parsed(written: str) -> Release | None:
    """The numbers at the start of a text such as `2.26.2` or `2.30.3 (first tag in source)`."""
    match = _RELEASE.match(written)
    return None if match is None else tuple(int(part[:9]) for part in match.groups() if part is not None)


def release(workload: Workload) -> Release | None:
    """NCCL's release as `spec.ncclVersion` of job.yaml states it for its image, else the cluster's for its usual one.

    None where neither does: rules about releases are then silent.
    """
    for fact in (workload.training_job, workload.cluster):
        if fact is not None and (stated := text(mapping(fact.data.get("spec")).get("ncclVersion"))):
            return parsed(stated)
    return None
