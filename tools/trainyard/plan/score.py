"""How far the forecast is from published runs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.errors import InputError
from trainyard.limits import FILE_BYTES
from trainyard.plan.constants import Constants
from trainyard.plan.fit import forecast
from trainyard.plan.published import PublishedRun, published, stated
from trainyard.plan.rows import Refused
from trainyard.yaml.nodes import load_documents


@dataclass(frozen=True, slots=True)
class Row:
    """One row's outcome."""

    id: str
    source: str
    measured: float | None
    predicted: float | None
    refused: str | None
    """Why there is no forecast."""

    @property
    def error(self) -> float | None:
        """|predicted - measured| / measured."""
        if self.measured is None or self.predicted is None:
            return None
        return abs(self.predicted - self.measured) / self.measured


def load(file: Path) -> Mapping[str, Any]:
    """A file of published runs. InputError, with its place, where it is none."""
    name = str(file)
    try:
        text = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", name) from None
    if len(text) > FILE_BYTES:
        raise InputError(f"is larger than {FILE_BYTES} bytes", name)
    try:
        documents = load_documents(text.decode(), name)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", name) from None
    document: Any = documents[0].plain() if len(documents) == 1 else None
    rows = document.get("rows") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("has no list of `rows`", name, help="each row is a map with id, source, model, gpu, gpus ...")
    found: Mapping[str, Any] = document
    return found


def readable(document: Mapping[str, Any]) -> list[PublishedRun]:
    """Rows that can be forecast and were measured."""
    found = []
    for row in document["rows"]:
        try:
            item = published(row, document)
        except Refused:
            continue
        if item.measured is not None:
            found.append(item)
    return found


def score(document: Mapping[str, Any], constants: Constants) -> list[Row]:
    """Every row's forecast, from its inputs alone."""
    found = []
    for number, row in enumerate(document["rows"], start=1):
        id, source = str(row.get("id", f"row {number}")), str(row.get("source", ""))
        try:
            item = published(row, document)
        except Refused as reason:
            found.append(Row(id, source, _short(stated(row)), None, str(reason)))
            continue
        found.append(Row(id, source, _short(item.measured), _short(forecast(item, constants)), None))
    return found


def spread(errors: Sequence[float]) -> dict[str, float | None]:
    """Median, 90th percentile (linear between ranks) and worst of errors."""
    if not errors:
        return {"median": None, "p90": None, "worst": None}
    p90 = statistics.quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return {"median": _short(statistics.median(errors)), "p90": _short(p90), "worst": _short(max(errors))}


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors of all rows, and of each source."""
    by_source = {}
    for source in dict.fromkeys(row.source for row in rows):
        by_source[source] = _counted([row for row in rows if row.source == source])
    return {**_counted(rows), "by_source": by_source}


def document_of(rows: Sequence[Row]) -> dict[str, Any]:
    """What --score prints."""
    return {
        "rows": [
            {
                "id": row.id,
                "measured": _short(row.measured),
                "predicted": _short(row.predicted),
                "error": _short(row.error),
                "refused": row.refused,
            }
            for row in rows
        ],
        "summary": summary(rows),
    }


def _counted(rows: Sequence[Row]) -> dict[str, Any]:
    errors = [row.error for row in rows if row.error is not None]
    refused = sum(row.refused is not None for row in rows)
    return {"rows": len(rows), "refused": refused, **spread(errors)}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
