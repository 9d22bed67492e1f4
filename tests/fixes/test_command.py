"""`lint-jobs --fix` and `--diff` on files: what is written, what is not, and what is said."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.planted.checkout import GPT2, LLAMA, Checkout
from tests.said import said
from trainyard.cache import text_digest
from trainyard.findings.finding import Edit
from trainyard.fixes import apply
from trainyard.fixes.plan import plan
from trainyard.kustomize.rendered import RenderedOrigin
from trainyard.kustomize.replay import replay
from trainyard.lint.cli import main
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.yaml.sources import Sources

pytestmark = pytest.mark.commands

HOME = Path(__file__).parents[2]

JOB = """\
# A job by hand.
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  ttlSecondsAfterFinished: 600  # tidy
  template:
    spec:
      restartPolicy: Always # hm
      containers:
      - name: trainer
        image: example.com/trainer:1
        command: [python, train.py]
        env:
        # Keep InfiniBand off.
        - name: NCCL_IB_DISABLE
          value: "true"   # as the wiki says
        - {name: NCCL_BUFFSIZE, value: '8M'}
        - {name: NCCL_DEBUG_SUBSYS, value: NET}  # lint-jobs: ignore[NCL008] for the next run
        resources: {limits: {nvidia.com/gpu: 1, memory: 64GB, cpu: 8}}
"""

FIXED = (
    JOB.replace("restartPolicy: Always", "restartPolicy: Never")
    .replace('value: "true"', 'value: "1"')
    .replace("'8M'", "'8388608'")
    .replace("64GB", "64Gi")
)


def run(root: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of lint-jobs in a folder."""
    told = said(main, "--no-cache", *arguments, cwd=root)
    return told.code, told.out, told.errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def test_what_a_misspelt_name_hid_is_told_after_its_fix(folder: Path) -> None:
    misspelt = JOB.replace("NCCL_BUFFSIZE, value: '8M'", "NCCL_IB_GID_INDX, value: '3'")
    (folder / "job.yaml").write_text(misspelt.replace("NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"))

    code, out, _ = run(folder, "--fix", "--fail-on=warning", "job.yaml")

    assert "{name: NCCL_IB_GID_INDEX, value: '3'}" in (folder / "job.yaml").read_text()
    assert (code, out.count("[NCL010]")) == (1, 1)


def test_safe_fixes_are_written_and_the_rest_is_told(folder: Path) -> None:
    os.chmod(folder / "job.yaml", 0o640)

    code, out, errors = run(folder, "--fix", "--level=error", "job.yaml")

    assert (folder / "job.yaml").read_text() == FIXED
    assert stat.S_IMODE((folder / "job.yaml").stat().st_mode) == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["job.yaml", "jobs"]
    assert out.splitlines()[-4:] == [
        "fixed 4 in job.yaml (ENV001, ENV003, JOB001, RES005)",
        "not fixed: GIT001 at job.yaml:9:28: a comment stands in what would go: edit it by hand",
        "not judged of job.yaml: batch (nothing is known of the program train.py)",
        "1 target passes, 1 only in part (1 finding suppressed: NCL008)",
    ]
    assert (code, errors) == (0, "")


def test_a_second_run_changes_nothing(folder: Path) -> None:
    run(folder, "--fix=unsafe", "job.yaml")
    once = (folder / "job.yaml").read_text()
    written = (folder / "job.yaml").stat().st_mtime_ns

    _, out, _ = run(folder, "--fix=unsafe", "job.yaml")

    assert (folder / "job.yaml").read_text() == once
    assert (folder / "job.yaml").stat().st_mtime_ns == written
    assert "fixed" not in out.replace("not fixed", "")


def test_a_diff_is_shown_and_nothing_written(folder: Path) -> None:
    code, out, errors = run(folder, "--diff", "job.yaml")

    assert (folder / "job.yaml").read_text() == JOB
    assert code == 1
    assert out.startswith("--- a/job.yaml\n+++ b/job.yaml\n@@ -9,7 +9,7 @@\n")
    assert [line for line in out.splitlines() if line[0] in "+-"][2:] == [
        *("-      restartPolicy: Always # hm", "+      restartPolicy: Never # hm"),
        *('-          value: "true"   # as the wiki says', "-        - {name: NCCL_BUFFSIZE, value: '8M'}"),
        *('+          value: "1"   # as the wiki says', "+        - {name: NCCL_BUFFSIZE, value: '8388608'}"),
        "-        resources: {limits: {nvidia.com/gpu: 1, memory: 64GB, cpu: 8}}",
        "+        resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi, cpu: 8}}",
    ]
    assert errors.splitlines()[0] == "lint-jobs: would fix 4 in job.yaml (ENV001, ENV003, JOB001, RES005)"
    subprocess.run(["git", "apply", "-"], input=out, text=True, cwd=folder, check=True)
    assert (folder / "job.yaml").read_text() == FIXED


