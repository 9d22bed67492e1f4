"""What an editor helps with: pages of rules, keys and values, and fixes."""

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types

from tests.cli.command import LLAMA, Repository
from tests.editor.client import Editor, edited, editing
from trainyard.docs.pages import markdown
from trainyard.rules.index import all_rules

JOB = f"{LLAMA}/job.yaml"
KUSTOMIZATION = f"{LLAMA}/kustomization.yaml"


def place(text: str, at: str) -> tuple[int, int]:
    """Line and column of `|` in a stretch of a text that is told without it."""
    before = text[: text.index(at.replace("|", ""))] + at.partition("|")[0]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


async def completed(editor: Editor, file: str, text: str, at: str) -> dict[str, str]:
    """What may be typed at `|`, and the line that each would come to."""
    editor.type(file, text)
    line, column = place(text, at)
    found = await editor.complete(file, line, column)
    lines = {}
    for label, item in found.items():
        assert item.text_edit is not None
        made = edited(text, [item.text_edit]).split("\n")
        lines[label] = "\n".join(made[line : line + 1 + len(made) - len(text.split("\n"))])
    return lines


@pytest.mark.claim("editor-completion")
def test_keys_and_what_the_facts_name_are_proposed(checkout: Repository, tmp_path: Path) -> None:
    text = (checkout.root / JOB).read_text()
    kustomization = (checkout.root / KUSTOMIZATION).read_text()

    async def scenario() -> None:
        async with editing(checkout.root, tmp_path) as editor:
            await editor.open(JOB)
            await editor.open(KUSTOMIZATION)
            keys = await completed(editor, JOB, text.replace("  keep: 3", "  k"), "    everySteps: 200\n    k|")
            assert keys == {"keep": "    keep: "}
            above = await completed(editor, JOB, text.replace("  nodes: 4\n", "  \n"), "sequenceLength: 4096\n  |")
            assert above["nodes"] == "  nodes: "
            assert above["elastic"] == "  elastic:\n    "
            assert above["command"] == "  command:\n  - "
            assert not {"model", "batch", "apiVersion"} & above.keys()
            models = await completed(editor, JOB, text, "  model: llama|-3.1-8b")
            assert {"llama-3.1-70b", "gpt2-124m"} <= models.keys()
            behind = await completed(
                editor, JOB, text.replace("parallelism: fsdp", "parallelism:"), "  parallelism:|\n"
            )
            assert behind["deepspeed"] == "  parallelism: deepspeed"
            assert next(iter(behind)) == "ddp"
            claims = await completed(editor, JOB, text, "    claim: |datasets")
            assert list(claims) == ["datasets"]
            paths = await completed(editor, JOB, text, "    path: |/data/instructions")
            assert "/data/instructions" in paths
            clusters = await completed(editor, JOB, text.replace("spec:\n", "spec:\n  cluster: \n"), "  cluster: |\n")
            assert clusters == {"gpu-east": "  cluster: gpu-east"}
            typed = kustomization.replace("resources:\n", "resources:\n- ../../../b\n")
            folders = await completed(editor, KUSTOMIZATION, typed, "- ../../../b|\n")
            assert folders["../../../base/deepspeed"] == "- ../../../base/deepspeed"
            assert {
                "../../../clusters/gpu-east/facts",
                "../../../base/queue/kueue",
                "../../../overlays/roce",
            } <= folders.keys()
            assert await completed(editor, KUSTOMIZATION, kustomization, "name|space: research") == {}
            assert await completed(editor, JOB, text.replace("kind: TrainingJob", "kind: Pod"), "  no|des: 4") == {}

    asyncio.run(scenario())


@pytest.mark.claim("editor-hover", "editor-fixes")
def test_rules_and_keys_are_explained_and_findings_fixed(checkout: Repository, tmp_path: Path) -> None:
    text = (checkout.root / JOB).read_text()
    broken, misspelt = text.replace("global: 128", "global: 96"), text.replace("  steps: 2000", "  stepz: 2000")

    async def scenario() -> None:
        async with editing(checkout.root, tmp_path) as editor:
            await editor.open(JOB)
            key = await editor.hover(JOB, *place(text, "    glo|bal: 128"))
            assert key.startswith("**spec.batch.global**\n\nSamples of one optimizer step over all ranks")
            assert key.endswith("integer, at least 1, default `8`")
            assert await editor.hover(JOB, *place(text, "apiVersion: train|yard.dev"))
            assert await editor.hover(JOB, 0, 3) == ""
            editor.type(JOB, broken)
            (unsafe,) = [each for each in await editor.judged(JOB) if each.code == "BAT001"]
            page = await editor.hover(JOB, *place(broken, "    global: |96"))
            assert page == page_of("BAT001") + "\n\n---\n\n" + key
            (fix,) = await editor.fixes(JOB, unsafe)
            assert fix.title == "set global to 128 (unsafe: it changes what the job means)"
            assert not fix.is_preferred
            assert after(editor, broken, fix) == text
            editor.type(JOB, f"# one more line\n{broken}")
            assert await editor.fixes(JOB, unsafe) == [], "the fix is for another text"
            editor.type(JOB, misspelt)
            (unknown,) = await editor.judged(JOB)
            (fix,) = await editor.fixes(JOB, unknown)
            assert fix.title == "rename it to steps (unsafe: it changes what the job means)"
            assert after(editor, misspelt, fix) == text

    asyncio.run(scenario())


def after(editor: Editor, text: str, action: types.CodeAction) -> str:
    """The text of the job once a code action for its newest version was made."""
    assert action.edit is not None
    assert action.edit.document_changes is not None
    (change,) = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document == types.OptionalVersionedTextDocumentIdentifier(
        uri=editor.uri(JOB), version=editor.versions[JOB]
    )
    return edited(text, change.edits)


def page_of(rule: str) -> str:
    """The page that `lint-jobs explain` prints, as Markdown."""
    return markdown(all_rules()[rule])
