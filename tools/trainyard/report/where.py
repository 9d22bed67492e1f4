"""Where a finding is, in the words of the formats."""

from trainyard.findings.finding import Finding, Place, Position

JOBS_SHOWN = 5
"""How many jobs a report for people lists by name."""


def position_of(place: Place) -> Position | None:
    """The line and column of a place; None where they are unknown or where the place is a whole file."""
    return place.position if place.position and place.position.line > 0 else None


def file_of(place: Place) -> str | None:
    """The source file of a place; None where it is unknown."""
    return place.position.file if place.position else None


def field_of(place: Place) -> str:
    """`Job/ns/name spec.foo`: the object and the field in it."""
    return " ".join(part for part in (place.object, place.path) if part)


def unknown_place(place: Place, jobs: tuple[str, ...]) -> str:
    """`jobs/x (position unknown): Job/ns/name spec.foo`; the file alone where the place is a whole file."""
    file = file_of(place)
    if file is not None:
        return file
    start = f"{jobs[0]} (position unknown)" if jobs else "position unknown"
    field = field_of(place)
    return f"{start}: {field}" if field else start


def job_list(finding: Finding) -> tuple[str, str] | None:
    """`jobs` and the first of them, `job` and its name; None where the place shows by itself which job it is."""
    if not _reaches_beyond(finding):
        return None
    shown = ", ".join(finding.jobs[:JOBS_SHOWN])
    more = len(finding.jobs) - JOBS_SHOWN
    return "jobs" if len(finding.jobs) > 1 else "job", f"{shown} and {more} more" if more > 0 else shown


def _reaches_beyond(finding: Finding) -> bool:
    file = file_of(finding.place)
    if len(finding.jobs) != 1 or file is None:
        return len(finding.jobs) > 1
    job = finding.jobs[0]
    return file != job and not file.startswith(f"{job}/")
