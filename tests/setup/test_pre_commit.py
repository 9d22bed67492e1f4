"""The hooks, run by the real pre-commit: this repository's own, and the one that it offers to others."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.conftest import HOME, Run

pytestmark = pytest.mark.commands

JOB = "jobs/research/gpt2-124m/job.yaml"
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repository, *AUTHOR, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def repository_of(place: Path, *paths: str) -> Path:
    """A repository with one commit, which holds these files and folders of this one, as they are now."""
    listed = git(HOME, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *paths)
    for name in filter(None, listed.split("\0")):
        if (HOME / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, place / name)
    git(place, "init", "--quiet", "--initial-branch=main")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=Start")
    return place


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A repository of jobs, which has none of the tools."""
    return repository_of(tmp_path / "our jobs", "base", "clusters", "jobs", "overlays")


def plant(repository: Path) -> None:
    """A global batch that micro-batches cannot add up to, staged."""
    job = repository / JOB
    text = job.read_text()
    assert "global: 480" in text
    job.write_text(text.replace("global: 480", "global: 481"))
    git(repository, "add", JOB)


def pre_commit(
    run: Run, repository: Path, *arguments: str, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    home = str(cache or repository.parent / "pre-commit")
    return run(sys.executable, "-m", "pre_commit", *arguments, cwd=repository, PRE_COMMIT_HOME=home)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the hook is cloned from."""
    place = tmp_path_factory.mktemp("hook")
    return repository_of(place / "trainyard", ".pre-commit-hooks.yaml", "requirements", "schemas", "tools")


@pytest.fixture(scope="module")
def cache(tools: Path) -> Path:
    """Where pre-commit keeps the clone, which sets itself up once."""
    return tools.parent / "pre-commit"


def hooked(repository: Path, tools: Path, more: str = "") -> None:
    """Commit the lines that README tells other repositories to write."""
    revision = git(tools, "rev-parse", "HEAD").strip()
    config = f"repos:\n- repo: {tools}\n  rev: {revision}\n  hooks: [{{id: lint-jobs{more}}}]\n"
    (repository / ".pre-commit-config.yaml").write_text(config)
    git(repository, "add", ".pre-commit-config.yaml")


def test_other_repositories_get_the_linter_as_a_hook(jobs: Path, run: Run, tools: Path, cache: Path) -> None:
    hooked(jobs, tools)
    git(jobs, "commit", "--quiet", "--message=Lint")

    untouched = pre_commit(run, jobs, "run", cache=cache)
    plant(jobs)
    planted = pre_commit(run, jobs, "run", cache=cache)
    git(jobs, "checkout", "--quiet", "HEAD", JOB)
    (jobs / JOB).write_text((jobs / JOB).read_text() + "# no change of any value\n")
    git(jobs, "add", JOB)
    mended = pre_commit(run, jobs, "run", cache=cache)

    assert untouched.returncode == 0, untouched.stdout
    assert planted.returncode == 1, planted.stdout
    assert "micro 15 x accumulation 1 x ranks 32 = 480, but global is 481" in planted.stdout
    assert f"--> {JOB}:" in planted.stdout
    assert mended.returncode == 0, mended.stdout


@pytest.mark.claim("hook-every-way")
def test_a_mistake_that_is_committed_is_found_by_every_way_of_ci(
    jobs: Path, run: Run, tools: Path, cache: Path
) -> None:
    hooked(jobs, tools)
    git(jobs, "commit", "--quiet", "--message=Lint")
    plant(jobs)
    git(jobs, "commit", "--quiet", "--no-verify", "--message=A mistake")
    ways = ("run --all-files", "run --from-ref HEAD~1 --to-ref HEAD", f"run --files {JOB}")

    planted = [pre_commit(run, jobs, *way.split(), cache=cache) for way in ways]
    (jobs / JOB).write_text((jobs / JOB).read_text().replace("global: 481", "global: 480"))
    git(jobs, "commit", "--quiet", "--no-verify", "--all", "--message=Mend it")
    mended = [pre_commit(run, jobs, *way.replace("HEAD~1", "HEAD~2").split(), cache=cache) for way in ways]

    for way, done in zip(ways, planted, strict=True):
        assert (way, done.returncode) == (way, 1), done.stdout
        assert "but global is 481" in done.stdout
    assert [done.returncode for done in mended] == [0, 0, 0], [done.stdout for done in mended]


JOB_OF_TWO = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  parallelism: %s
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: example.org/train@sha256:3f2a5b0c6d1e4f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8
        command: [python, train.py]
"""

OTHER_LAYOUT = {
    "manifests/train.yaml": JOB_OF_TWO % 2,
    "manifests/values.yaml": "replicas: 2\n",
    "manifests/kubeconfig.json": '{"clusters": []}\n',
    "base/kustomization.yaml": "resources: [job.yaml]\n",
    "base/job.yaml": JOB_OF_TWO % 2,
    "overlays/prod/kustomization.yaml": "resources: [../../base]\nnamePrefix: prod-\n",
    "components/small/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    "patches:\n- target: {kind: Deployment}\n  patch: '[{op: remove, path: /spec/paused}]'\n",
    "jobs/data/prepare/kustomization.yaml": "resources: [job.yaml]\n",
    "jobs/data/prepare/job.yaml": JOB_OF_TWO % 2,
    "jobs/data/notes/README.md": "No job here.\n",
    "charts/app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
    "charts/app/templates/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata:\n{{- include labels . }}\n",
    ".github/workflows/ci.yaml": "on: push\njobs: {}\n",
}


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A repository of another layout, without a commit yet, in which everything is staged."""
    place = tmp_path / "theirs"
    for name, text in OTHER_LAYOUT.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git(place.parent, "init", "--quiet", "--initial-branch=main", str(place))
    git(place, "add", "--all")
    return place


def test_the_first_commit_of_a_repository_is_judged(others: Path, run: Run, tools: Path, cache: Path) -> None:
    hooked(others, tools)
    right = pre_commit(run, others, "run", cache=cache)
    (others / "manifests/train.yaml").write_text(JOB_OF_TWO % "two")
    git(others, "add", "--all")

    wrong = pre_commit(run, others, "run", cache=cache)

    assert right.returncode == 0, right.stdout
    assert wrong.returncode == 1, wrong.stdout
    assert "--> manifests/train.yaml:6:" in wrong.stdout


@pytest.mark.claim("hook-any-layout")
@pytest.mark.parametrize("file", ["manifests/train.yaml", "base/job.yaml", "jobs/data/prepare/job.yaml"])
def test_a_repository_of_another_layout(file: str, others: Path, run: Run, tools: Path, cache: Path) -> None:
    hooked(others, tools)
    git(others, "commit", "--quiet", "--message=Start")
    (others / file).write_text(JOB_OF_TWO % "two")
    git(others, "add", "--all")
    staged = pre_commit(run, others, "run", cache=cache)
    git(others, "commit", "--quiet", "--no-verify", "--message=A mistake")
    ways = ("run --all-files", "run --from-ref HEAD~1 --to-ref HEAD")

    committed = [pre_commit(run, others, *way.split(), cache=cache) for way in ways]

    for done in (staged, *committed):
        assert done.returncode == 1, done.stdout
        assert f"--> {file}:6:" in done.stdout


def test_only_what_is_staged_is_judged(others: Path, run: Run, tools: Path, cache: Path) -> None:
    hooked(others, tools)
    git(others, "commit", "--quiet", "--message=Start")
    (others / "manifests/train.yaml").write_text(JOB_OF_TWO % "two")
    (others / "draft").mkdir()
    (others / "draft/job.yaml").write_text(JOB_OF_TWO % "three")
    (others / "manifests/README.md").write_text("Staged.\n")
    git(others, "add", "manifests/README.md")

    done = pre_commit(run, others, "run", cache=cache)

    assert done.returncode == 0, done.stdout


@pytest.mark.claim("hook-excludes")
def test_what_the_configuration_excludes_is_not_judged(others: Path, run: Run, tools: Path, cache: Path) -> None:
    hooked(others, tools, ", exclude: ^manifests/")
    (others / "manifests/train.yaml").write_text(JOB_OF_TWO % "two")
    git(others, "add", "--all")

    staged = pre_commit(run, others, "run", cache=cache)
    everything = pre_commit(run, others, "run", "--all-files", cache=cache)

    assert (staged.returncode, everything.returncode) == (0, 0), staged.stdout + everything.stdout


@pytest.mark.claim("hook-excludes")
def test_a_remote_base_that_is_excluded_is_not_told(others: Path, run: Run, tools: Path, cache: Path) -> None:
    (others / "remote").mkdir()
    (others / "remote/kustomization.yaml").write_text("resources: ['https://example.com/base?ref=v1', job.yaml]\n")
    (others / "remote/job.yaml").write_text(JOB_OF_TWO % "2")
    ran = {}
    for excluded in ("remote", "elsewhere"):
        hooked(others, tools, f", exclude: ^{excluded}/")
        git(others, "add", "--all")
        ran[excluded] = pre_commit(run, others, "run", "--all-files", cache=cache)

    assert ran["remote"].returncode == 0, ran["remote"].stdout
    assert ran["elsewhere"].returncode == 1
    assert "remote/kustomization.yaml:1:13" in ran["elsewhere"].stdout


def test_a_manifest_beside_a_kustomization_that_does_not_read_it(
    others: Path, run: Run, tools: Path, cache: Path
) -> None:
    hooked(others, tools)
    kustomization = others / "manifests/kustomization.yaml"
    kustomization.write_text("resources: [other.yaml]\n")
    (others / "manifests/other.yaml").write_text(JOB_OF_TWO % 2)
    (others / "manifests/train.yaml").write_text(JOB_OF_TWO % "two")
    git(others, "add", "--all")
    followed = pre_commit(run, others, "run", cache=cache)
    kustomization.write_text("resources: [other.yaml, missing.yaml]\n")
    git(others, "add", "--all")

    lost = pre_commit(run, others, "run", cache=cache)

    assert "--> manifests/train.yaml:6:" in followed.stdout, followed.stdout
    assert "manifests/kustomization.yaml:1:25: missing.yaml names a file that does not exist" in lost.stdout
    assert "train.yaml" not in lost.stdout


def test_what_a_commit_deletes_is_judged_by_those_that_read_it(
    others: Path, run: Run, tools: Path, cache: Path
) -> None:
    hooked(others, tools)
    git(others, "commit", "--quiet", "--message=Start")
    git(others, "rm", "--quiet", "base/job.yaml")

    done = pre_commit(run, others, "run", cache=cache)

    assert done.returncode == 1, done.stdout
    assert "base/kustomization.yaml:1" in done.stdout


def test_a_commit_with_a_mistake_is_refused_here(jobs: Path, run: Run) -> None:
    shutil.copy(HOME / ".pre-commit-config.yaml", jobs)
    (jobs / "tools").mkdir()
    (jobs / "tools/lint-jobs").symlink_to(HOME / "tools/lint-jobs")
    git(jobs, "add", "--all")
    git(jobs, "commit", "--quiet", "--message=Tools")

    plant(jobs)
    planted = pre_commit(run, jobs, "run", "lint-jobs")
    git(jobs, "commit", "--quiet", "--no-verify", "--message=A mistake")
    committed = pre_commit(run, jobs, "run", "lint-jobs", "--all-files")

    assert planted.returncode == 1, planted.stdout
    assert "but global is 481" in planted.stdout
    assert committed.returncode == 1, committed.stdout


def test_both_files_are_valid(run: Run) -> None:
    for command, file in (
        ("validate-config", ".pre-commit-config.yaml"),
        ("validate-manifest", ".pre-commit-hooks.yaml"),
    ):
        done = run(sys.executable, "-m", "pre_commit", command, HOME / file)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow_build
def test_this_repository_passes_its_own_hygiene(run: Run, tmp_path: Path) -> None:
    here = repository_of(tmp_path / "here", ".")

    done = run(
        *(sys.executable, "-m", "pre_commit", "run", "--all-files", "--show-diff-on-failure"),
        cwd=here,
        PRE_COMMIT_HOME=str(tmp_path / "pre-commit"),
        SKIP="lint-jobs,ruff-check,ruff-format",  # tools/test runs ruff itself, of the same version
    )

    assert done.returncode == 0, done.stdout
