"""What a run prints and writes."""

import json
import os
import stat
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from tests.cli.command import GPT2, HOME, LLAMA, POD, Repository, command, environment

pytestmark = pytest.mark.commands

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"


@pytest.fixture
def wrong(checkout: Repository) -> Repository:
    """Both jobs with a mistake of their own, and a third that cannot be judged."""
    checkout.replace(f"{GPT2}/job.yaml", "micro: 15", "micro: 16")
    checkout.patch(
        LLAMA, "kind: Job\napiVersion: batch/v1\nmetadata: {name: torchrun}\nspec: {ttlSecondsAfterFinished: 5}\n"
    )
    checkout.write("jobs/research/broken/job.yaml", "a: [\n")
    return checkout


def test_every_format_at_once(wrong: Repository, tmp_path: Path) -> None:
    files = {form: tmp_path / f"out.{form}" for form in ("json", "sarif", "junit", "github")}
    arguments = [word for form, file in files.items() for word in ("--format", f"{form}={file}")]

    done = wrong.lint("--format", "text", *arguments)

    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines()[0].startswith("error: jobs/research/broken: is not a job folder")
    report = json.loads(files["json"].read_text())
    schema = json.loads((HOME / "tools/trainyard/report/findings.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    assert {job for finding in report["findings"] for job in finding["jobs"]} >= {GPT2, "jobs/research/broken"}
    log = json.loads(files["sarif"].read_text())
    sarif = json.loads((HOME / "tests/report/sarif-schema-2.1.0.json").read_text())
    jsonschema.Draft7Validator(sarif).validate(log)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == [f["rule"] for f in report["findings"]]
    suite = ET.parse(files["junit"]).getroot()
    assert sorted(case.attrib["name"] for case in suite.iter("testcase")) == ["jobs/research/broken", GPT2, LLAMA]
    assert files["github"].read_text().count("\n::error title=") >= 2
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask() for file in files.values())
    assert set(tmp_path.iterdir()) == {*files.values(), tmp_path / "cache", tmp_path / "repository"}


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_the_terminal_that_reads_it_may_know_little(wrong: Repository) -> None:
    wrong.write("jobs/research/brökén/job.yaml", "")

    done = wrong.lint(LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.isascii()
    assert done.stdout.count("is not a job folder") == 2


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("none/out.json", "no such file or directory"),
        (".", "is a directory"),
        ("out.json/below", "not a directory"),
        ("x" * 300, "file name too long"),
        ("/proc/out.json", "no such file or directory"),
        ("/dev/full", "no space left on device"),
    ],
)
def test_a_file_that_cannot_be_written(file: str, reason: str, checkout: Repository) -> None:
    checkout.write("out.json", "old")
    before = set(checkout.root.rglob("*"))

    done = checkout.lint("--format", f"json={file}", "--format", "text")

    assert (done.returncode, done.stderr) == (2, f"lint-jobs: cannot write {file}: {reason}\n")
    assert (checkout.root / "out.json").read_text() == "old"
    assert set(checkout.root.rglob("*")) == before


def test_an_older_report_is_replaced_also_behind_a_symlink(checkout: Repository) -> None:
    checkout.write("kept/out.json", "old")
    (checkout.root / "out.json").symlink_to("kept/out.json")

    assert checkout.lint("--format", "json=out.json").returncode == 0

    assert (checkout.root / "out.json").is_symlink()
    assert json.loads((checkout.root / "kept/out.json").read_text())["version"] == 1
    assert [file.name for file in (checkout.root / "kept").iterdir()] == ["out.json"]


def test_a_device_stays_one(checkout: Repository) -> None:
    formats = ("--format", "json=/dev/stderr", "--format", "github=/dev/null")

    done = subprocess.run(
        command(*formats), cwd=checkout.root, env=environment(checkout.root.parent), capture_output=True, check=False
    )

    assert done.returncode == 0
    assert json.loads(done.stderr)["summary"]["jobs"] == 2
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (["xml"], "--format xml: there are text, json, sarif, junit, github, codequality"),
        (["text", "json"], "--format: two formats cannot share standard output; write one to a file, as in sarif=FILE"),
        (["json="], "--format json=: the name of a file is missing"),
        (["json=a", "sarif=a"], "--format: two formats cannot share the file a"),
    ],
)
def test_formats_that_cannot_be(formats: list[str], message: str, empty: Repository) -> None:
    done = empty.lint(*(word for form in formats for word in ("--format", form)))

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"lint-jobs: {message}\n")


