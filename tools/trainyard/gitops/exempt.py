"""What the owners of a cluster silence for one of its jobs: clusters/<name>/suppressions.yaml."""

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Position
from trainyard.findings.suppress import (
    LEAST_WORDS,
    NO_REASON,
    UNUSED,
    SuppressedFinding,
    always_on,
    explains,
    misnamed,
    told,
)
from trainyard.kustomize.jobfile import check_facts
from trainyard.repository.listed import clusters
from trainyard.rules.aliases import present
from trainyard.yaml.sources import Sources

KIND = "SuppressionList"
LIST = "suppressions.yaml"
"""Beside the facts of a cluster."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """One entry of a list."""

    rule: str
    """Its id as written, which may be a former one."""
    job: str
    """Its folder: jobs/<team>/<job>."""
    reason: str
    position: Position
    """Of its rule."""


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The lists of a repository's clusters, as far as they can be read."""

    entries: tuple[Exemption, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What their schema refuses."""
    errors: tuple[InputError, ...] = ()


def exemptions(root: Path, sources: Sources) -> Exemptions:
    """Every list that there is. One that is wrong silences nothing."""
    entries: list[Exemption] = []
    findings: list[Finding] = []
    errors: list[InputError] = []
    for cluster in clusters(root):
        file = f"clusters/{cluster}/{LIST}"
        if not sources.is_file(file):
            continue
        try:
            read, refused = _read(sources, file)
        except InputError as error:
            errors.append(error)
            continue
        findings += refused
        entries += read
    return Exemptions(tuple(entries), tuple(findings), tuple(errors))


def _read(sources: Sources, file: str) -> tuple[list[Exemption], list[Finding]]:
    documents = sources.documents(file)
    if len(documents) != 1:
        raise InputError(f"expected one {KIND}, found {len(documents) or 'no'} documents", file)
    if refused := list(check_facts(documents[0], KIND)):
        return [], refused
    found = []
    listed = documents[0].at(("suppressions",))
    for item in listed.value if listed is not None else ():
        rule, job, reason = (item.at((key,)) for key in ("rule", "job", "reason"))
        if rule is not None and job is not None and reason is not None:
            at = rule.mark or Position(file, 0, 0)
            found.append(Exemption(str(rule.value), str(job.value), str(reason.value), at))
    return found, []


def exempted(
    findings: Iterable[Finding],
    entries: Sequence[Exemption],
    rules: Container[str],
    complete: Collection[str],
) -> tuple[list[Finding], list[SuppressedFinding]]:
    """The findings that are left, with those about the entries after them, and those that were silenced.

    A finding that several jobs share is silenced where each of them is listed. `complete` are the jobs of which all is
    known, so that an entry for one of them can be called unused.
    """
    valid = [each for each in entries if present(each.rule) in rules and explains(each.reason)]
    used: set[Exemption] = set()
    kept, silenced = [], []
    for finding in findings:
        named = [each for each in valid if present(each.rule) == finding.rule and each.job in finding.jobs]
        if named and not always_on(finding) and {each.job for each in named} == set(finding.jobs):
            used.update(named)
            silenced.append(SuppressedFinding(finding, named[0].reason, named[0].position, is_listed=True))
        else:
            kept.append(finding)
    for entry in entries:
        if (wrong := misnamed(entry.rule, entry.position, rules)) is not None:
            kept.append(wrong)
        elif not explains(entry.reason):
            message = f"suppression of {entry.rule} gives a reason of fewer than {LEAST_WORDS} words"
            kept.append(told(NO_REASON, entry.position, message, "say why the rule does not hold for this job"))
        elif entry.job in complete and entry not in used:
            nothing = f"{present(entry.rule)} finds nothing in {entry.job}"
            message = f"suppression of {entry.rule} silences nothing: {nothing}"
            kept.append(told(UNUSED, entry.position, message, "delete it"))
    return kept, silenced
