"""The server stays: what breaks, what is stale, and what it is started with."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import HOME, LLAMA, Repository
from tests.editor.client import Editor, editing

JOB = f"{LLAMA}/job.yaml"


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the test looks processes up in /proc")
@pytest.mark.claim("editor-stays")
def test_it_outlives_what_judges(checkout: Repository, tmp_path: Path) -> None:
    text = (checkout.root / JOB).read_text()

    async def scenario(editor: Editor) -> None:
        await editor.open(JOB)
        await editor.judged(JOB)
        (judge,) = children(editor.pid)
        editor.type(
            JOB, "".join([text, *(f"x{i}: &x{i} [{'*x' + str(i - 1) + ',' if i else ''} 1]\n" for i in range(9))])
        )
        editor.type(JOB, text.replace("spec:", "spec: &all [*all, *all]\nspec:"))
        assert [each.code for each in await editor.judged(JOB)] == ["INP001"]
        os.kill(judge, signal.SIGKILL)
        await asyncio.sleep(0.2)
        editor.type(JOB, text.replace("nodes: 4", "nodes: many"))
        assert "SCH003" in [each.code for each in await editor.judged(JOB)]
        assert children(editor.pid) != [judge]
        editor.type(JOB, text)
        assert await editor.judged(JOB) == ()
        (judge,) = children(editor.pid)
        os.kill(judge, signal.SIGSTOP)
        version = editor.type(JOB, text.replace("nodes: 4", "nodes: few"))
        await asyncio.sleep(0.5)
        os.kill(judge, signal.SIGKILL)
        await editor.until(lambda: bool(editor.messages))
        assert editor.messages == ["lint-jobs: the process that judges ended (signal 9); the next edit starts it again"]
        assert editor.shown[editor.uri(JOB)].version != version
        editor.type(JOB, text)
        assert await editor.judged(JOB) == ()

    async def main() -> None:
        async with editing(checkout.root, tmp_path) as editor:
            await scenario(editor)

    asyncio.run(main())


@pytest.mark.claim("editor-stale")
def test_a_stale_text_is_not_judged_to_the_end(checkout: Repository, tmp_path: Path) -> None:
    text = (checkout.root / JOB).read_text()

    async def scenario() -> None:
        async with editing(checkout.root, tmp_path) as editor:
            await editor.open(JOB)
            await editor.judged(JOB)
            before = editor.published
            for number in range(40):
                editor.type(JOB, text.replace("global: 128", f"global: {number}"))
                await asyncio.sleep(0.01)
            for pause in (0.2, 0.25, 0.3):  # judging has begun
                editor.type(JOB, text.replace("global: 128", f"global: {pause}"))
                await asyncio.sleep(pause)
            editor.type(JOB, text.replace("global: 128", "global: 256"))
            (first, *_) = await editor.judged(JOB)
            assert first.message.startswith("micro 2 x accumulation 2 x ranks 32 = 128, but global is 256")
            assert editor.published - before <= 4
            assert editor.messages == []

    asyncio.run(scenario())


def test_it_stands_alone_and_says_what_it_needs() -> None:
    def ended(python: Path | str, *arguments: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(HOME / "tools")}
        command = [python, "-P", "-m", "trainyard", "lint-jobs", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, input="")
        assert done.stdout == ""
        return done.returncode, done.stderr

    assert ended(sys.executable, "--lsp", "jobs") == (
        2,
        "lint-jobs: --lsp stands alone: the editor says what is judged\n",
    )
    assert ended(HOME / ".tools/lint/bin/python", "--lsp") == (
        2,
        "lint-jobs: --lsp needs pygls: start tools/lint-jobs, or install trainyard[lsp]\n",
    )
