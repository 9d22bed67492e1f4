"""An editor: the client of pygls, which starts tools' language server as an editor does and keeps what it is shown."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.cli.command import environment

PATIENCE = 60.0
"""Seconds after which an answer is missed. The machine may be busy."""


class Editor:
    """One editor with a repository. Positions are in UTF-16, unless it asks for other units."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = LanguageClient("test", "1")
        self.versions: dict[str, int] = {}
        self.shown: dict[str, types.PublishDiagnosticsParams] = {}
        self.published = 0
        """How often something was shown."""
        self.messages: list[str] = []
        self.server: types.InitializeResult
        self._news = asyncio.Event()

        def published(params: types.PublishDiagnosticsParams) -> None:
            self.shown[params.uri] = params
            self.published += 1
            self._news.set()

        def told(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(told)

    @property
    def pid(self) -> int:
        """Of the server."""
        process = self.client._server
        assert process is not None
        return process.pid

    def uri(self, file: str) -> str:
        return (self.root / file).as_uri()

    async def open(self, file: str, text: str | None = None) -> None:
        """Open a file, as it is saved or with another text."""
        given = (self.root / file).read_bytes().decode() if text is None else text
        self.versions[file] = 1
        item = types.TextDocumentItem(self.uri(file), "yaml", 1, given)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, file: str, text: str) -> int:
        """Replace the text of an open file, and save nothing. Returns the version that it has then."""
        self.versions[file] += 1
        document = types.VersionedTextDocumentIdentifier(version=self.versions[file], uri=self.uri(file))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return self.versions[file]

    def save(self, file: str, text: str) -> None:
        """Write an open file."""
        (self.root / file).write_text(text)
        document = types.TextDocumentIdentifier(self.uri(file))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def close(self, file: str) -> None:
        document = types.TextDocumentIdentifier(self.uri(file))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until what is shown is so."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def judged(self, file: str) -> Sequence[types.Diagnostic]:
        """What is shown in an open file once its newest version is judged."""
        uri = self.uri(file)
        await self.until(lambda: uri in self.shown and self.shown[uri].version == self.versions[file])
        return self.shown[uri].diagnostics

    async def hover(self, file: str, line: int, character: int) -> str:
        """The Markdown that is shown at a place; empty for none."""
        at = types.HoverParams(types.TextDocumentIdentifier(self.uri(file)), types.Position(line, character))
        found = await self.client.text_document_hover_async(at)
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def complete(self, file: str, line: int, character: int) -> dict[str, types.CompletionItem]:
        """What may be typed at a place, by label."""
        at = types.CompletionParams(types.TextDocumentIdentifier(self.uri(file)), types.Position(line, character))
        found = await self.client.text_document_completion_async(at)
        assert isinstance(found, Sequence)
        return {item.label: item for item in found}

    async def fixes(self, file: str, diagnostic: types.Diagnostic) -> list[types.CodeAction]:
        """The code actions for what is found."""
        context = types.CodeActionContext([diagnostic], only=[types.CodeActionKind.QuickFix])
        document = types.TextDocumentIdentifier(self.uri(file))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(document, diagnostic.range, context)
        )
        return [each for each in found or () if isinstance(each, types.CodeAction)]


def edited(text: str, edits: Sequence[Any]) -> str:
    """A text with the edits of a code action made, as an editor makes them: columns are in UTF-16."""
    lines = [line.encode("utf-16-le") for line in text.split("\n")]
    for edit in sorted(edits, key=lambda each: (each.range.start.line, each.range.start.character), reverse=True):
        start, end = edit.range.start, edit.range.end
        new = edit.new_text.encode("utf-16-le")
        joined = lines[start.line][: 2 * start.character] + new + lines[end.line][2 * end.character :]
        lines[start.line : end.line + 1] = [joined]
    return "\n".join(line.decode("utf-16-le") for line in lines)


@asynccontextmanager
async def editing(
    root: Path, place: Path, encodings: Sequence[types.PositionEncodingKind | str] | None = None
) -> AsyncIterator[Editor]:
    """An editor whose server runs, and leaves in good order. `place` is a folder for what the server keeps."""
    editor = Editor(root)
    command = (sys.executable, "-P", "-m", "trainyard", "lint-jobs", "--lsp")
    await editor.client.start_io(*command, env=environment(place), cwd=os.sep)
    capabilities = types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=encodings),
        text_document=types.TextDocumentClientCapabilities(
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(
                related_information=True, version_support=True
            )
        ),
    )
    editor.server = await editor.client.initialize_async(types.InitializeParams(capabilities, root_uri=root.as_uri()))
    editor.client.initialized(types.InitializedParams())
    try:
        yield editor
        await editor.client.shutdown_async(None)
    finally:
        editor.client.exit(None)
        process = editor.client._server
        assert process is not None
        async with asyncio.timeout(PATIENCE):
            code = await process.wait()
        await editor.client.stop()  # type: ignore[no-untyped-call]
    assert code == 0
