"""The workflows of GitHub: what they run is pinned, and what strangers write reaches no shell and no token."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.copies import copy_parts
from tests.gitops.hostile import git

HOME = Path(__file__).resolve().parents[2]
FILES = sorted((HOME / ".github" / "workflows").glob("*.yaml"))


def workflow(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_are_pinned_by_digest_with_their_version(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_expression_stands_in_a_shell(file: Path) -> None:
    for job in workflow(file)["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rights_are_given_job_by_job(file: Path) -> None:
    found = workflow(file)
    assert found["permissions"] == {}
    assert "pull_request_target" not in found[True]  # `on` is a boolean in YAML 1.1


def test_a_job_that_may_write_checks_out_nothing() -> None:
    for file in FILES:
        for name, job in workflow(file)["jobs"].items():
            if job["permissions"].get("pull-requests") == "write":
                assert not any("checkout" in step.get("uses", "") for step in job["steps"]), name


JUDGES = workflow(HOME / ".github/workflows/lint-jobs.yaml")["jobs"]
LINT = JUDGES["lint"]


@pytest.mark.parametrize("name", JUDGES)
def test_the_pull_request_is_judged_by_the_toolkit_of_its_base(name: str) -> None:
    steps = JUDGES[name]["steps"]
    checkouts = [step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    scripts = [line.strip() for step in steps for line in step.get("run", "").splitlines()]

    assert {each["path"]: each.get("ref") for each in checkouts} == {
        "change": None,
        "toolkit": "${{ github.base_ref || github.ref }}",
    }
    assert JUDGES[name]["defaults"]["run"] == {"working-directory": "change"}
    assert "write" not in {right for what, right in JUDGES[name]["permissions"].items() if what != "security-events"}
    programs = [line.split()[0] for line in scripts]
    assert [
        each for each in programs if each not in ("mkdir", "echo") and not each.startswith("../toolkit/tools/")
    ] == []


def test_a_pull_request_that_changes_its_judge_is_judged_all_the_same(tmp_path: Path) -> None:
    """The scripts of the workflow, run on a change that takes the rules out of the linter it brings."""
    change = tmp_path / "change"
    (tmp_path / "toolkit").symlink_to(HOME)
    copy_parts(change, "base", "overlays", "clusters/lab-west", "jobs/research/gpt2-124m")
    git(change, "init", "--quiet", "--initial-branch=main", "--template=")
    git(change, "add", "--all")
    git(change, "commit", "--quiet", "--message", "state")
    git(change, "update-ref", "refs/remotes/origin/main", "HEAD")
    (change / "tools/trainyard").mkdir(parents=True)
    for program in ("lint-jobs", "diff-jobs"):
        (change / "tools" / program).write_text("#!/bin/sh\necho 1 job passes\n")
        (change / "tools" / program).chmod(0o755)
    (change / "tools/trainyard/__init__.py").write_text("raise SystemExit(0)\n")
    template = change / "base/run/pod-template.yaml"
    template.write_text(template.read_text().replace("  spec:\n", "  spec:\n    hostPID: true\n", 1))

    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(change / "tools")}
    settings = {**os.environ, **cache, "BASE": "main", "NUMBER": "7"}
    done = [
        subprocess.run(["bash", "-e", "-c", step["run"]], cwd=change, env=settings, capture_output=True, text=True)
        for step in LINT["steps"]
        if "run" in step
    ]

    assert [each.returncode for each in done] == [1, 1, 0], [each.stderr for each in done]
    assert all("error[SEC005]" in each.stdout for each in done)
    assert "SEC005" in (tmp_path / "diff-jobs/comment.md").read_text()
    assert (tmp_path / "lint-jobs.sarif").is_file()


TESTS = workflow(HOME / ".github/workflows/tests.yaml")


def test_every_pull_request_gets_the_checks_that_are_required() -> None:
    """A workflow that a path filter skips leaves them pending, and nobody could merge a job."""
    everybody = workflow(HOME / ".github/workflows/lint-jobs.yaml")
    required = re.search(r"require the checks (.*?),? on a branch", (HOME / "SECURITY.md").read_text())

    assert everybody[True] == {"pull_request": None, "push": {"branches": ["main"]}}
    assert TESTS[True]["pull_request"] is None
    assert required
    checks = {
        name
        for found in (everybody, TESTS)
        for name, job in found["jobs"].items()
        if "strategy" not in job and "name" not in job  # GitHub names the checks of a matrix `name (1)`
    }
    assert set(re.findall(r"`(\w+)`", required[1])) == {"lint", "verify", "test"} <= checks


def step(job: str) -> str:
    """The script of a job that has one."""
    [found] = [step["run"] for step in TESTS["jobs"][job]["steps"] if "run" in step]
    assert isinstance(found, str)
    return found


DECISIONS = {
    "a job": (("jobs/research/my-run/job.yaml",), "main", "no"),
    "a job and a cluster": (("jobs/research/my-run/job.yaml", "clusters/bern/facts/cluster.yaml"), "main", "no"),
    "nothing": ((), "main", "no"),
    "a base": (("base/run/job.yaml",), "main", "yes"),
    "a job and a rule": (("jobs/research/my-run/job.yaml", "tools/rule.py"), "main", "yes"),
    "a folder that is called so elsewhere": (("tests/jobs/row.yaml",), "main", "yes"),
    "a file at the top": (("jobs.yaml",), "main", "yes"),
    "a push": (("jobs/research/my-run/job.yaml",), "", "yes"),
    "a base that is not there": (("jobs/research/my-run/job.yaml",), "0" * 40, "yes"),
}


@pytest.mark.parametrize(("files", "base", "changed"), DECISIONS.values(), ids=DECISIONS.keys())
def test_the_tests_run_where_more_than_jobs_and_clusters_changed(
    files: tuple[str, ...], base: str, changed: str, tmp_path: Path
) -> None:
    root = tmp_path / "change"
    (root / "base/run").mkdir(parents=True)
    (root / "base/run/kustomization.yaml").touch()
    git(root, "init", "--quiet", "--initial-branch=main", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    git(root, "checkout", "--quiet", "-b", "change")
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "change")

    assert decided(root, base) == f"changed={changed}\n"


def test_a_file_that_leaves_the_toolkit_for_a_job_changes_the_toolkit(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/job.yaml").write_text("spec: {}\n" * 9)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--template=")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "state")
    git(tmp_path, "checkout", "--quiet", "-b", "change")
    (tmp_path / "jobs").mkdir()
    git(tmp_path, "mv", "base/job.yaml", "jobs/job.yaml")
    git(tmp_path, "commit", "--quiet", "--message", "change")

    assert decided(tmp_path, "main") == "changed=yes\n"


def decided(root: Path, base: str) -> str:
    """What the first job of the tests answers for a checkout."""
    output = root / ".git/output"
    settings = {**os.environ, "BASE": base, "GITHUB_OUTPUT": str(output)}
    done = subprocess.run(["bash", "-e", "-c", step("toolkit")], cwd=root, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output.read_text()


@pytest.mark.parametrize(
    ("changed", "shards", "passes"),
    [
        ("yes", "success", True),
        ("no", "skipped", True),
        ("yes", "failure", False),
        ("yes", "cancelled", False),
        ("yes", "skipped", False),
        ("", "skipped", False),
    ],
)
def test_one_check_stands_for_all_shards(changed: str, shards: str, passes: bool) -> None:
    """An empty answer is that of a first job that failed, which skips the shards too."""
    job = TESTS["jobs"]["test"]
    settings = {**os.environ, "CHANGED": changed, "SHARDS": shards}
    done = subprocess.run(["bash", "-e", "-c", step("test")], env=settings, capture_output=True, check=False)

    assert (job["needs"], job["if"]) == (["toolkit", "shards"], "always()")
    assert TESTS["jobs"]["shards"]["if"] == "needs.toolkit.outputs.changed == 'yes'"
    assert (done.returncode == 0) == passes


@pytest.mark.parametrize(("name", "job"), [("tests", "shards"), ("nightly", "product")])
def test_the_shards_of_the_tests_are_all_of_them(name: str, job: str) -> None:
    found = workflow(HOME / f".github/workflows/{name}.yaml")["jobs"][job]

    count = len(found["strategy"]["matrix"]["shard"])
    assert found["strategy"]["matrix"]["shard"] == list(range(1, count + 1))
    assert found["steps"][-1]["run"].endswith(f' --shard "$SHARD/{count}"')


def owners(file: Path) -> dict[str, list[str]]:
    """Who owns each file under version control: the last line that fits, as git reads its pattern."""
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        pattern, *named = line.partition("#")[0].split() or [""]
        if pattern:
            fitting = git(HOME, "ls-files", "-z", "--cached", "--ignored", "--exclude", pattern).split("\0")
            found |= dict.fromkeys(filter(None, fitting), named)
    return found


def test_what_judges_and_what_is_applied_has_an_owner() -> None:
    owned = owners(HOME / ".github" / "CODEOWNERS")
    tracked = set(git(HOME, "ls-files", "-z").split("\0")) - {""}

    assert {name for name in tracked if not owned.get(name)} == {
        name
        for name in tracked
        if name.startswith("jobs/") or (name.startswith("clusters/") and name.endswith("/flux/jobs/jobs.yaml"))
    }


@pytest.mark.slow_build
def test_github_reads_them_as_they_are_meant() -> None:
    """Keys, expressions, contexts, events, runners, and what a stranger writes in a script."""
    done = subprocess.run(
        [HOME / ".tools/actionlint/actionlint", "-shellcheck=", "-pyflakes=", *FILES],
        cwd=HOME,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_auditor_of_workflows_finds_nothing() -> None:
    """Injection, rights that are too wide, caches that strangers fill, credentials that stay, pins that are none."""
    auditor = Path(sys.executable).with_name("zizmor")
    command = [str(auditor), "--offline", "--quiet", "--color=never", ".github", "action.yml"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
