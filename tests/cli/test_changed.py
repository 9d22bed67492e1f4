"""--changed: exactly the targets that read what differs."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command import GPT2, LLAMA, POD, Repository
from trainyard.errors import UsageError
from trainyard.repository.changed import resolve

pytestmark = pytest.mark.commands


def spoil(checkout: Repository, file: str) -> None:
    with (checkout.root / file).open("a") as out:
        out.write("# another line\n")


@pytest.mark.parametrize(
    ("file", "judged"),
    [
        ("base/torchrun/job.yaml", [GPT2, LLAMA]),
        ("base/wiring/job.yaml", [GPT2, LLAMA]),
        (f"{LLAMA}/job.yaml", [LLAMA]),
        (f"{GPT2}/kustomization.yaml", [GPT2]),
        ("clusters/gpu-east/facts/cluster.yaml", [LLAMA]),
        ("clusters/lab-west/facts/cluster.yaml", [GPT2]),
        ("overlays/rdma/fabric.yaml", [LLAMA]),
        ("README.md", []),
        (f"{LLAMA}/NOTES.md", []),
    ],
)
def test_a_file_concerns_the_jobs_that_read_it(file: str, judged: list[str], checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    spoil(checkout, file)
    assert checkout.judged("--changed", "main") == judged

    checkout.commit()
    assert checkout.judged("--changed", "main", cwd=GPT2) == judged


def test_a_range_of_commits_and_a_choice_of_paths(checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    spoil(checkout, "base/torchrun/job.yaml")
    checkout.commit()
    spoil(checkout, f"{LLAMA}/job.yaml")
    checkout.commit()

    assert checkout.judged("--changed", "main..branch~1") == [GPT2, LLAMA]
    assert checkout.judged("--changed", "branch~1..") == [LLAMA]
    assert checkout.judged("--changed", "main...HEAD") == [GPT2, LLAMA]
    assert checkout.judged("--changed", "main", GPT2) == [GPT2]


def test_what_main_got_since_is_not_of_this_branch(checkout: Repository) -> None:
    checkout.git("branch", "branch")
    spoil(checkout, f"{LLAMA}/job.yaml")
    checkout.commit()
    checkout.git("switch", "--quiet", "branch")
    spoil(checkout, f"{GPT2}/job.yaml")

    assert checkout.judged("--changed", "main") == [GPT2]


def test_new_files_that_git_does_not_know_yet(checkout: Repository) -> None:
    checkout.copy_job(LLAMA, "jobs/research/llama-8b-more")
    checkout.write("manifests/pod.yaml", POD)

    assert checkout.judged("--changed", "main") == ["jobs/research/llama-8b-more"]
    assert checkout.judged("--changed", "main", "manifests", GPT2) == ["manifests"]


def test_renamed_and_deleted_files(checkout: Repository) -> None:
    (checkout.root / "overlays/rdma/fabric.yaml").rename(checkout.root / "overlays/rdma/new.yaml")
    checkout.replace("overlays/rdma/kustomization.yaml", "fabric.yaml", "new.yaml")
    assert checkout.judged("--changed", "main") == [LLAMA]

    (checkout.root / "overlays/rdma/new.yaml").unlink()
    done = checkout.lint("--changed", "main")
    assert done.returncode == 2
    assert "new.yaml names a file that does not exist" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 bad input in 1 of 1 job"


def test_a_job_that_is_deleted_altogether(checkout: Repository) -> None:
    shutil.rmtree(checkout.root / LLAMA)
    assert checkout.lint("--changed", "main").stdout == "no job reads what changed since main\n"

    (checkout.root / LLAMA).mkdir()
    done = checkout.lint("--changed", "main")
    assert (done.returncode, done.stdout) == (0, "no job reads what changed since main\n")


def test_a_job_that_is_deleted_in_part(checkout: Repository) -> None:
    (checkout.root / LLAMA / "job.yaml").unlink()

    done = checkout.lint("--changed", "main")

    assert done.returncode == 2
    assert done.stdout.splitlines()[0] == f"error: {LLAMA}: is not a job folder: job.yaml is missing"


def test_what_was_broken_before_is_not_of_this_branch(checkout: Repository) -> None:
    (checkout.root / LLAMA / "job.yaml").unlink()
    checkout.commit()
    spoil(checkout, f"{GPT2}/job.yaml")

    assert checkout.judged("--changed", "main") == [GPT2]
    assert checkout.lint("--changed", "main", LLAMA).returncode == 2


def test_documents_concern_no_job(checkout: Repository) -> None:
    checkout.write("docs/index.md", "# Docs\n")

    done = checkout.lint("--changed", "main")

    assert (done.returncode, done.stdout, done.stderr) == (0, "no job reads what changed since main\n", "")
    assert checkout.report("--changed", "main")["summary"]["jobs"] == 0


def test_a_file_behind_a_symlink(checkout: Repository) -> None:
    (checkout.root / "real").mkdir()
    (checkout.root / "overlays/rdma").rename(checkout.root / "real/rdma")
    (checkout.root / "overlays/rdma").symlink_to("../real/rdma")
    checkout.commit()
    spoil(checkout, "real/rdma/fabric.yaml")

    assert checkout.judged("--changed", "main") == [LLAMA]


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("no-such-branch", "--changed no-such-branch: git knows no commit no-such-branch"),
        ("main..no-such", "--changed main..no-such: git knows no commit no-such"),
        ("", "--changed : git knows no commit (empty)"),
        ("--output=stolen", "--changed --output=stolen: a revision does not begin with -"),
        ("main..--output=stolen", "--changed main..--output=stolen: a revision does not begin with -"),
        ("\x1b[31m::error::x", r"--changed \x1b[31m::error::x: git knows no commit \x1b[31m::error::x"),
    ],
)
def test_a_revision_that_git_does_not_know(base: str, message: str, checkout: Repository) -> None:
    before = sorted(checkout.root.iterdir())

    done = checkout.lint(f"--changed={base}")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"lint-jobs: {message}\n")
    assert sorted(checkout.root.iterdir()) == before


def test_no_repository_and_no_git(checkout: Repository) -> None:
    done = checkout.lint("--changed", "main", PATH="/nowhere")
    assert (done.returncode, done.stderr) == (2, "lint-jobs: git is not on PATH\n")

    shutil.rmtree(checkout.root / ".git")
    done = checkout.lint("--changed", "main", GIT_CEILING_DIRECTORIES=str(checkout.root.parent))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lint-jobs: git rev-parse: not a git repository")
    assert done.stderr.count("\n") == 1


def test_histories_that_share_no_commit(checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--orphan", "other")
    checkout.commit()
    checkout.git("checkout", "main", "--", ".")

    done = checkout.lint("--changed", "main")

    assert done.returncode == 2
    assert done.stderr == (
        "lint-jobs: --changed main: no commit is shared with it here; fetch the history (git fetch --unshallow)\n"
    )


def test_a_shallow_clone_is_named(checkout: Repository, tmp_path: Path) -> None:
    checkout.git("clone", "--quiet", "--depth=1", f"file://{checkout.root}", str(tmp_path / "clone"))
    with pytest.raises(
        UsageError, match=r"git knows no commit HEAD~1; this clone is shallow \(git fetch --unshallow\)"
    ):
        resolve(tmp_path / "clone", "HEAD~1")


def test_a_job_is_not_edited_under_its_old_name(checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    checkout.replace(f"{LLAMA}/job.yaml", "warmupSteps: 60", "warmupSteps: 61")
    assert [f["rule"] for f in checkout.report("--changed", "main")["findings"]] == []

    checkout.commit()
    (finding,) = checkout.report("--changed", "main")["findings"]
    assert (finding["rule"], finding["file"], finding["line"], finding["column"]) == (
        "GIT008",
        f"{LLAMA}/job.yaml",
        5,
        9,
    )
    assert finding["jobs"] == [LLAMA]

    text = (checkout.root / LLAMA / "job.yaml").read_text()
    checkout.write(f"{LLAMA}/job.yaml", text.replace("warmupSteps: 61", "warmupSteps: 60 # a tenth"))
    assert checkout.report("--changed", "main")["findings"] == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [("base/torchrun", "base/jobset", 5), ("clusters/gpu-east/facts", "clusters/lab-west/facts", 6)],
)
def test_a_job_does_not_move_under_its_old_name(checkout: Repository, old: str, new: str, line: int) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    checkout.replace(f"{LLAMA}/kustomization.yaml", f"../{old} ", f"../{new} ")
    checkout.commit()

    (finding,) = (each for each in checkout.report("--changed", "main")["findings"] if each["rule"] == "GIT008")

    assert (finding["file"], finding["line"]) == (f"{LLAMA}/kustomization.yaml", line)
    assert finding["message"].startswith(f"llama-8b-sft leaves ../../../{old}, but")


def test_a_base_that_is_renamed_moves_no_job(checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    (checkout.root / "base/torchrun").rename(checkout.root / "base/elastic-run")
    for job in (GPT2, LLAMA):
        checkout.replace(f"{job}/kustomization.yaml", "../base/torchrun ", "../base/elastic-run ")
    checkout.commit()

    assert "GIT008" not in [each["rule"] for each in checkout.report("--changed", "main")["findings"]]


def test_an_edit_of_a_new_job_is_free(checkout: Repository) -> None:
    checkout.git("switch", "--quiet", "--create", "branch")
    checkout.copy_job(LLAMA, "jobs/research/llama-8b-more")
    checkout.commit()
    checkout.replace("jobs/research/llama-8b-more/job.yaml", "warmupSteps: 60", "warmupSteps: 61")

    assert checkout.report("--changed", "main")["findings"] == []
