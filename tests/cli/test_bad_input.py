"""Input that cannot be judged: one line with its place, exit code 2, and the other targets are judged all the same."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import GPT2, HOME, LLAMA, POD, Repository, command, environment

pytestmark = pytest.mark.commands

KUSTOMIZATION = f"{LLAMA}/kustomization.yaml"


def remove(*files: str) -> Callable[[Repository], None]:
    def act(checkout: Repository) -> None:
        for file in files:
            (checkout.root / file).unlink()

    return act


def write(file: str, content: str | bytes) -> Callable[[Repository], object]:
    return lambda checkout: checkout.write(file, content)


def replace(file: str, old: str, new: str) -> Callable[[Repository], None]:
    return lambda checkout: checkout.replace(file, old, new)


def patch(text: str) -> Callable[[Repository], None]:
    return lambda checkout: checkout.patch(LLAMA, text)


def pipe(checkout: Repository) -> None:
    (checkout.root / LLAMA / "job.yaml").unlink()
    os.mkfifo(checkout.root / LLAMA / "job.yaml")


def link(file: str, target: str) -> Callable[[Repository], None]:
    def act(checkout: Repository) -> None:
        (checkout.root / file).unlink()
        (checkout.root / file).symlink_to(target)

    return act


CASES: dict[str, tuple[Callable[[Repository], object], str]] = {
    "empty folder": (
        remove(f"{LLAMA}/job.yaml", KUSTOMIZATION),
        f"{LLAMA}: is not a job folder: kustomization.yaml is missing",
    ),
    "no job.yaml": (remove(f"{LLAMA}/job.yaml"), f"{LLAMA}: is not a job folder: job.yaml is missing"),
    "no kustomization.yaml": (remove(KUSTOMIZATION), f"{LLAMA}: is not a job folder: kustomization.yaml is missing"),
    "broken YAML": (
        replace(f"{LLAMA}/job.yaml", "  nodes: 4", "  nodes: [4"),
        f"{LLAMA}/job.yaml:11:14: a list in [ ] lacks a comma or its closing bracket",
    ),
    "missing base": (
        replace(KUSTOMIZATION, "base/torchrun", "base/torchrunn"),
        f"{KUSTOMIZATION}:5:3: ../../../base/torchrunn names a folder that does not exist",
    ),
    "patch hits nothing": (
        patch("apiVersion: batch/v1\nkind: Job\nmetadata: {name: other}\nspec: {suspend: true}\n"),
        "patch hits nothing",
    ),
    "duplicate key": (
        replace(f"{LLAMA}/job.yaml", "  nodes: 4\n", "  nodes: 4\n  nodes: 8\n"),
        f'{LLAMA}/job.yaml:11:3: key "nodes" stands twice in one map; the first stands on line 10',
    ),
    "50 MB": (
        write(f"{LLAMA}/job.yaml", b"#" * 50_000_000),
        f"{LLAMA}/job.yaml: file has 47.7 MiB, and at most 4 MiB are read",
    ),
    "binary": (
        write(f"{LLAMA}/job.yaml", b"\x7fELF\x00\x01"),
        f"{LLAMA}/job.yaml:1:1: control character U+007F may not stand in YAML",
    ),
    "not UTF-8": (
        write(f"{LLAMA}/job.yaml", b"kind: TrainingJob\nname: na\xefve\n"),
        f"{LLAMA}/job.yaml:2:9: byte 0xEF is not UTF-8 text",
    ),
    "empty file": (write(f"{LLAMA}/job.yaml", b""), f"{LLAMA}/job.yaml: expected one TrainingJob, found no documents"),
    "job.yaml that is a list": (
        write(f"{LLAMA}/job.yaml", "# a list\n[1, 2]\n"),
        f"{LLAMA}/job.yaml:2:1: expected a TrainingJob, found a list",
    ),
    "job.yaml that is a list of maps": (
        write(f"{LLAMA}/job.yaml", "- a: 1\n"),
        f"{LLAMA}/job.yaml:1:1: expected a TrainingJob, found a list",
    ),
    "job.yaml that is a number": (
        write(f"{LLAMA}/job.yaml", "5\n"),
        f"{LLAMA}/job.yaml:1:1: expected a TrainingJob, found the integer 5",
    ),
    "job.yaml that is a text": (
        write(f"{LLAMA}/job.yaml", '"x"\n'),
        f'{LLAMA}/job.yaml:1:1: expected a TrainingJob, found the string "x"',
    ),
    "no object": (write(KUSTOMIZATION, "- a\n- b\n"), f"{KUSTOMIZATION}:1:1: "),
    "FIFO": (pipe, f"{KUSTOMIZATION}:8:9: job.yaml names what is not a plain file"),
    "two kustomizations": (
        write(f"{LLAMA}/kustomization.yml", "resources: []\n"),
        f"{LLAMA}/kustomization.yml: folder has 2 kustomization files; keep one",
    ),
    "link out": (
        link(f"{LLAMA}/job.yaml", "/etc/hostname"),
        f"{KUSTOMIZATION}:8:9: job.yaml leads out of the repository through a symlink",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_clear_line_and_the_other_job_is_judged(name: str, checkout: Repository, tmp_path: Path) -> None:
    spoil, message = CASES[name]
    spoil(checkout)
    checkout.replace(f"{GPT2}/job.yaml", "micro: 15", "micro: 16")

    done = checkout.lint("--format", "text", "--format", f"json={tmp_path}/findings.json")

    assert (done.returncode, done.stderr) == (2, "")
    first, second, *_, last = done.stdout.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second == ""
    assert done.stdout.count(LLAMA) == first.count(LLAMA)
    assert f"--> {GPT2}/job.yaml" in done.stdout
    assert last.startswith("1 bad input, 1 error in 2 of 2 jobs")
    finding, *others = json.loads((tmp_path / "findings.json").read_text())["findings"]
    assert (finding["rule"], finding["input_error"], finding["jobs"]) == ("INP001", True, [LLAMA])
    place = ":".join(str(part) for part in (finding["file"], finding["line"], finding["column"]) if part is not None)
    assert message in f"{place}: {finding['message']}"
    assert [other["jobs"] for other in others] == [[GPT2]]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("jobs/research/none", "jobs/research/none: does not exist"),
        ("jobs/research/llama-8b-sft/job.yaml/x", "jobs/research/llama-8b-sft/job.yaml/x: does not exist"),
        ("/etc/hostname", "/etc/hostname: lies outside the repository {root}"),
        ("../elsewhere.yaml", "../elsewhere.yaml: lies outside the repository {root}"),
        ("out.yaml", "out.yaml: lies outside the repository {root} through a symlink"),
        ("pipe", "pipe: is not a regular file"),
        ("docs", "docs: holds neither a job folder, nor a kustomization, nor manifests"),
        ("text.yaml", "text.yaml:1:1: expected a Kubernetes object, found no map"),
        ("values.yaml", "values.yaml:1:1: is not a Kubernetes object: kind is missing"),
        ("x" * 5000, "cannot be read: file name too long"),
    ],
    ids=lambda value: value[:20],
)
def test_a_path_that_is_nothing_to_judge(path: str, message: str, checkout: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text(POD)
    (checkout.root / "out.yaml").symlink_to("../elsewhere.yaml")
    os.mkfifo(checkout.root / "pipe")
    checkout.write("docs/index.md", "# Docs\n")
    checkout.write("text.yaml", "just text\n")
    checkout.write("values.yaml", "image: trainer\n")

    done = checkout.lint(path, GPT2)

    assert done.returncode == 2
    assert message.format(root=checkout.root) in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[-1].startswith("1 bad input in 1 of 2 ")


def test_every_broken_file_of_a_folder_is_told(empty: Repository) -> None:
    empty.write("some/a.yaml", "a: [\n")
    empty.write("some/b.yaml", "b: {\n")
    empty.write("some/c.yaml", POD)

    files = [finding["file"] for finding in empty.report("some")["findings"]]

    assert files == ["some/a.yaml", "some/b.yaml"]


TWICE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  backoffLimit: 1
  backoffLimit: -2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: example.com/trainer:1
        env:
        - {name: NCCL_DEBUGG, value: INFO, value: WARN}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
dat: {c: d}
"""


