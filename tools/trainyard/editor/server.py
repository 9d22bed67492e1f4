"""The language server: what an editor asks, answered from the last judgement and from the texts that are open."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from trainyard import __version__
from trainyard.editor import completion
from trainyard.editor.judging import Judging
from trainyard.editor.showing import Showing, Shown, overlap, path_of, uri_of
from trainyard.editor.targets import below
from trainyard.editor.text import Text
from trainyard.errors import Fault, InputError
from trainyard.repository.discover import checkout
from trainyard.yaml.sources import Sources

PAUSE = 0.15
"""Seconds without a further edit after which a text is judged."""

WATCHED = "**/*.{yaml,yml,json}"
"""Files whose change on disk may change what is found."""


@dataclass(slots=True)
class Document:
    """A document that is open."""

    uri: str
    """As the editor writes it."""
    version: int
    text: str


@dataclass(slots=True)
class Repository:
    """A repository with open documents."""

    root: Path
    documents: dict[str, Document] = field(default_factory=dict)
    """By path below the root, without symlinks."""
    shown: dict[str, list[Shown]] = field(default_factory=dict)
    """What the last judgement found, by file."""
    task: "asyncio.Task[None] | None" = None
    """The judgement that runs, or waits for the next edit."""

    def unsaved(self) -> dict[str, str]:
        """The open texts that are not what their files hold."""
        saved = Sources(self.root)
        found = {}
        for file, document in self.documents.items():
            try:
                same = saved.text(file) == document.text
            except InputError:
                same = False
            if not same:
                found[file] = document.text
        return found


class Server(LanguageServer):
    """A language server for one editor."""

    def __init__(self) -> None:
        super().__init__("trainyard", __version__, types.TextDocumentSyncKind.Full)
        self.judging = Judging()
        self.repositories: dict[Path, Repository] = {}
        self._told = ""
        """The last fault that the editor was shown."""

    def opened(self, uri: str) -> None:
        """Take a document in, where it is a file of a repository, and judge what reads it."""
        if (found := self._place(uri)) is None:
            return
        root, file = found
        repository = self.repositories.setdefault(root, Repository(root))
        document = self.workspace.get_text_document(uri)
        repository.documents[file] = Document(uri, document.version or 0, document.source)
        self.judge(repository, 0.0)

    def changed(self, uri: str) -> None:
        """Judge a document's new text, unless another follows at once."""
        repository, file = self.of(uri)
        if repository is None:
            return
        document = self.workspace.get_text_document(uri)
        repository.documents[file] = Document(uri, document.version or 0, document.source)
        self.judge(repository, PAUSE)

    def closed(self, uri: str) -> None:
        """Show nothing of a document any more, and judge what is left."""
        repository, file = self.of(uri)
        if repository is None:
            return
        del repository.documents[file]
        self.publish(uri, None, [])
        repository.shown.pop(file, None)
        self.judge(repository, 0.0)

    def of(self, uri: str) -> tuple[Repository | None, str]:
        """The repository of an open document, and the document's path in it."""
        for repository in self.repositories.values():
            for file, document in repository.documents.items():
                if document.uri == uri:
                    return repository, file
        return None, ""

    def judge(self, repository: Repository, pause: float) -> None:
        """Judge what reads the open documents of a repository after a pause. What is judged now is stale, and ends."""
        if repository.task is not None:
            repository.task.cancel()
        repository.task = asyncio.create_task(self._judged(repository, pause))

    async def _judged(self, repository: Repository, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            self.show(repository, await self._found(repository))
            self._told = ""
        except Exception as error:  # what breaks here leaves what was shown, and the next edit tries again
            words = str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
            if words != self._told:
                self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"lint-jobs: {words}"))
            self._told = words

    async def _found(self, repository: Repository) -> dict[str, list[Shown]]:
        """What is found in the open documents of a repository and what reads them, by file."""
        documents = sorted(repository.documents)
        if not documents:
            return {}
        judged = await self.judging.judge(repository.root, documents, repository.unsaved())
        showing = self.showing(repository)
        shown: dict[str, list[Shown]] = {}
        for finding in judged.findings:
            one = showing.shown(finding, documents)
            shown.setdefault(one.file, []).append(one)
        return shown

    def show(self, repository: Repository, shown: dict[str, list[Shown]]) -> None:
        """Replace what is shown of a repository. Findings in files that are not open are shown there too."""
        before, repository.shown = repository.shown, shown
        for file in {**before, **shown, **repository.documents}:
            document = repository.documents.get(file)
            uri = uri_of(repository.root / file) if document is None else document.uri
            version = None if document is None else document.version
            self.publish(uri, version, shown.get(file, []))

    def publish(self, uri: str, version: int | None, shown: Iterable[Shown]) -> None:
        """Show what is found in one file, and nothing else there."""
        found = [each.diagnostic for each in shown]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def showing(self, repository: Repository) -> Showing:
        """Shows findings in the editor's units and as far as it can."""
        asked = self.client_capabilities.text_document
        related = asked is not None and asked.publish_diagnostics is not None
        saved = Sources(repository.root)

        def text_of(file: str) -> Text | None:
            document = repository.documents.get(file)
            with suppress(InputError):
                return self.text(saved.text(file) if document is None else document.text)
            return None

        return Showing(repository.root, text_of, related=related)

    def text(self, text: str) -> Text:
        """A text with places in the units that the editor counts in."""
        return Text(text, self.workspace.position_codec.client_num_units)

    def place(self, uri: str, position: types.Position) -> completion.Place | None:
        """A place in an open document; None for a document that is none of a repository."""
        repository, file = self.of(uri)
        if repository is None:
            return None
        text = self.text(repository.documents[file].text)
        column = text.character(position.line, position.character)
        sources = Sources(repository.root, repository.unsaved())
        return completion.Place(repository.root, file, text.lines, position.line, column, sources)

    def shown_at(self, uri: str, range: types.Range) -> list[Shown]:
        """What is shown in a stretch of a document."""
        repository, file = self.of(uri)
        return (
            []
            if repository is None
            else [e for e in repository.shown.get(file, []) if overlap(e.diagnostic.range, range)]
        )

    def _place(self, uri: str) -> tuple[Path, str] | None:
        """The repository that a file lies in, and its path there."""
        path = path_of(uri)
        if path is None or not os.path.isabs(path):
            return None
        root = checkout(Path(os.path.realpath(path)).parent)
        file = None if root is None else below(root, path)
        return None if root is None or file is None else (root, file)


