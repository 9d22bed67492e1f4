"""What an editor shows is what lint-jobs says of the same texts, whether they are saved or not."""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tests.cli.command import HOME, LLAMA, Repository
from tests.copies import copy_parts
from tests.editor.client import Editor, edited, editing
from tests.editor.conftest import DEPLOYED

JOB = f"{LLAMA}/job.yaml"
KUSTOMIZATION = f"{LLAMA}/kustomization.yaml"

LEVELS = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}

Row = tuple[Any, ...]


def shown(editor: Editor) -> list[Row]:
    """Everything that the editor shows, with places as lint-jobs counts them in texts of ASCII."""
    return sorted(
        (
            Path(uri.removeprefix("file://")).relative_to(editor.root).as_posix(),
            each.range.start.line + 1,
            each.range.start.character + 1,
            each.code,
            each.severity,
            each.message,
        )
        for uri, params in editor.shown.items()
        for each in params.diagnostics
    )


def reported(repository: Repository, *paths: str) -> list[Row]:
    """The same of `lint-jobs --format json`. What has no line is on the first of its job.yaml."""
    found = repository.report(*paths, "--level", "info", "--no-cache")["findings"]
    return sorted(
        (
            each["file"] if each["line"] else f"{each['jobs'][0]}/job.yaml",
            each["line"] or 1,
            each["column"] or 1,
            each["rule"],
            LEVELS[each["severity"]],
            each["message"] + (f"\nhelp: {each['help']}" if each["help"] else ""),
        )
        for each in found
    )


@pytest.mark.claim("editor-same-findings")
def test_every_job_has_the_findings_of_lint_jobs(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    copy_parts(repository.root, "base", "overlays", "clusters", "jobs")
    (repository.root / ".git").mkdir()
    files = sorted(file.relative_to(HOME).as_posix() for file in (HOME / "jobs").glob("*/*/job.yaml"))
    typed = {file: re.sub("  nodes: .*", "  nodes: 3\n  nodez: 4", (HOME / file).read_text()) for file in files}

    async def scenario() -> list[Row]:
        async with editing(repository.root, tmp_path) as editor:
            for file in files:
                await editor.open(file)
            for file in files:
                assert await editor.judged(file) == ()
            for file in files:
                editor.type(file, typed[file])
            for file in files:
                await editor.judged(file)
            return shown(editor)

    found = asyncio.run(scenario())
    for file, text in typed.items():
        (repository.root / file).write_text(text)

    assert {row[0] for row in found} >= set(files)
    assert found == reported(repository, *(str(Path(file).parent) for file in files))


TYPED = (
    (JOB, "global: 128", "global: 96"),
    (JOB, "spec:", "spec: ["),
    (JOB, "kind: TrainingJob", "kind: TrainingJobb"),
    (KUSTOMIZATION, "base/torchrun", "base/nowhere"),
    ("base/torchrun/kustomization.yaml", "resources:", "resource:"),
)


@pytest.mark.claim("editor-unsaved")
def test_what_is_typed_is_judged_before_it_is_saved(checkout: Repository, tmp_path: Path) -> None:
    texts = {file: (checkout.root / file).read_text() for file, _, _ in TYPED}

    async def scenario() -> list[list[Row]]:
        found = []
        async with editing(checkout.root, tmp_path) as editor:
            for file in texts:
                await editor.open(file)
            for file, before, after in TYPED:
                assert before in texts[file]
                editor.type(file, texts[file].replace(before, after))
                await editor.judged(file)
                found.append(shown(editor))
                editor.type(file, texts[file])
                await editor.judged(file)
                assert shown(editor) == []
        return found

    for (file, before, after), found in zip(TYPED, asyncio.run(scenario()), strict=True):
        (checkout.root / file).write_text(texts[file].replace(before, after))
        assert found == reported(checkout, LLAMA) != []
        (checkout.root / file).write_text(texts[file])


@pytest.mark.parametrize("encoding", [None, "utf-8"])
@pytest.mark.claim("editor-any-layout", "editor-positions")
def test_it_is_judged_in_any_repository_and_nowhere_else(
    plain: Repository, tmp_path: Path, encoding: str | None
) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(DEPLOYED)
    files = ["deploy/train/job.yaml", "extra/other.yaml", "notes/list.yaml", "chart/templates/job.yaml"]

    async def scenario() -> list[types.CodeAction]:
        async with editing(plain.root, tmp_path, None if encoding is None else [encoding]) as editor:
            for uri in (outside.as_uri(), "untitled:one", "git:/a/b.yaml?x"):
                item = types.TextDocumentItem(uri, "yaml", 1, DEPLOYED)
                editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            for file in files:
                await editor.open(file)
            shown = {file: await editor.judged(file) for file in files}
            found = {file: [each for each in there if each.code == "SCH001"] for file, there in shown.items()}
            assert shown["notes/list.yaml"] == shown["chart/templates/job.yaml"] == ()
            assert editor.shown.keys() == set(map(editor.uri, files))
            assert [marked(each) for file in files for each in found[file]] == ["labls", "labls"]
            return await editor.fixes(files[1], found[files[1]][0])

    def marked(found: types.Diagnostic) -> str:
        raw = DEPLOYED.splitlines()[found.range.start.line].encode(encoding or "utf-16-le")
        width = 1 if encoding else 2
        return raw[found.range.start.character * width : found.range.end.character * width].decode(
            encoding or "utf-16-le"
        )

    (fix,) = asyncio.run(scenario())
    assert fix.is_preferred
    if encoding is None:
        assert fix.edit is not None
        assert fix.edit.document_changes is not None
        (change,) = fix.edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        assert edited(DEPLOYED, change.edits) == DEPLOYED.replace("labls", "labels")


def test_a_finding_is_shown_in_its_file_until_that_is_mended(checkout: Repository, tmp_path: Path) -> None:
    facts = checkout.root / "clusters/gpu-east/facts/cluster.yaml"
    text = facts.read_text()
    facts.write_text(text.replace("gpus: 8", "gpus: eight"))

    def codes(editor: Editor) -> Iterable[object]:
        params = editor.shown.get(facts.as_uri())
        return [] if params is None else [each.code for each in params.diagnostics]

    async def scenario() -> None:
        async with editing(checkout.root, tmp_path) as editor:
            await editor.open(JOB)
            await editor.judged(JOB)
            assert list(codes(editor))
            facts.write_text(text)
            event = types.FileEvent(facts.as_uri(), types.FileChangeType.Changed)
            editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
            await editor.until(lambda: not codes(editor))
            editor.type(JOB, "kind: [")
            assert await editor.judged(JOB)
            editor.close(JOB)
            await editor.until(lambda: not shown(editor))

    asyncio.run(scenario())
