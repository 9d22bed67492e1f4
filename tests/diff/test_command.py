"""diff-jobs as reviewers see it, on a branch of a copy of this repository's jobs."""

import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests import recorded
from tests.said import Said, said
from trainyard.diff.command import main
from trainyard.diff.html import html
from trainyard.diff.markdown import MARKER, MOST, code, fenced, markdown
from trainyard.diff.model import Change, Difference, FindingLine, FolderDiff, Kind, ObjectDiff
from trainyard.diff.objects import object_diffs
from trainyard.diff.text import text

pytestmark = pytest.mark.commands

HERE = Path(__file__).parent
HOME = HERE.parents[1]
JOBS = ("gpt2-124m", "gpt2-355m", "llama-8b-sft", "llama-8b-math")


def diff(root: Path, *arguments: str) -> Said:
    return said(main, *arguments, "--no-cache", cwd=root)


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=researcher", "-c", "user.email=researcher@example.com"]
    return subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True).stdout


def edit(root: Path, file: str, old: str, new: str) -> None:
    written = (root / file).read_text()
    assert old in written
    (root / file).write_text(written.replace(old, new))


def hold(name: str, text: str) -> None:
    """An output is as recorded in snapshots/."""
    recorded.hold(HERE / "snapshots" / name, text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Four jobs on two clusters, committed to main; no Flux is told of them."""
    root = tmp_path / "repository"
    for part in ("base", "overlays", *(f"jobs/research/{job}" for job in JOBS)):
        shutil.copytree(HOME / part, root / part)
    for cluster in ("gpu-east", "lab-west"):
        ignored = shutil.ignore_patterns("flux", "monitoring", "nodes", "storage", "argocd")
        shutil.copytree(HOME / "clusters" / cluster, root / "clusters" / cluster, ignore=ignored)
        platform = f"clusters/{cluster}/platform/kustomization.yaml"
        kept = [line for line in (root / platform).read_text().splitlines() if _is_there(root / platform, line)]
        (root / platform).write_text("\n".join(kept) + "\n")
    git(root.parent, "init", "--quiet", "--initial-branch=main", "--template=", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "state")
    return root


def _is_there(file: Path, line: str) -> bool:
    return not line.startswith("- ") or (file.parent / line.removeprefix("- ").split(" ")[0]).exists()


def test_a_branch_with_everything(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "topic")
    jobs = "jobs/research"
    edit(repository, f"{jobs}/gpt2-124m/job.yaml", "nodes: 4", "nodes: 6")
    git(repository, "mv", f"{jobs}/llama-8b-math", f"{jobs}/llama-8b-maths")
    edit(repository, f"{jobs}/llama-8b-maths/job.yaml", "name: llama-8b-math", "name: llama-8b-maths")
    git(repository, "commit", "--quiet", "--all", "--message", "committed")
    edit(repository, "base/run/training-job.yaml", "NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO")
    edit(repository, "clusters/gpu-east/platform/research/resource-quota.yaml", 'gpu: "256"', 'gpu: "24"')
    shutil.rmtree(repository / f"{jobs}/gpt2-355m")
    shutil.copytree(HOME / f"{jobs}/llama-8b-chat", repository / f"{jobs}/llama-8b-chat")
    status = git(repository, "status", "--porcelain")

    said = diff(repository, "main", "--format=text", "--format=markdown=../comment.md", "--format=html=../page.html")

    assert (said.code, said.errors) == (0, "")
    commit = git(repository, "rev-parse", "--short=12", "main").strip()
    hold("everything.txt", said.out.replace(commit, "COMMIT"))
    hold("everything.md", (repository.parent / "comment.md").read_text().replace(commit, "COMMIT"))
    page = (repository.parent / "page.html").read_text()
    assert re.findall(r"<h2>(\w+) ", page) == re.findall(r"^(\w+) \S+(?: -&gt; \S+)?: ", escape(said.out), re.MULTILINE)
    assert "<tr><th>nodes</th><td>4</td><td>6</td></tr>" in page
    assert "<ins>+    requests.nvidia.com/gpu: &#x27;24&#x27;</ins>" in page
    assert git(repository, "status", "--porcelain") == status
    assert git(repository, "worktree", "list").count("\n") == 1


def test_a_program_of_ones_own_has_none_of_the_trainers_numbers(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "topic")
    job = "jobs/research/gpt2-124m"
    edit(repository, f"{job}/job.yaml", "spec:\n", "spec:\n  command: [torchrun, /workspace/train.py]\n")

    said = diff(repository, "main")

    assert (said.code, said.errors) == (0, "")
    shown = said.out[said.out.index(f"edited {job}") :]
    assert re.search(r"^  batch +micro 15 x accumulation 1, global 480 -> unset$", shown, re.MULTILINE), shown
    assert re.search(r"^  TRAINER_STEPS +\d+ -> unset$", shown, re.MULTILINE), shown


@pytest.mark.claim("diff-shows-the-platform")
def test_a_branch_without_jobs_changes_none(repository: Path) -> None:
    (repository / "README.md").write_text("words\n")
    said = diff(repository, "main")
    assert (said.code, re.sub(r"\(.*\)", "", said.out)) == (0, "since main : no job and no platform changes\n")


def test_a_base_that_does_not_render_is_told(repository: Path) -> None:
    job = "jobs/research/llama-8b-sft/kustomization.yaml"
    edit(repository, job, "base/torchrun", "base/torchrum")
    git(repository, "commit", "--quiet", "--all", "--message", "broken")
    edit(repository, job, "base/torchrum", "base/torchrun")

    said = diff(repository, "HEAD")

    assert said.code == 0
    assert "edited jobs/research/llama-8b-sft" in said.out
    assert "the base does not render: jobs/research/llama-8b-sft/kustomization.yaml" in said.out
    assert "fixed: error[INP001]" in said.out
    assert "unset" not in said.out

    edit(repository, job, "base/torchrun", "base/torchrum")
    git(repository, "commit", "--quiet", "--all", "--allow-empty", "--message", "same")
    edit(repository, "base/run/training-job.yaml", "NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO")
    assert "it does not render: jobs/research/llama-8b-sft/kustomization.yaml" in diff(repository, "HEAD").out


def test_a_job_file_that_is_no_map_leaves_the_other_jobs_compared(repository: Path) -> None:
    file = "jobs/research/llama-8b-sft/job.yaml"
    (repository / file).write_text("- a: 1\n")
    edit(repository, "jobs/research/gpt2-124m/job.yaml", "nodes: 4", "nodes: 6")

    said = diff(repository, "main")

    assert (said.code, said.errors) == (0, "")
    assert f"it does not render: {file}:1:1: expected a TrainingJob, found a list" in said.out
    assert "edited jobs/research/gpt2-124m" in said.out


def test_a_renamed_job_keeps_what_had_its_old_name_by_chance() -> None:
    def settings(name: str, nodes: int) -> list[dict[str, object]]:
        data = {"TRAINER_MODEL": "gpt2-355m", "TRAINER_RUN": name, "WORLD": str(nodes)}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-trainer"}, "data": data}]

    names = ("gpt2-355m", "gpt2-355m-b")
    assert object_diffs(settings(names[0], 4), settings(names[1], 4), names) == ()
    [told] = object_diffs(settings(names[0], 4), settings(names[1], 6), names)
    assert [line for line in told.lines if line[0] in "+-"] == ["-  WORLD: '4'", "+  WORLD: '6'"]


def test_what_somebody_silences_is_told_with_the_reason(repository: Path) -> None:
    job = "jobs/research/gpt2-124m/job.yaml"
    edit(repository, job, "micro: 15", "micro: 16")
    git(repository, "commit", "--quiet", "--all", "--message", "wrong")
    edit(repository, job, "global: 480", "global: 480 # lint-jobs: ignore[BAT001] `a` trial of sizes @all")

    said = diff(repository, "HEAD", "--format=text", "--format=markdown=../comment.md", "--format=html=../page.html")

    assert "1 edited, 1 newly suppressed\n" in said.out
    assert "newly suppressed: error[BAT001] " in said.out
    assert ", since: `a` trial of sizes @all\n" in said.out
    assert "fixed" not in said.out
    for file in ("comment.md", "page.html"):
        assert "trial" in (repository.parent / file).read_text()

    git(repository, "commit", "--quiet", "--all", "--message", "known")
    edit(repository, job, "nodes: 4", "nodes: 4 # as before")
    assert "suppressed" not in diff(repository, "HEAD").out


def test_what_the_owners_of_a_cluster_silence_is_told(repository: Path) -> None:
    job = "jobs/research/llama-8b-sft/job.yaml"
    edit(repository, job, "micro: 2", "micro: 3")
    git(repository, "commit", "--quiet", "--all", "--message", "wrong")
    (repository / "clusters/gpu-east/suppressions.yaml").write_text(
        "apiVersion: trainyard.dev/v1alpha1\nkind: SuppressionList\nmetadata: {name: gpu-east}\nsuppressions:\n"
        "- {rule: BAT001, job: jobs/research/llama-8b-sft, reason: a trial of sizes}\n"
    )

    said = diff(repository, "HEAD").out

    assert "shared jobs/research/llama-8b-sft" in said
    assert ", since: a trial of sizes\n" in said


def test_a_secret_is_not_shown(repository: Path) -> None:
    (repository / "jobs/research/gpt2-124m/secret.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: gpt2-124m-token}\nstringData: {token: hunter2}\n"
    )
    edit(repository, "jobs/research/gpt2-124m/kustomization.yaml", "patches:", "- secret.yaml\npatches:")

    said = diff(repository, "main", "--format=html")

    assert "Secret/research/gpt2-124m-token" in said.out
    assert "hunter2" not in said.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "diff-jobs: nothing: git knows no commit nothing\n"),
        (("",), "diff-jobs: BASE: git knows no commit (empty)\n"),
        (("main", "--help-me"), "unrecognized arguments"),
        (("main", "--format=pdf"), "diff-jobs: --format pdf: there are text, markdown, html\n"),
        (("main", "--format=text", "--format=html"), "two formats cannot share standard output"),
        (("main..topic",), "main..topic: name one revision"),
    ],
)
def test_bad_usage_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--template=")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "state")
    done = diff(tmp_path, *arguments)
    assert (done.code, done.out, done.errors.count("\n")) == (2, "", 1)
    assert said in done.errors


NASTY = (
    "</code></pre></details><script>alert(1)</script>",
    "![x](https://example.com/x.png) [y](javascript:1) <img src=x onerror=1>",
    "@everyone #1 example/repo#2 https://example.com www.example.com a@example.com",
    "`` ``` ~~~ | a | ** __ ~~ $x$ \\ &lt; &#60;",
    "\n\n# heading\n- item\n<!-- trainyard diff-jobs -->",
    "::error::x\x1b[31m\u202e ##[error]",
)


def nasty(value: str) -> Difference:
    folder = FolderDiff(
        kind=Kind.SHARED,
        folder=f"jobs/research/{value}",
        before=value,
        objects=(
            ObjectDiff(value, "changed", (f"+{value}", f"-{value}", f" {value}")),
            ObjectDiff(value, "added", (value,)),
        ),
        settings=(Change(value, value, value + "2"),),
        numbers=(),
        new=(FindingLine("error", value, value, value),),
        fixed=(FindingLine("error", value, value, value),),
        silenced=(FindingLine("error", value, value, value, value),),
        problem_before=value,
        problem=value,
        same=(value,),
    )
    return Difference(value, "0123456789ab", (folder,))


class _Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, tuple[str, ...]]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add((tag, tuple(name for name, _ in attrs)))

    def handle_comment(self, data: str) -> None:
        self.seen.add((f"<!--{data}-->", ()))


def tags(page: str) -> set[tuple[str, tuple[str, ...]]]:
    parser = _Tags()
    parser.feed(page)
    return parser.seen


@pytest.mark.parametrize("value", NASTY)
def test_nothing_of_a_stranger_is_markup(value: str) -> None:
    assert tags(html(nasty(value))) == tags(html(nasty("plain")))

    comment = markdown(nasty(value))
    outside = re.sub(r"(?ms)^(`{3,})diff\n.*?^\1$", "", comment).replace("&#64;<!---->", "&#64;")
    assert tags(outside) == tags(re.sub(r"(?ms)^(`{3,})diff\n.*?^\1$", "", markdown(nasty("plain"))))
    assert not re.search(r"[@\[\]\\~$*]", re.sub(r"\*\*(shared|error)\*\*|<code>[^<>`@\[\]\\~$*]*</code>", "", outside))
    shown = re.findall(r"<code>(.*?)</code>", outside)
    assert all(re.fullmatch(r"(?:[A-Za-z0-9 ,/=%-]|&#\d+;)*", each) for each in shown)
    assert outside.count(MARKER) == 1
    assert comment.startswith(MARKER)

    for line in text(nasty(value)).splitlines():
        assert line.isprintable()
        assert not line.lstrip().startswith("::")


def test_a_fence_is_longer_than_any_in_it() -> None:
    assert fenced(["+a", "+````", "+```"], "diff").splitlines()[::4] == ["`````diff", "`````"]


def test_code_shows_its_text() -> None:
    assert code("a|b `c`") == "<code>a&#124;b &#96;c&#96;</code>"


@pytest.mark.parametrize(("folders", "lines", "width"), [(3, 2000, 40), (400, 1, 40), (40, 30, 300), (1, 3, 80_000)])
def test_a_comment_is_never_longer_than_github_takes(folders: int, lines: int, width: int) -> None:
    difference = Difference(
        "main",
        "0123456789ab",
        tuple(
            FolderDiff(
                kind=Kind.EDITED,
                folder=f"jobs/research/job-{index}",
                before=f"jobs/research/job-{index}",
                objects=(ObjectDiff("ConfigMap/research/a", "changed", ("+" + "x" * width,) * lines),),
                settings=(Change("NCCL_DEBUG", "WARN", "!" * (width // 4)),),
                numbers=(),
                new=(),
                fixed=(),
            )
            for index in range(folders)
        ),
    )
    comment = markdown(difference)
    assert len(comment) <= MOST
    assert "Left out, since a comment holds 65,536 characters: " in comment
    assert comment.count("<details>") == comment.count("</details>")
    assert comment.count("```") % 2 == 0


def test_a_link_out_of_the_base_can_be_taken_away(repository: Path) -> None:
    link = repository / "jobs/research/gpt2-124m/link"
    link.symlink_to("/etc/passwd")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "link")
    link.unlink()
    edit(repository, "jobs/research/gpt2-124m/job.yaml", "nodes: 4", "nodes: 6")

    said = diff(repository, "HEAD")

    assert (said.code, said.errors) == (0, "")
    assert re.search(r"nodes +4 -> 6\n", said.out)


def test_what_is_refused_is_not_rendered(repository: Path) -> None:
    """A stranger's job that reads a file of the machine, or a repository elsewhere: nothing of it is shown."""
    (repository.parent / "token").write_text("hunter2\n")
    kustomization = "jobs/research/gpt2-124m/kustomization.yaml"
    edit(
        repository, kustomization, "patches:", "configMapGenerator:\n- {name: a, files: [../../../../token]}\npatches:"
    )
    edit(repository, "jobs/research/gpt2-355m/kustomization.yaml", "patches:", "- https://example.com/a//b\npatches:")

    said = diff(repository, "main", "--format=html")

    assert said.code == 0
    assert "hunter2" not in said.out
    assert said.out.count("It does not render: ") == 2