def make_server() -> Server:
    """A server that knows all that editors may ask of it."""
    server = Server()

    @server.feature(types.INITIALIZED)
    def initialized(ls: Server, _params: types.InitializedParams) -> None:
        ls.thread_pool.submit(_load)
        watched = ls.client_capabilities.workspace and ls.client_capabilities.workspace.did_change_watched_files
        if watched and watched.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(WATCHED)])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            ls.client_register_capability(types.RegistrationParams([types.Registration("files", method, options)]))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def written(ls: Server, _params: types.DidChangeWatchedFilesParams) -> None:
        for repository in ls.repositories.values():
            if repository.documents:
                ls.judge(repository, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        return _hover(ls, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" ", ":"]))
    def complete(ls: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
        place = ls.place(params.text_document.uri, params.position)
        return [] if place is None else [_item(place, each, ls) for each in completion.proposals(place)]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        return _actions(ls, params)

    return server


def _load() -> None:
    """Import the rules before somebody hovers over one."""
    from trainyard.rules.index import all_rules

    all_rules()


def _hover(server: Server, uri: str, position: types.Position) -> types.Hover | None:
    """The pages of the rules that say something here, and what the schema says of the key."""
    from trainyard.docs.pages import markdown
    from trainyard.rules.index import all_rules

    rules = dict.fromkeys(each.finding.rule for each in server.shown_at(uri, types.Range(position, position)))
    parts = [markdown(all_rules()[rule]) for rule in rules]
    place = server.place(uri, position)
    parts += [said] if place is not None and (said := completion.about(place)) else []
    if not parts:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(parts)))


def _item(place: completion.Place, proposal: completion.Proposal, server: Server) -> types.CompletionItem:
    """A proposal in the place of what is typed of it."""
    spot, line = place.spot, place.lines[place.row] if place.row < len(place.lines) else ""
    start = place.column - len(spot.word)
    text = proposal.text
    if proposal.is_key and not spot.key:
        behind = {"object": "\n" + " " * (start + 2), "array": "\n" + " " * start + "- "}
        text += ":" + behind.get(proposal.holds, " ")
    elif line[:start].endswith(":"):
        text = f" {text}"
    text_of_line = server.text(line)
    ends = (text_of_line.place(at)[1] for at in (start, place.column))
    columns = [types.Position(place.row, column) for column in ends]
    return types.CompletionItem(
        label=proposal.text,
        kind=types.CompletionItemKind.Property if proposal.is_key else types.CompletionItemKind.Value,
        detail=proposal.detail or None,
        documentation=proposal.about or None,
        filter_text=proposal.text,
        text_edit=types.TextEdit(types.Range(*columns), text),
    )


def _actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The fixes of what is found in a stretch of a document: those that an editor may make at once first."""
    repository, _ = server.of(params.text_document.uri)
    only = params.context.only
    if repository is None or (
        only is not None and not any(str(types.CodeActionKind.QuickFix.value).startswith(k) for k in only)
    ):
        return []
    versions = {file: document.version for file, document in repository.documents.items()}
    showing = server.showing(repository)
    shown = server.shown_at(params.text_document.uri, params.range)
    found = [made for each in shown if (made := showing.action(each, versions)) is not None]
    return sorted(found, key=lambda action: not action.is_preferred)