def test_help_has_examples_and_exit_codes(empty: Repository) -> None:
    done = empty.lint("--help")

    assert (done.returncode, done.stderr) == (0, "")
    for words in ("tools/lint-jobs --changed main", "explain RDV003", "exit codes:", "lint-jobs: ignore[RDV003]"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


SECRETS = {
    "plain": f"        env: [{{name: HF_TOKEN, value: {TOKEN}}}]\n",
    "quoted": f'        env:\n        - {{name: HF_TOKEN, value: "{TOKEN}"}}\n',
    "in a script": f"        args: [--ok, '--token={TOKEN}']\n",
    "several lines": f"        args:\n        - |\n          one\n          export HF_TOKEN={TOKEN}\n          two\n",
    "folded": f'        args:\n        - "one\n          --token={TOKEN}\n          two"\n',
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_format_prints_a_secret(name: str, empty: Repository, tmp_path: Path) -> None:
    empty.write(
        "manifests/job.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: trainer}\nspec:\n  template:\n    spec:\n      containers:\n"
        f"      - name: trainer\n        image: example.com/trainer:1\n{SECRETS[name]}",
    )
    forms = ("text", "json", "sarif", "junit", "github", "codequality")
    files = [tmp_path / f"{run}.{form}" for run in ("cold", "warm") for form in forms]

    for run in ("cold", "warm"):
        arguments = [word for form in forms for word in ("--format", f"{form}={tmp_path}/{run}.{form}")]
        assert empty.lint(*arguments, "manifests").returncode == 1

    for file in files:
        text = file.read_text()
        assert "SEC001" in text
        assert TOKEN[4:] not in text
        assert TOKEN[:8] not in text


def test_findings_of_other_rules_print_no_token_either(checkout: Repository) -> None:
    data = f"data:\n  HF_TOKEN: {TOKEN}\n  NCCL_DEBUG: {TOKEN}\n"
    checkout.patch(LLAMA, f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: {_nccl_name()}}}\n{data}")

    done = checkout.lint(LLAMA)

    assert 'the patch sets data.HF_TOKEN to "hf_A...", but the wiring takes it out' in done.stdout
    assert TOKEN[:8] not in done.stdout


def _nccl_name() -> str:
    lines = (HOME / "base/run/config-map-nccl.yaml").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("  name:"))


def test_findings_of_one_line_that_differ_are_all_told(empty: Repository) -> None:
    empty.write("some/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{}, {}]}\n")
    empty.write("some/job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {a: 1, b: 2}\n")

    errors = [f["message"] for f in empty.report("some")["findings"] if f["file"] == "some/job.yaml"]

    assert len(errors) == len(set(errors)) >= 3


def test_a_line_that_an_anchor_repeats_is_shown_once(empty: Repository) -> None:
    job = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: &pods {spec: {
      containers: [{name: pytorch, image: "registry.example.com/any:1", command: [torchrun, train.py], resource: {}}],
      volumes: [{name: cache, emptyDir: {sizeLimit: 64GB}}]}}}
    Worker: {replicas: 3, template: *pods}
"""
    (empty.root / "job.yaml").write_text(job)

    found = empty.report("--no-cache", "job.yaml")["findings"]

    told = [(each["rule"], each["line"]) for each in found if each["rule"] in ("RES005", "SCH001", "SEC004")]
    assert sorted(told) == [("RES005", 8), ("SCH001", 7), ("SEC004", 7)]
    assert [each["related"] for each in found if each["rule"] in ("RES005", "SEC004")] == [[], []]


def test_a_claim_without_its_suffix_is_told_once(empty: Repository) -> None:
    job = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {
      containers: [{name: pytorch, image: a, command: [torchrun, train.py]}],
      volumes: [{name: out, persistentVolumeClaim: {claimName: %s}}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: out, namespace: ml}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Ti}}}
"""
    empty.write("prod/kustomization.yaml", "nameSuffix: -prod\nresources: [job.yaml]\n")

    def told(claim: str) -> list[str]:
        empty.write("prod/job.yaml", job % claim)
        found = empty.report("--no-cache", "prod")["findings"]
        return [each["rule"] for each in found if each["rule"] in ("REF002", "STO005")]

    assert told("out") == ["REF002"]
    assert told("elsewhere") == ["STO005"]


def test_manifests_beside_jobs_are_targets(checkout: Repository) -> None:
    checkout.write("manifests/pod.yaml", POD)

    assert checkout.lint(GPT2, "manifests").stdout.splitlines()[-1] == "2 targets pass (1 unchanged since the last run)"
