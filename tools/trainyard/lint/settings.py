"""How a repository of another layout is judged: trainyard.yaml at its root, and the baseline that it names."""

import json
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Position, Severity
from trainyard.findings.merged import order
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
from trainyard.lint.masked import SECRET
from trainyard.lint.outcome import Outcome
from trainyard.repository.discover import SETTINGS, is_trainyard, matches
from trainyard.rules.aliases import present
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

_KIND, _BASELINE_KIND = "LintSettings", "LintBaseline"
_OF_BASELINE = "in the baseline"
_REFUSED = re.compile(r"(?P<key>\w+)(?:\[(?P<index>\d+)\]|\.(?P<name>\w+))?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
Key = tuple[str, str, str, str, str]
"""Rule, file, object, field and message of a finding."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Findings of one rule that are not told."""

    rule: str
    """Its id as written, which may be a former one."""
    paths: tuple[str, ...]
    """Patterns; empty for every file."""
    reason: str
    position: Position
    """Of its rule."""
    nowhere: tuple[str, ...] = ()
    """Those of its patterns that stand for no file."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a repository asks of the linter, and what is wrong with that."""

    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    levels: tuple[tuple[str, Severity, Position], ...] = ()
    """Id of a rule as written, its severity, and where that stands."""
    ignored: tuple[Ignored, ...] = ()
    images: tuple[str, ...] = ()
    """Where images may come from; empty for anywhere."""
    kubernetes: str = ""
    """The release of the clusters, such as 1.31; empty for that of schemas/."""
    baseline: str = ""
    known: tuple[tuple[Key, Position], ...] = ()
    """The entries of the baseline."""
    findings: tuple[Finding, ...] = ()
    """What the schemas refuse."""


def settings(root: Path, sources: Sources) -> Settings:
    """What trainyard.yaml says, which is there. InputError where it cannot be read, or is out of place."""
    if is_trainyard(root):
        why = "is for repositories of another layout; in this one clusters/<name>/suppressions.yaml silences findings"
        raise InputError(why, SETTINGS)
    document = _document(sources, SETTINGS, _KIND)
    refused = tuple(check_facts(document, _KIND))
    plain = _left_of(document.plain(), refused)
    baseline = plain.get("baseline", "")
    entries, wrong = _known(sources, baseline) if baseline and sources.is_file(baseline) else ((), ())
    return Settings(
        paths=tuple(each for each in plain.get("paths", ()) if each is not None),
        exclude=tuple(each for each in plain.get("exclude", ()) if each is not None),
        levels=tuple(
            (rule, Severity[level.upper()], _at(document, "levels", rule))
            for rule, level in plain.get("levels", {}).items()
        ),
        ignored=tuple(
            Ignored(
                each["rule"],
                tuple(each.get("paths", ())),
                each["reason"],
                _at(document, "ignore", index, "rule"),
                tuple(path for path in each.get("paths", ()) if not _stands_for_a_file(path, root)),
            )
            for index, each in enumerate(plain.get("ignore", ()))
            if each is not None
        ),
        images=tuple(each for each in plain.get("images", ()) if each is not None),
        kubernetes=plain.get("kubernetes", ""),
        baseline=baseline,
        known=entries,
        findings=(*refused, *wrong),
    )


def settled(own: Settings, outcome: Outcome, rules: Container[str], *, whole: bool) -> Outcome:
    """What is left to tell. `whole` says that all was judged, so that an entry can be called unused."""
    told_of, silenced = list(outcome.findings), list(outcome.suppressed)
    wrong = [*own.findings]
    levels: dict[str, Severity] = {}
    for rule, severity, at in own.levels:
        if (refused := misnamed(rule, at, rules)) is not None:
            wrong.append(refused)
        else:
            levels[present(rule)] = severity
    told_of = [
        replace(each, severity=levels[each.rule]) if each.rule in levels and not always_on(each) else each
        for each in told_of
    ]
    for entry in own.ignored:
        if (refused := misnamed(entry.rule, entry.position, rules)) is not None:
            wrong.append(refused)
            continue
        if not explains(entry.reason):
            message = f"ignore of {entry.rule} gives a reason of fewer than {LEAST_WORDS} words"
            wrong.append(told(NO_REASON, entry.position, message, "say why the rule does not hold here"))
            continue
        rule = present(entry.rule)
        meant = [each for each in told_of if each.rule == rule and _is_about(each, entry.paths)]
        silenced += [SuppressedFinding(each, entry.reason, entry.position, is_listed=True) for each in meant]
        told_of = [each for each in told_of if each not in meant]
        if entry.nowhere:
            message = f"ignore of {entry.rule}: {', '.join(entry.nowhere)} stands for no file"
            wrong.append(told(UNUSED, entry.position, message, "correct the path, or delete it"))
        elif whole and not meant:
            message = f"ignore of {entry.rule} silences nothing"
            wrong.append(told(UNUSED, entry.position, message, "delete it"))
    left = Counter(_without_numbers(key) for key, _ in own.known)
    places = {_without_numbers(key): at for key, at in own.known}
    still = []
    for each in told_of:
        key = _without_numbers(key_of(each))
        if left[key] and is_kept(each):
            left[key] -= 1
            silenced.append(SuppressedFinding(each, _OF_BASELINE, places[key], is_listed=True))
        else:
            still.append(each)
    return replace(
        outcome,
        findings=tuple(sorted([*still, *wrong], key=order)),
        suppressed=tuple(sorted(silenced, key=lambda each: order(each.finding))),
    )


def key_of(finding: Finding) -> Key:
    """What a baseline says of a finding."""
    place = finding.place
    file = place.position.file if place.position else ",".join(finding.jobs)
    return finding.rule, file, place.object, place.path, finding.message


def _without_numbers(key: Key) -> Key:
    """What makes a finding the same one after an edit: GPUs, sizes and versions in its message may be others."""
    return (*key[:4], _NUMBER.sub("0", key[4]))


def is_kept(finding: Finding) -> bool:
    """True of a finding that a baseline keeps from being told. A secret in Git stays readable until it is revoked."""
    return not always_on(finding) and finding.rule != SECRET


def baseline_text(findings: Iterable[Finding], suppressed: Iterable[SuppressedFinding], file: str) -> str:
    """The baseline of a run: what it told, but for what no baseline takes, and what the one before silenced.

    One entry a line, so that a merge of two branches can be read.
    """
    before = [each.finding for each in suppressed if each.by.file == file]
    entries = sorted(key_of(each) for each in (*findings, *before) if is_kept(each))
    lines = [
        json.dumps(dict(zip(("rule", "file", "object", "path", "message"), key, strict=True)), ensure_ascii=False)
        for key in entries
    ]
    head = f'{{"apiVersion": "trainyard.dev/v1alpha1", "kind": "{_BASELINE_KIND}", "findings": ['
    return "\n".join([head, *(f"{line}{',' if line is not lines[-1] else ''}" for line in lines), "]}"]) + "\n"


def _document(sources: Sources, file: str, kind: str) -> Node:
    documents = sources.documents(file)
    if len(documents) != 1:
        raise InputError(f"expected one {kind}, found {len(documents) or 'no'} documents", file)
    return documents[0]


def _left_of(plain: Any, refused: Iterable[Finding]) -> dict[str, Any]:
    """The settings but for what is refused of them, so that one slip does not undo the others.

    Of a list, what is left has None in the place of a refused item.
    """
    if not isinstance(plain, dict):
        return {}
    for finding in refused:
        at = _REFUSED.match(finding.place.path)
        if at is None or at["key"] in ("apiVersion", "kind"):
            return {}
        inside = plain.get(at["key"])
        if at["index"] and isinstance(inside, list):
            inside[int(at["index"])] = None
        elif at["name"] and isinstance(inside, dict):
            inside.pop(at["name"], None)
        else:
            plain.pop(at["key"], None)
    return plain


def _stands_for_a_file(pattern: str, root: Path) -> bool:
    if (root / pattern).exists() or not (root / ".git").exists():
        return True
    from trainyard.repository.changed import tracked_files

    return "*" in pattern and any(matches(file, (pattern,)) for file in tracked_files(root))


def _known(sources: Sources, file: str) -> tuple[tuple[tuple[Key, Position], ...], tuple[Finding, ...]]:
    document = _document(sources, file, _BASELINE_KIND)
    if refused := tuple(check_facts(document, _BASELINE_KIND)):
        return (), refused
    entries = []
    for index, each in enumerate(document.plain()["findings"]):
        key = (each["rule"], each["file"], each["object"], each["path"], each["message"])
        entries.append((key, _at(document, "findings", index, file=file)))
    return tuple(entries), ()


def _at(document: Node, *path: str | int, file: str = SETTINGS) -> Position:
    node = document.at(path)
    found = None if node is None else node.key_mark or node.mark
    return found or Position(file, 1, 1)


def _is_about(finding: Finding, paths: Collection[str]) -> bool:
    files = [finding.place.position.file] if finding.place.position else list(finding.jobs)
    return not paths or any(matches(file, paths) for file in files)
