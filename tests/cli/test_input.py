"""What can be given to lint-jobs, and where from."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import GPT2, LLAMA, POD, Repository, command, environment

pytestmark = pytest.mark.commands


@pytest.mark.claim("every-job-is-linted")
def test_nothing_is_every_job(checkout: Repository) -> None:
    assert checkout.judged() == [GPT2, LLAMA]
    assert checkout.lint().returncode == 0


@pytest.mark.parametrize(
    ("given", "cwd"),
    [
        (LLAMA, "."),
        (f"{LLAMA}/", "."),
        (f"{LLAMA}/job.yaml", "."),
        (f"{LLAMA}/kustomization.yaml", "."),
        ("llama-8b-sft", "jobs/research"),
        (".", LLAMA),
        ("job.yaml", LLAMA),
        ("../llama-8b-sft", GPT2),
        (f"base/../{LLAMA}", "."),
        (f"../../../{LLAMA}", "clusters/gpu-east/facts"),
    ],
)
def test_a_job_folder_and_its_files(given: str, cwd: str, checkout: Repository) -> None:
    assert checkout.judged(given, cwd=cwd) == [LLAMA]


def test_an_absolute_path_from_outside_the_repository(checkout: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()

    assert checkout.judged(checkout.root / LLAMA, cwd=tmp_path / "elsewhere") == [LLAMA]


def test_a_path_in_another_repository(checkout: Repository, tmp_path: Path) -> None:
    other = tmp_path / "other/overlays"
    other.mkdir(parents=True)
    (other / "pod.yaml").write_text(POD)
    subprocess.run(["git", "init", "-q", "--template=", tmp_path / "other"], check=True)
    (checkout.root / "link.yaml").symlink_to(other / "pod.yaml")

    assert checkout.judged("../other/overlays") == ["overlays"]
    assert "link.yaml: lies outside the repository" in checkout.lint("link.yaml").stdout
    assert "pod.yaml: lies outside the repository" in checkout.lint(GPT2, "../other/overlays/pod.yaml").stdout


def test_nothing_below_the_root_is_every_job(checkout: Repository) -> None:
    assert checkout.judged(cwd="base/torchrun") == [GPT2, LLAMA]


def test_a_team_and_several_paths(checkout: Repository) -> None:
    assert checkout.judged("jobs/research") == [GPT2, LLAMA]
    assert checkout.judged(GPT2, LLAMA, f"{GPT2}/job.yaml") == [GPT2, LLAMA]


def test_a_repository_without_git(checkout: Repository) -> None:
    shutil.rmtree(checkout.root / ".git")

    assert checkout.judged() == [GPT2, LLAMA]
    assert checkout.judged(cwd=LLAMA) == [GPT2, LLAMA]


def test_a_symlink_inside_is_followed_and_judged_once(checkout: Repository) -> None:
    (checkout.root / "jobs/alias").symlink_to("research")
    (checkout.root / "jobs/research/again").symlink_to("llama-8b-sft")
    (checkout.root / "jobs/research/round").symlink_to("..")

    assert checkout.judged() == [GPT2, LLAMA]
    assert checkout.judged("jobs/research/again") == [LLAMA]


def test_a_job_that_lies_elsewhere_and_is_linked(checkout: Repository) -> None:
    (checkout.root / "made").mkdir()
    (checkout.root / LLAMA).rename(checkout.root / "made/llama-8b-sft")
    checkout.replace("made/llama-8b-sft/kustomization.yaml", "../../../base/torchrun", "../../base/torchrun")
    checkout.replace("made/llama-8b-sft/kustomization.yaml", "../../../clusters/", "../../clusters/")
    checkout.replace("made/llama-8b-sft/kustomization.yaml", "../../../base/wiring", "../../base/wiring")
    (checkout.root / LLAMA).symlink_to("../../made/llama-8b-sft")

    assert checkout.judged() == [GPT2, "made/llama-8b-sft"]


def test_a_kustomization_above_jobs_hides_none_of_them(checkout: Repository) -> None:
    checkout.write("jobs/research/kustomization.yaml", "resources: []\n")
    checkout.write("jobs/kustomization.yaml", "resources: [research/gpt2-124m]\n")

    assert set(checkout.judged()) >= {GPT2, LLAMA}


def test_any_folder_with_a_kustomization(empty: Repository) -> None:
    empty.write("some/overlay/kustomization.yml", "resources: [pod.yaml]\n")
    empty.write("some/overlay/pod.yaml", POD.replace("Never", "4"))

    report = empty.report("some/overlay")

    assert [(f["rule"], f["file"], f["line"], f["column"]) for f in report["findings"] if f["severity"] == "error"] == [
        ("SCH001", "some/overlay/pod.yaml", 4, 23)
    ]


def test_manifest_files_with_many_documents_and_json(empty: Repository) -> None:
    wrong = POD.replace("Never", "4")
    empty.write("some/pods.yaml", f"{POD}---\n# nothing here\n---\n{wrong.replace('trainer}', 'second}')}")
    empty.write("some/deep er/pöd.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [{
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "json"}, "spec": {"restartPolicy": 4, "containers": []}
    }]}, indent=1))  # fmt: skip

    report = empty.report("some")
    errors = [(f["file"], f["line"], f["object"], f["path"]) for f in report["findings"] if f["rule"] == "SCH001"]

    assert ("some/pods.yaml", 11, "Pod/second", "spec.restartPolicy") in errors
    assert ("some/deep er/pöd.json", 12, "Pod/json", "spec.restartPolicy") in errors
    assert empty.judged("some/pods.yaml", "some/deep er/pöd.json") == ["some/deep er/pöd.json", "some/pods.yaml"]
    assert empty.judged("some") == ["some", "some/deep er"]


def test_standard_input(empty: Repository) -> None:
    report = empty.report("-", stdin=POD.replace("Never", "4"))

    finding = next(finding for finding in report["findings"] if finding["rule"] == "SCH001")
    assert (finding["file"], finding["line"], finding["column"]) == ("-", 4, 23)
    assert (empty.root.parent / "cache").exists() is False
    text = empty.lint("-", stdin=POD.replace("Never", "4")).stdout
    assert "4 | spec: {restartPolicy: 4," in text


RAY_JOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune, namespace: research}
spec:
  entrypoint: python tune.py
  managedBy: research.example.com/controller
  deletionStrategy:
    deletionRules: [{policy: DeleteCluster, condition: {ttlSeconds: 1}}]
  rayClusterSpec:
    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: ray}]}}}
"""