def test_a_clean_file_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "service.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")

    assert run(tmp_path, "--diff", "service.yaml") == (0, "", "lint-jobs: 0 findings would be fixed\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fix", "-"], "they take neither `-` nor --server"),
        (["--diff", "--format=json", "job.yaml"], "leave --format out"),
        (["--fix=all", "job.yaml"], "invalid choice: 'all'"),
    ],
)
def test_what_cannot_be_fixed_is_refused(folder: Path, arguments: list[str], words: str) -> None:
    code, _, errors = run(folder, *arguments)

    assert (code, (folder / "job.yaml").read_text()) == (2, JOB)
    assert words in errors


@pytest.mark.claim("shared-file-fixed-once")
def test_a_shared_file_is_fixed_once_for_all_jobs_and_not_for_one_alone(checkout: Checkout) -> None:
    service = checkout.root / "base/torchrun/service.yaml"
    good = service.read_text()
    checkout.replace("base/torchrun/service.yaml", "  publishNotReadyAddresses: true\n", "")

    alone, told, _ = run(checkout.root, "--fix", GPT2)
    untouched = service.read_text()
    together, report, _ = run(checkout.root, "--fix")

    assert (alone, untouched) == (0, good.replace("  publishNotReadyAddresses: true\n", ""))
    assert f"{LLAMA} would change too, without this finding: fix all jobs at once, or edit it by hand" in told
    assert (together, report) == (0, "fixed 1 in base/torchrun/service.yaml (RDV005)\n2 jobs pass\n")
    assert sorted(service.read_text().splitlines()) == sorted(good.splitlines())


def test_a_value_that_one_job_lacks_goes_into_its_own_file(checkout: Checkout) -> None:
    before = {file: file.read_bytes() for file in checkout.root.rglob("*.yaml")}
    job = checkout.root / GPT2 / "job.yaml"
    checkout.replace(f"{GPT2}/job.yaml", "  batch:\n    micro: 15\n    accumulation: 1\n    global: 480\n", "")
    text = job.read_text()

    code, told, _ = run(checkout.root, "--fix=unsafe", GPT2)

    assert (code, told.splitlines()[0]) == (0, f"fixed 1 in {GPT2}/job.yaml (BAT001)")
    assert job.read_text() == text.replace("  dataset:\n", "  batch:\n    global: 32\n  dataset:\n")
    assert all(file.read_bytes() == kept for file, kept in before.items() if file != job)


def test_a_default_that_does_not_fit_a_cluster_is_set_by_the_job(checkout: Checkout) -> None:
    checkout.replace("clusters/gpu-east/facts/cluster.yaml", "    gpus: 8\n", "    gpus: 4\n")
    checkout.replace(f"{LLAMA}/job.yaml", "  gpusPerNode: 8\n", "")

    _, told, _ = run(checkout.root, LLAMA)
    _, fixed, _ = run(checkout.root, "--fix=unsafe", LLAMA)

    here = "base/run/training-job.yaml:14:16"
    assert f"error[RDV002] torchrun starts 8 ranks in a pod, but the pod has 4 GPUs\n  --> {here}\n" in told
    assert (
        "help: start 4 ranks in each pod, or ask for 8 GPUs; "
        "gpusPerNode stands here as a default: a job sets it in its own job.yaml\n"
    ) in told
    assert (
        f"not fixed: RDV002 at {here}: the wiring copies it from {here}: set it in {LLAMA}/job.yaml"
    ) in fixed.splitlines()


