"""Pull requests of strangers: harmless output, no network, no process, no file left, in bounded time and memory."""

import os
import re
import resource
import socket
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import GPT2, LLAMA, POD, Repository, command, environment, files_below

pytestmark = pytest.mark.commands

EVIL = "\x1b[31mred\x1b]0;title\x07 ::error file=x::stolen ##vso[task.setvariable]x ##[command]y </testcase> \u202e&<>"
QUOTED = (
    r'"\e[31mred\e]0;title\a ::error file=x::stolen ##vso[task.setvariable]x\n::error::second line\n##[command]y '
    r'</testcase> \u202e&<>"'
)
SOON = 30.0
MEMORY = 2 << 30


def harmless(text: str) -> None:
    """No terminal or CI runner obeys it."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert not re.search(r"^ *::(?!(error|warning|notice) title=)", text, re.MULTILINE)
    assert not re.search(r"##[A-Za-z]*\[", text)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


TRICKS = {
    "remote base": "resources: ['http://127.0.0.1:{port}/x.yaml']\n",
    "remote git": "resources: ['git::http://127.0.0.1:{port}/x.git?ref=main']\n",
    "exec function": "resources: [f.yaml]\ntransformers: [exec.yaml]\n",
    "helm": "helmCharts: [{{name: x, repo: 'http://127.0.0.1:{port}/'}}]\n",
    "out by ..": "resources: [../../../../outside.yaml]\n",
    "absolute": "resources: [/etc/passwd]\n",
    "out by symlink": "resources: [link.yaml]\n",
    "secret file": "configMapGenerator: [{{name: x, files: [link.yaml]}}]\n",
    "circle": "resources: [../stranger]\n",
    "alias bomb": "resources: [bomb.yaml]\n",
    "deep": "resources: [deep.yaml]\n",
    "many": "resources: [many.yaml]\n",
    "numbers": "resources: [numbers.yaml]\n",
    "itself": "{{}}: {{}}\n",
    "plain text": "{evil}\n",
}
EXEC = """\
apiVersion: example.org/v1
kind: Stranger
metadata:
  name: x
  annotations: {config.kubernetes.io/function: "exec: {path: ./touch.sh}"}
"""


@pytest.mark.parametrize("name", TRICKS)
def test_tricks_in_a_kustomization(name: str, checkout: Repository, listener: socket.socket, tmp_path: Path) -> None:
    folder = "jobs/research/stranger"
    checkout.copy_job(LLAMA, folder)
    text = TRICKS[name].format(port=listener.getsockname()[1], evil=QUOTED)
    checkout.write(f"{folder}/kustomization.yaml", text)
    checkout.write(f"{folder}/exec.yaml", EXEC)
    checkout.write(f"{folder}/f.yaml", POD)
    checkout.write(f"{folder}/touch.sh", f"#!/bin/sh\ntouch {tmp_path}/stolen\n").chmod(0o755)
    checkout.write(f"{folder}/bomb.yaml", bomb(9))
    checkout.write(f"{folder}/deep.yaml", "a: " + "[" * 10_000 + "]" * 10_000)
    checkout.write(f"{folder}/many.yaml", POD + "x: [" + "1," * 300_000 + "]\n")
    checkout.write(f"{folder}/numbers.yaml", POD + f"x: {'9' * 100_000}\ny: 1e999999999\nz: 0x{'f' * 50_000}\n")
    (checkout.root / folder / "link.yaml").symlink_to("/etc/passwd")
    (tmp_path / "outside.yaml").write_text(POD.replace("trainer}", "outside}"))
    (tmp_path / "tmp").mkdir()
    before = files_below(checkout.root)
    started = time.monotonic()

    done = subprocess.run(
        command(GPT2, folder),
        cwd=checkout.root,
        env=environment(tmp_path) | {"TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert time.monotonic() - started < SOON
    assert done.returncode in (1, 2)
    assert done.stderr == ""
    harmless(done.stdout)
    assert "root:" not in done.stdout
    assert f"{folder}" in done.stdout
    assert f"{GPT2}" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 2000
    assert files_below(checkout.root) == before
    assert not (tmp_path / "stolen").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize(
    "text", [bomb(9), "[" * 10_000, POD + "x: [" + "1," * 300_000 + "]\n", "a: " * 5_000, f"a: {'9' * 1_000_000}"],
    ids=["alias bomb", "deep", "many", "keys", "number"],
)  # fmt: skip
def test_manifests_that_are_too_much(text: str, empty: Repository) -> None:
    empty.write("manifests/x.yaml", text)
    started = time.monotonic()

    done = subprocess.run(
        command("manifests"),
        cwd=empty.root,
        env=environment(empty.root.parent),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )

    assert time.monotonic() - started < SOON
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("error: manifests/x.yaml")
    assert len(done.stdout) < 1000


STRINGS = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: {QUOTED}, namespace: {QUOTED}, labels: {{{QUOTED}: {QUOTED}}}}}
{QUOTED}: {QUOTED}
spec:
  {QUOTED}: 1
  completions: {QUOTED}
  parallelism: 2
  template:
    spec:
      restartPolicy: {QUOTED}
      containers:
      - name: {QUOTED}
        image: {QUOTED}
        command: [torchrun, {QUOTED}, "--nnodes=2", "--nproc-per-node", {QUOTED}, train.py]
        env:
        - {{name: NCCL_IB_DISABLE, value: {QUOTED}}}
        - {{name: {QUOTED}, value: {QUOTED}}}
        - {{name: NCCL_DEBUGG, value: {QUOTED}}}
        resources: {{limits: {{nvidia.com/gpu: {QUOTED}, {QUOTED}: 1}}}}
---
apiVersion: {QUOTED}
kind: {QUOTED}
metadata: {{name: x}}
"""