def test_a_key_that_stands_twice_is_told_at_its_place_and_the_rest_is_judged(empty: Repository) -> None:
    empty.write("job.yaml", TWICE)
    empty.write("other/job.yaml", POD.replace("metadata:", "metadata: {name: x}\nmetadata:"))

    report = empty.report("job.yaml", "other")

    told = [(found["file"], found["line"], found["rule"]) for found in report["findings"]]
    assert report["summary"]["exit_code"] == 2
    assert [each for each in told if each[2] == "INP001"] == [
        ("job.yaml", 6, "INP001"), ("job.yaml", 14, "INP001"), ("other/job.yaml", 4, "INP001"),
    ]  # fmt: skip
    assert {("job.yaml", 6, "JOB005"), ("job.yaml", 14, "ENV002"), ("job.yaml", 19, "SCH001")} <= set(told)


def test_each_key_that_stands_twice_in_a_job_folder_is_told(checkout: Repository) -> None:
    checkout.replace(f"{LLAMA}/job.yaml", "  nodes: 4\n", "  nodes: 4\n  nodes: 8\n  nodes: 9\n")
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 2\n    micro: 3")
    checkout.replace(f"{GPT2}/kustomization.yaml", "namespace: research", "namespace: research\nnamespace: a")

    found = checkout.report(LLAMA, GPT2)["findings"]

    job = (checkout.root / LLAMA / "job.yaml").read_text().splitlines()
    lines = [found["line"] for found in found if found["file"] == f"{LLAMA}/job.yaml"]
    assert {each["rule"] for each in found} == {"INP001"}
    assert [job[line - 1].strip() for line in lines] == ["nodes: 8", "nodes: 9", "micro: 3"]
    assert [each["line"] for each in found if each["file"] == f"{GPT2}/kustomization.yaml"] == [4]