def test_what_a_definitions_rules_refuse_is_said_at_its_line(empty: Repository) -> None:
    """No definition and no API server is at hand, and the definition's own words are told."""
    empty.write("some/ray-job.yaml", RAY_JOB)
    empty.write("some/kustomization.yaml", "resources: [ray-job.yaml]\n")

    for target in ("some/ray-job.yaml", "some"):
        found = [each for each in empty.report(target)["findings"] if each["rule"] == "SCH010"]
        assert [(each["file"], each["line"], each["path"]) for each in found] == [
            ("some/ray-job.yaml", 6, "spec.managedBy"),
            ("some/ray-job.yaml", 8, "spec.deletionStrategy.deletionRules[0].condition"),
        ]
        assert "must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'" in found[0]["message"]
        assert "requires either the JobStatus or the JobDeploymentStatus field" in found[1]["message"]


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"", "error: -: holds no Kubernetes object"),
        (b"a: \xff\n", "error: -:1:4: byte 0xFF is not UTF-8 text"),
        (b"#" * 5_000_000, "error: -: file is larger than 4 MiB"),
    ],
    ids=["empty", "binary", "large"],
)
def test_standard_input_that_cannot_be_judged(stdin: bytes, message: str, empty: Repository) -> None:
    done = empty.lint("-", stdin=stdin)

    assert (done.returncode, done.stdout.splitlines()[0]) == (2, message)


def test_no_input_is_never_a_pass(empty: Repository, tmp_path: Path) -> None:
    done = empty.lint()
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        2,
        "error: jobs: holds neither a job folder, nor a kustomization, nor manifests",
    )
    (tmp_path / "nowhere").mkdir()
    done = empty.lint(cwd=tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"lint-jobs: no jobs/ folder in {tmp_path}/nowhere: name job folders or manifest files to lint\n"
    )


def test_the_folder_it_runs_in_is_gone(tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command()],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == "lint-jobs: the current folder cannot be read: no such file or directory\n"


def test_names_are_those_of_the_file_system(empty: Repository) -> None:
    name = os.fsdecode(b"na\xefve.yaml")
    empty.write(name, POD.replace("Never", "4"))

    done = empty.lint(name)

    assert done.returncode == 1
    assert r"na\xefve.yaml:4:23" in done.stdout
    assert empty.report(name)["findings"][0]["file"] == r"na\xefve.yaml"


def test_an_empty_path_is_bad_usage(checkout: Repository) -> None:
    done = checkout.lint("")
    assert done.returncode == 2
    assert str(done.stderr) == "lint-jobs: a PATH is empty: an unset variable, perhaps\n"


def test_parts_of_the_targets_make_up_the_whole(checkout: Repository) -> None:
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3")

    parts = [checkout.report("--shard", f"{number}/2") for number in (1, 2)]

    assert [finding for part in parts for finding in part["findings"]] == checkout.report()["findings"] != []
    assert [part["summary"]["exit_code"] for part in parts] in ([0, 1], [1, 0])
    assert checkout.judged("--shard", "3/3") == []
    for text in ("0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        done = checkout.lint(f"--shard={text}")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--shard {text}: expected the number of a part" in done.stderr


def test_a_job_folder_that_is_misspelt(checkout: Repository) -> None:
    done = checkout.lint("jobs/research/llama-8b-sf")

    assert done.returncode == 2
    assert "jobs/research/llama-8b-sf: does not exist" in done.stdout
    assert f"did you mean {LLAMA}?" in done.stdout