def test_every_string_that_is_printed(empty: Repository, tmp_path: Path) -> None:
    names = [
        "a::error::b.yaml",
        "\x1b[31m.yaml",
        "##vso[x].yaml",
        "<x>&'\".yaml",
        "two\n::error::lines.yaml",
        "-x.yaml",
    ]
    names += [os.fsdecode(b"na\xefve\x9b.yaml"), "\u202etxt.yaml", "--format=json=stolen.yaml", "::error::.yaml"]
    for name in names:
        empty.write(f"manifests/{name}", STRINGS)
    forms = ("text", "json", "sarif", "junit", "github", "codequality")
    arguments = [word for form in forms for word in ("--format", f"{form}={tmp_path}/out.{form}")]

    done = empty.lint(*arguments, *(f"manifests/{name}" for name in names))

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    for form in forms:
        text = (tmp_path / f"out.{form}").read_text()
        harmless(text)
        assert "SCH001" in text
    ET.parse(tmp_path / "out.junit")
    assert not (empty.root / "stolen.yaml").exists()


def test_names_of_jobs_and_of_branches(checkout: Repository) -> None:
    checkout.copy_job(LLAMA, f"jobs/research/{EVIL.replace('/', '')}")
    branch = "$(touch${IFS}stolen);`id`&%0A##x"
    checkout.git("branch", branch)

    for form in ("text", "github", "junit", "json", "sarif", "codequality"):
        done = checkout.lint("--format", form)
        assert (done.returncode, done.stderr) == (2, "")
        harmless(done.stdout)
        assert checkout.lint("--format", form, "--changed", branch).returncode == 2


def test_file_names_that_look_like_options(checkout: Repository) -> None:
    checkout.write("--no-cache", POD)

    assert checkout.judged("--", "--no-cache") == ["--no-cache"]
    assert checkout.judged("./--no-cache") == ["--no-cache"]
    done = checkout.lint("--out-of::error::\x1b[31m")
    assert (done.returncode, done.stderr) == (
        2,
        "lint-jobs: unrecognized arguments: --out-of::error::\\x1b[31m (see lint-jobs --help)\n",
    )


def test_git_runs_nothing_that_the_repository_brings(checkout: Repository, tmp_path: Path) -> None:
    checkout.write(".gitattributes", "* diff=evil filter=evil\n")
    checkout.write(".git/hooks/post-index-change", f"#!/bin/sh\ntouch {tmp_path}/stolen\n").chmod(0o755)
    checkout.write(f"{LLAMA}/job.yaml", (checkout.root / LLAMA / "job.yaml").read_text() + "# changed\n")
    os.utime(checkout.root / GPT2 / "job.yaml", (0, 0))  # git writes its index anew where a time differs

    assert checkout.judged("--changed", "main") == [LLAMA]
    assert not (tmp_path / "stolen").exists()
