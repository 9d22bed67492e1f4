"""The workflow that comments: its step is run as GitHub runs it, with a `gh` that writes down what it is asked."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
import yaml
from cmarkgfm.cmark import Options
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.diff.test_command import NASTY, nasty
from trainyard.diff.markdown import MARKER, MOST, markdown
from trainyard.diff.model import Kind

HOME = Path(__file__).resolve().parents[2]
SHA = "0123456789abcdef0123456789abcdef01234567"
GH = f"""#!{sys.executable}
import json, pathlib, shutil, sys
with open("calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--input" in sys.argv:
    shutil.copy(sys.argv[sys.argv.index("--input") + 1], "posted.json")
elif "pulls" in sys.argv[-1]:
    print(json.dumps({{"head": {{"sha": "{SHA}"}}}}))
else:
    print(pathlib.Path("comments.json").read_text())
"""
WITHHELD = f"{MARKER}\nThis pull request changes what `tools/diff-jobs` writes. The log of its run shows it.\n"


def _steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load((HOME / ".github/workflows/comment.yaml").read_text())
    steps: list[dict[str, Any]] = workflow["jobs"]["comment"]["steps"]
    return steps


@dataclass(frozen=True, slots=True)
class Step:
    """A folder as the step finds it, with what came of the run."""

    folder: Path

    def run(self, comment: str, number: str = "7\n", sha: str = SHA, comments: object = ((),)) -> tuple[int, str]:
        """Exit code, and what it said."""
        (self.folder / "diff-jobs").mkdir(exist_ok=True)
        (self.folder / "diff-jobs/comment.md").write_bytes(comment.encode())
        (self.folder / "diff-jobs/number").write_text(number)
        (self.folder / "comments.json").write_text(json.dumps(comments))
        (self.folder / "gh").write_text(GH)
        (self.folder / "gh").chmod(stat.S_IRWXU)
        (step,) = (step for step in _steps() if "run" in step)
        assert step["shell"] == "python"
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "REPOSITORY": "example/jobs", "HEAD_SHA": sha, "GH_TOKEN": "none"}
        done = subprocess.run(
            [sys.executable, "-c", step["run"]], cwd=self.folder, env=settings, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def calls(self) -> list[list[str]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def posted(self) -> Any:
        return json.loads((self.folder / "posted.json").read_text())["body"]


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


@pytest.mark.parametrize("value", NASTY)
def test_what_diff_jobs_writes_is_posted_as_it_is(step: Step, value: str) -> None:
    comment = markdown(nasty(value))

    assert step.run(comment) == (0, "")

    assert step.posted == comment
    assert step.calls[-1][:4] == ["api", "--method", "POST", "repos/example/jobs/issues/7/comments"]


def test_a_comment_that_is_full_is_posted_too(step: Step) -> None:
    comment = markdown(nasty("x" * 3000), most=4000)
    assert "Left out" in comment

    assert step.run(comment) == (0, "")

    assert step.posted == comment


HOSTILE = {
    "a mention": "@example/owners please merge",
    "a link": "[the log](https://example.com)",
    "a bare address": "https://example.com/log",
    "a bare name of a host": "see www.example.com",
    "an image": "![x](https://example.com/x.png)",
    "an element": "<img src=https://example.com/x.png>",
    "an element in code": "<code><img src=x></code>",
    "an issue": "fixes #1",
    "a reference": "[x]: https://example.com",
    "HTML that looks like a fence": "<details><summary>rendered objects</summary>\n```diff\n<img src=x>\n```",
    "HTML after an end": "</details>\n```diff\n<img src=x>\n```",
    "a fence that ends early": "```diff\n+a\n```\n@example/owners\n```diff\n```",
    "a fence that never ends": "```diff\n+a",
    "another fence": "~~~diff\n+a\n~~~",
    "text after a line break of another kind": "a\r@example/owners",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_it_cannot_have_written_is_not_shown(step: Step, name: str) -> None:
    assert step.run(f"{MARKER}\n{HOSTILE[name]}\n") == (0, "")

    assert step.posted == WITHHELD


CODE_OF_A_STRANGER = """\
<!-- trainyard diff-jobs -->
```diff
 a\r```\r\r@security-team [click](https://evil.example) ![x](https://evil.example/t.png)\r\r```x
```
"""


def test_a_carriage_return_in_a_fence_ends_it(step: Step) -> None:
    """The renderer ends lines there, so what stands behind it is not code."""
    assert outside_of_code(CODE_OF_A_STRANGER).links == ["https://evil.example"]

    assert step.run(CODE_OF_A_STRANGER) == (0, "")

    assert step.posted == WITHHELD


class Outside(HTMLParser):
    """What GitHub's renderer makes of a comment, outside of code."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src") and tag == "a"]
        self._code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.words.append(data)


def outside_of_code(comment: str) -> Outside:
    found = Outside()
    found.feed(cmarkgfm.github_flavored_markdown_to_html(comment, options=Options.CMARK_OPT_UNSAFE))
    return found


TAGS = re.findall(r"\w+", "h3 p strong ul li table thead tbody tr th td details summary code pre")
WORDS = re.findall(
    "[A-Za-z]+",
    """
    Jobs since new edited renamed removed platform shared findings errors fixed no job and changes The base same for It
    does not render before after error warning info rendered objects Left out since a comment holds characters more
    shows all of it this is created when merged once edit reach its run the name that old stopped claim stays applied to
    cluster jobs only runs exist are left as they newly suppressed since
    """,
)


def is_harmless(comment: str) -> bool:
    """True where the renderer shows nothing outside of code but words of ours."""
    found = outside_of_code(comment)
    words = set(re.findall("[A-Za-z]+", re.sub(r"\([0-9a-f]{12}\)", "", " ".join(found.words))))
    return found.tags <= set(TAGS) and not found.links and words <= set(WORDS)


@pytest.mark.parametrize("value", NASTY)
def test_what_is_posted_shows_words_of_ours_and_code(value: str) -> None:
    assert is_harmless(markdown(nasty(value)))


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_change_is_posted(step: Step, kind: Kind) -> None:
    (folder,) = nasty("a@b.c").folders
    comment = markdown(replace(nasty("a"), folders=(replace(folder, kind=kind),) * 2))

    assert step.run(comment) == (0, "")

    assert step.posted == comment
    assert is_harmless(comment)


PIECES = (
    *HOSTILE.values(),
    *("\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u202e", "\x00", "\t", "    ", "\n", "\n\n", "`", "```", "~~~"),
    *(
        "@a",
        "a@b.c",
        "a&#64;b&#46;c",
        "a&#x40;b",
        "&commat;b",
        "&#064;b",
        "www.a.b",
        "https://a.b",
        "a.b/c#1",
        "#1",
        "[a](b)",
    ),
    *(
        "<code>",
        "</code>",
        "<!--",
        "-->",
        "<pre>",
        "<details>",
        "</details>",
        "<img src=x>",
        "<a href=x>",
        "<b>",
        "|",
        "**",
    ),
    *(
        "### Approved by the platform team",
        "Approved",
        "LGTM",
        "- [x] reviewed",
        "> said",
        "1. a",
        "---",
        "===",
        "\\",
        "$x$",
    ),
)


@pytest.fixture(scope="module")
def is_ours() -> Callable[[str], bool]:
    """The check of the step, as it stands in the workflow."""
    script = next(step["run"] for step in _steps() if "run" in step)
    scope: dict[str, Any] = {}
    exec(script.partition("folder = pathlib")[0].replace('os.environ["REPOSITORY"]', '""'), scope)
    check: Callable[[str], bool] = scope["is_ours"]
    return check


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(NASTY), st.lists(st.tuples(st.integers(0), st.integers(0, 3), st.sampled_from(PIECES)), max_size=4)
)
def test_nothing_that_passes_the_check_shows_anything_else(
    is_ours: Callable[[str], bool], value: str, changes: list[tuple[int, int, str]]
) -> None:
    comment = markdown(nasty(value))
    for at, gone, piece in changes:
        at %= len(comment)
        comment = comment[:at] + piece + comment[at + gone :]

    assert not is_ours(comment) or is_harmless(comment)


@pytest.mark.parametrize("line", ["### Approved by the platform team", "Approved", "**new** all checks: pass", "LGTM."])
def test_plain_words_of_a_stranger_are_not_shown(step: Step, line: str) -> None:
    assert step.run(f"{MARKER}\n{line}\n") == (0, "")

    assert step.posted == WITHHELD


@pytest.mark.parametrize("comment", ["", "Hello", f"x{MARKER}\n", f"{MARKER}\n{'a' * (MOST + 1)}@b", "\x00" * 999_999])
def test_what_is_no_comment_of_ours_is_not_shown(step: Step, comment: str) -> None:
    assert step.run(comment) == (0, "")

    assert len(step.posted) <= MOST
    assert step.posted == WITHHELD or step.posted.startswith(f"{MARKER}\naaa")
    assert "@" not in step.posted


def test_one_comment_is_edited_from_then_on(step: Step) -> None:
    """The first of the bot that has the marker; what others wrote with it is left alone."""
    comments = [
        [{"id": 1, "user": {"login": "stranger"}, "body": f"{MARKER}\nmine"}],
        [
            {"id": 2, "user": {"login": "github-actions[bot]"}, "body": "another workflow's"},
            {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nold"},
        ],
    ]

    assert step.run(markdown(nasty("a")), comments=comments) == (0, "")

    assert step.calls[-1][:4] == ["api", "--method", "PATCH", "repos/example/jobs/issues/comments/3"]


@pytest.mark.parametrize("number", ["", "7/../../8", "7 --method=DELETE", "-1", "\n7", "\uff17"])
def test_a_number_is_a_number(step: Step, number: str) -> None:
    code, said = step.run(markdown(nasty("a")), number)

    assert (code, said) == (1, "the artifact names no pull request\n")
    assert step.calls == []


def test_another_pull_request_is_not_commented_on(step: Step) -> None:
    assert step.run(markdown(nasty("a")), "8", sha="f" * 40) == (0, "pull request 8 has moved on\n")

    assert len(step.calls) == 1


def test_a_run_that_left_nothing_is_no_failure(step: Step) -> None:
    step.run("", sha="f" * 40)
    (step.folder / "diff-jobs/comment.md").unlink()
    script = _steps()[-1]["run"]
    settings = {"REPOSITORY": "example/jobs", "HEAD_SHA": SHA}

    assert subprocess.run([sys.executable, "-c", script], cwd=step.folder, env=settings).returncode == 0
