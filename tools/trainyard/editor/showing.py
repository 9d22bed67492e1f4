"""Findings as an editor shows them: diagnostics, and their fixes as code actions."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from lsprotocol import types

from trainyard.cache import text_digest
from trainyard.editor.text import Text
from trainyard.findings.finding import Finding, Place, Severity
from trainyard.fixes.apply import by_file
from trainyard.fixes.readers import Readers
from trainyard.report.escape import whole
from trainyard.report.where import field_of, file_of, position_of
from trainyard.repository.discover import KUSTOMIZATION_NAMES

SOURCE = "trainyard"
_LEVELS = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}

TextOf = Callable[[str], Text | None]
"""The text of a file below the root, as the editor has it or else as it was saved; None where it cannot be read."""


def uri_of(path: str | Path) -> str:
    """The URI of a file."""
    return f"file://{quote(os.fspath(path))}"


def path_of(uri: str) -> str | None:
    """The path of a file's URI; None for that of something else."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding in its file."""

    file: str
    diagnostic: types.Diagnostic
    finding: Finding


class Showing:
    """Shows the findings of one repository."""

    def __init__(self, root: Path, text_of: TextOf, *, related: bool = True) -> None:
        """`related` says whether the editor shows what a finding is related to."""
        self.root = root
        self.text_of = text_of
        self.related = related

    def shown(self, finding: Finding, documents: Iterable[str]) -> Shown:
        """A finding as a diagnostic. One of no line is on the first line of its file, or of one of the job's.

        `documents` are those that were judged: where no other file is known, it is in the first of them.
        """
        file = self._file(finding, documents)
        message = whole(finding.message) + (f"\nhelp: {whole(finding.help)}" if finding.help else "")
        diagnostic = types.Diagnostic(
            range=self._range(file, finding.place if file == file_of(finding.place) else None),
            message=message,
            severity=_LEVELS[finding.severity],
            code=finding.rule,
            source=SOURCE,
            related_information=list(self._related(finding)) or None if self.related else None,
            data={"name": finding.name, "jobs": [whole(job) for job in finding.jobs], "field": field_of(finding.place)},
        )
        return Shown(file, diagnostic, finding)

    def _file(self, finding: Finding, documents: Iterable[str]) -> str:
        named = file_of(finding.place)
        job = finding.jobs[0] if finding.jobs else ""
        near = [f"{folder}/{name}" for folder in (named, job) if folder for name in ("job.yaml", *KUSTOMIZATION_NAMES)]
        candidates = (*([named] if named else []), *near, job)
        return next((file for file in candidates if file and (self.root / file).is_file()), min(documents))

    def _range(self, file: str, place: Place | None) -> types.Range:
        position = None if place is None else position_of(place)
        text = self.text_of(file) or Text("")
        start = 0 if position is None else text.offset(position.line, position.column)
        end = text.line_end(start)
        return _range(text, start, end if position is None else min(start + position.length, end))

    def _related(self, finding: Finding) -> Iterator[types.DiagnosticRelatedInformation]:
        for place in finding.related:
            if (position := position_of(place)) is not None and (self.root / position.file).is_file():
                location = types.Location(uri_of(self.root / position.file), self._range(position.file, place))
                yield types.DiagnosticRelatedInformation(location, whole(place.label or field_of(place)))

    def action(self, shown: Shown, versions: Mapping[str, int]) -> types.CodeAction | None:
        """The fix of a finding; None where it has none, or one for a text that is no longer there.

        `versions` are those of the open documents by file.
        """
        fix = shown.finding.fix
        if fix is None or not fix.edits:
            return None
        changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
        for file, edits in by_file(self.root, fix.edits).items():
            text = None if os.path.isabs(file) else self.text_of(file)
            if text is None or any(edit.digest != text_digest(text.text) for edit in edits):
                return None
            document = types.OptionalVersionedTextDocumentIdentifier(uri_of(self.root / file), versions.get(file))
            made: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [
                types.TextEdit(
                    _range(text, text.offset(edit.line, edit.column), text.offset(edit.end_line, edit.end_column)),
                    edit.text,
                )
                for edit in edits
            ]
            changes.append(types.TextDocumentEdit(document, made))
        others = Readers(self.root).others(shown.finding)
        notes = [] if fix.safe else ["unsafe: it changes what the job means"]
        notes += [f"also changes {len(others)} other job{'s' if len(others) > 1 else ''}"] if others else []
        return types.CodeAction(
            title=f"{fix.says} ({'; '.join(notes)})" if notes else fix.says,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown.diagnostic],
            is_preferred=not notes,
            edit=types.WorkspaceEdit(document_changes=changes),
        )


def _range(text: Text, start: int, end: int) -> types.Range:
    return types.Range(types.Position(*text.place(start)), types.Position(*text.place(max(start, end))))


def overlap(one: types.Range, other: types.Range) -> bool:
    """True where two stretches share a place, also where one ends at the other's beginning."""
    first, second = ((each.start.line, each.start.character) for each in (one, other))
    ends = tuple((each.end.line, each.end.character) for each in (one, other))
    return first <= ends[1] and second <= ends[0]
