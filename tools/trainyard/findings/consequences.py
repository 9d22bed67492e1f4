"""Findings that only follow from what another finding says, which are left out."""

from collections.abc import Iterable, Sequence

from trainyard.findings.finding import Finding, Position

_OF_WHAT_IS_ALLOWED = ("SEC005", "SEC010", "SEC011", "SEC012")
_CAUSES = ("CTR001", "CTR002", "CTR004", "CTR005", "CTR007")
_ECHO_OF = {"RES005": "SCH001", "REF002": "STO005"}
"""Rules that say the cause and its remedy, and what another says of the same value."""
_BY_NAME = ("CTR015", "NET001", "NET002", "NET003", "RDV003", "RDV004", "RDV005", "RDV006", "STO001")
"""What rules say where a name leads nowhere. While a default name survives, that is why."""


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one unit, less those that only follow from a value that went wrong on its way.

    Where a name survives, or a wire ends in another value, rules say what the wrong value does. It is one cause.
    """
    causes = [finding for finding in findings if finding.rule in _CAUSES]
    if not causes:
        return list(findings)
    marks = {mark for cause in causes for mark in _marks(cause)}
    fields = {(cause.place.object, cause.place.path) for cause in causes if cause.place.path}

    misnamed = any(cause.rule == "CTR001" or (cause.rule == "CTR007" and cause.place.path) for cause in causes)

    def follows(finding: Finding) -> bool:
        if finding.rule in _CAUSES or finding.input_error or finding.rule.startswith("SEC"):
            return False
        if misnamed and finding.rule in _BY_NAME:
            return True
        if not marks.isdisjoint(_marks(finding)):
            return True
        places = (finding.place, *finding.related)
        return any(p.object == title and _is_below(p.path, path) for p in places for title, path in fields)

    return [finding for finding in findings if not follows(finding)]


def without_echoes(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without those of which another says the cause: a field that no schema knows is not allowed either, a
    default name is not the run's, what is no amount is no quantity to the schema, and a claim without its prefix is not
    among the manifests.

    Only findings that are reported count as causes: nobody silences one of them and this one with it.
    """
    findings = list(findings)
    unknown = {(each.place.object, each.place.path) for each in findings if each.rule == "SCH001"}
    explained = {(_ECHO_OF.get(each.rule), each.place.position) for each in findings if each.place.position}
    survived = [(each.place.object, each.place.path) for each in findings if each.rule == "CTR001"]

    def echoes(finding: Finding) -> bool:
        place = finding.place
        if (finding.rule, place.position) in explained:
            return True
        if finding.rule not in _OF_WHAT_IS_ALLOWED:
            return False
        if (place.object, place.path) in unknown:
            return True
        paths = [path for title, path in survived if title == place.object]
        return any(_is_below(path, place.path) or _is_below(place.path, path) for path in paths)

    return [each for each in findings if not echoes(each)]


def _marks(finding: Finding) -> set[Position]:
    return {place.position for place in (finding.place, *finding.related) if place.position is not None}


def _is_below(path: str, above: str) -> bool:
    return path.startswith(above) and path[len(above) : len(above) + 1] in ("", ".", "[")