def test_a_file_in_which_a_key_stands_twice_is_not_fixed(empty: Repository) -> None:
    empty.write("job.yaml", TWICE)

    done, shown = (empty.lint("--fix=unsafe", *diff, "job.yaml") for diff in ((), ("--diff",)))

    assert (done.returncode, shown.returncode) == (2, 2)
    assert (empty.root / "job.yaml").read_text() == TWICE
    assert "a key of the file stands twice: remove one of the two first" in shown.stderr
    assert "@@" not in shown.stdout


CASES_TOLD = sorted((HOME / "tests/cases").glob("*/*.yaml"))


@pytest.mark.parametrize("case", CASES_TOLD[:: len(CASES_TOLD) // 10], ids=lambda case: case.stem)
def test_what_is_judged_is_what_the_last_value_says(case: Path, empty: Repository) -> None:
    """Findings are those of the file without the first of two values, each a line further down for each of those."""
    kind = re.compile(r"^kind:", re.MULTILINE)
    text = case.read_text()
    empty.write("once/a.yaml", kind.sub("#\nkind:", text))
    empty.write("twice/a.yaml", kind.sub("kind: Nothing\nkind:", text))

    once, twice = (
        [
            (found["line"], found["column"], found["rule"], found["message"])
            for found in empty.report(folder)["findings"]
            if found["rule"] != "INP001"
        ]
        for folder in ("once", "twice")
    )

    assert twice == once


def test_of_more_keys_that_stand_twice_than_anybody_reads_the_first_are_told(empty: Repository) -> None:
    empty.write("a.yaml", POD + "---\n" + "a: 1\n" * 5000)

    findings = empty.report("a.yaml")["findings"]

    assert len([each for each in findings if "stands twice" in each["message"]]) == 1000
    assert "has more than 1000 keys that stand twice" in {each["message"] for each in findings}


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        (LLAMA, f"error: {LLAMA}: cannot be read: permission denied"),
        (f"{LLAMA}/job.yaml", f"error: {LLAMA}/job.yaml: no permission to read this file"),
        ("jobs/research", "error: jobs/research: cannot be read: permission denied"),
    ],
)
def test_what_may_not_be_read(closed: str, message: str, checkout: Repository) -> None:
    as_everyone = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    checkout.write("manifests/pod.yaml", POD)
    (checkout.root / closed).chmod(0o000)

    done = subprocess.run(
        [*as_everyone, *command("jobs/research", "manifests")],
        cwd=checkout.root,
        env=environment(checkout.root.parent),
        capture_output=True,
        text=True,
        check=False,
    )

    (checkout.root / closed).chmod(0o755)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines()[0] == message
    assert done.stdout.count("error: ") == 1