def test_a_job_folder_is_put_together_in_rounds(checkout: Checkout) -> None:
    before = (checkout.root / LLAMA / "kustomization.yaml").read_text()
    checkout.replace(f"{LLAMA}/kustomization.yaml", "  options:\n    allowNameChange: true\n", "")
    checkout.replace(f"{LLAMA}/job.yaml", "  nodes: 4", "  nods: 4")
    checkout.patch(
        LLAMA,
        "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: any}\ntemplate:\n  spec:\n    containers:\n"
        "    - name: trainer\n      env:\n      - {name: NCCL_IB_TIMOUT, value: '22'} # slow switches\n",
        "{kind: PodTemplate}",
    )

    code, out, _ = run(checkout.root, "--fix", LLAMA)

    assert (code, out.splitlines()) == (
        0,
        [
            f"fixed 1 in {LLAMA}/job.yaml (SCH003)",
            f"fixed 1 in {LLAMA}/kustomization.yaml (CTR012)",
            f"fixed 1 in {LLAMA}/patch.yaml (ENV002)",
            "1 job passes",
        ],
    )
    assert (
        "- {name: NCCL_IB_TIMEOUT, value: '22'} # slow switches" in (checkout.root / LLAMA / "patch.yaml").read_text()
    )
    after = (checkout.root / LLAMA / "kustomization.yaml").read_text()
    assert set(before.splitlines()) <= set(after.splitlines())


def test_what_the_wiring_copies_is_not_edited_but_its_source_is_named(checkout: Checkout) -> None:
    sources = Sources(checkout.root)
    replayed = replay(checkout.root, GPT2, sources)
    objects = [Object.of(node.plain(), index) for index, node in enumerate(replayed.objects)]
    job = next(item for item in objects if item.kind == "Job")
    line = next(
        number
        for number, text in enumerate((checkout.root / GPT2 / "job.yaml").read_text().splitlines(), 1)
        if text.strip().startswith("nodes:")
    )

    fix = plan(put(job.at("spec", "completions"), 8), "write 8", RenderedOrigin(replayed, {}), sources)

    assert (fix.edits, fix.refused) == (
        (),
        f"the wiring copies it from {GPT2}/job.yaml:{line}:10: change it there",
    )


def test_deprecated_fields_are_rewritten_to_the_same_objects(tmp_path: Path) -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: x}, ports: [{port: 80}]}\n"
    for file, text in {
        "jobs/.keep": "",
        "base/kustomization.yaml": "resources: [a.yaml]\n",
        "base/a.yaml": service % "a",
        "over/b.yaml": service % "b",
        "over/p.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: NodePort}\n",
        "over/kustomization.yaml": "resources: # mine\n- b.yaml\n# theirs\nbases:\n- ../base\ncommonLabels:\n"
        "  team: x\npatchesStrategicMerge:\n- p.yaml # opens it\n",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text.replace("\n", "\r\n"))
    build: list[str | Path] = [HOME / ".tools/bin/kustomize", "build", tmp_path / "over"]
    before = subprocess.run(build, capture_output=True, check=True).stdout

    code, out, _ = run(tmp_path, "--fix", "over")

    after = subprocess.run(build, capture_output=True, check=True)
    assert (code, out) == (0, "fixed 3 in over/kustomization.yaml (KUS001 x3)\n1 target passes\n")
    assert (after.stdout, after.stderr) == (before, b"")
    assert (tmp_path / "over/kustomization.yaml").read_bytes() == (
        b"labels:\r\n- includeSelectors: true\r\n  pairs:\r\n    team: x\r\nresources: # mine\r\n- b.yaml\r\n"
        b"- ../base\r\n# theirs\r\npatches:\r\n- path: p.yaml # opens it\r\n"
    )


def test_a_file_that_changed_since_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("b: 2\n")

    failed = apply.write(tmp_path, {"a.yaml": "b: 3\n"}, {"a.yaml": "b: 1\n"})

    assert failed == {"a.yaml": "changed while it was judged"}
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.yaml", "b: 2\n")]
    with pytest.raises(apply.ChangedError):
        apply.edited("b: 2\n", [Edit("a.yaml", 1, 4, 1, 5, "3", text_digest("b: 1\n"))])


def test_a_symlink_is_followed_inside_the_repository_and_not_out_of_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "repository", tmp_path / "outside.yaml"
    root.mkdir()
    outside.write_text("b: 1\n")
    (root / "real.yaml").write_text("b: 1\n")
    (root / "in.yaml").symlink_to("real.yaml")
    (root / "out.yaml").symlink_to(outside)
    names = ("in.yaml", "out.yaml")

    failed = apply.write(root, dict.fromkeys(names, "b: 2\n"), dict.fromkeys(names, "b: 1\n"))

    assert failed == {"out.yaml": "lies outside the repository"}
    assert (outside.read_text(), (root / "real.yaml").read_text()) == ("b: 1\n", "b: 2\n")
    assert (root / "in.yaml").is_symlink()
