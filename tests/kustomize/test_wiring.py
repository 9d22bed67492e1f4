"""The tables of the wiring and the keys of the trainer, and what is written from them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trainyard.catalogues import settings
from trainyard.errors import Fault, InputError
from trainyard.home import HOME
from trainyard.kustomize.wiring import files

TABLE = """\
# Why.
parts.yaml:
  Job.batch/training-job when annotation a.b/c!=true:
    spec.nodes: TrainingJob spec.nodes
    spec.template:
      width: TrainingJob spec.nodes
      items[trainer].env[A].value: TrainingJob spec.nodes, create
      items[key=a].name: ConfigMap/repository data.items[b].url, before -x
  Service when label queue:
    metadata.labels.[a.b/c]: ConfigMap/repository data.items[b].url, part 2 of /
    data.TRAINER_*: trainer/config.py
../facts:
"""
WRITTEN = """\
# Written by tools/update-docs from table.yaml, which says why.
apiVersion: builtin
kind: ReplacementTransformer
metadata:
  name: parts
replacements:
- source:
    kind: TrainingJob
    fieldPath: spec.nodes
  targets:
  - select:
      group: batch
      kind: Job
      name: training-job
      annotationSelector: a.b/c!=true
    fieldPaths:
    - spec.nodes
    - spec.template.width
  - select:
      group: batch
      kind: Job
      name: training-job
      annotationSelector: a.b/c!=true
    fieldPaths:
    - spec.template.items.[name=^trainer$].env.[name=^A$].value
    options:
      create: true
- source:
    kind: ConfigMap
    name: repository
    fieldPath: data.items.[name=b].url
  targets:
  - select:
      group: batch
      kind: Job
      name: training-job
      annotationSelector: a.b/c!=true
    fieldPaths:
    - spec.template.items.[key=^a$].name
    options:
      delimiter: -x
      index: 0
  - select:
      kind: Service
      labelSelector: queue
    fieldPaths:
    - metadata.labels.[a.b/c]
    options:
      delimiter: /
      index: 2
- source:
    kind: TrainingJob
    fieldPath: spec.model
  targets:
  - select:
      kind: Service
      labelSelector: queue
    fieldPaths:
    - data.TRAINER_MODEL
"""
LISTED = """\
# Written by tools/update-docs from table.yaml, which says why.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- parts.yaml
- ../facts
"""


def test_a_table_becomes_replacements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SET", {"model": settings.SET["model"]})
    table = tmp_path / "table.yaml"
    table.write_text(TABLE)
    assert files(table) == {tmp_path / "parts.yaml": WRITTEN, tmp_path / "kustomization.yaml": LISTED}


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ("Job where x: {a: TrainingJob b}", Fault, "no object: Job where x; the head of base/wiring/table.yaml"),
        ("Job: {spec.nodes: spec.nodes}", Fault, "spec.nodes of Job is filled from no field: spec.nodes"),
        ("Job: {a: 'TrainingJob b, behind -'}", Fault, "a of Job is filled from no field: TrainingJob b, behind -"),
        ("Job: {a: TrainingJob b, a: TrainingJob c}", InputError, 'key "a" stands twice in one map'),
    ],
)
def test_a_row_that_says_nothing_is_named(tmp_path: Path, row: str, kind: type[Exception], message: str) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(f"job.yaml:\n  {row}\n")
    with pytest.raises(kind) as error:
        files(table)
    assert message in str(error.value)
    assert "table.yaml" in str(error.value)


@pytest.mark.parametrize("table", sorted(HOME.glob("base/**/wiring/table.yaml")), ids=lambda file: file.parts[-3])
def test_wiring_is_what_update_docs_writes(table: Path) -> None:
    wanted = files(table)
    assert {file: file.read_text() for file in wanted} == wanted, "run tools/update-docs"
    written = {file for file in table.parent.glob("*.yaml") if file.read_text().startswith("# Written by")}
    assert written == set(wanted)


def test_settings_are_what_update_docs_writes() -> None:
    wanted = settings.files()
    assert {file: file.read_text() for file in wanted} == wanted, "run tools/update-docs"


KEY = "    seed: int = key("
NEW = '    label_smoothing: float = key(0.0, "weight of other tokens", low=0, high=1, job="labelSmoothing")\n'


class Copy:
    """A copy of the repository whose own tools are run."""

    def __init__(self, root: Path) -> None:
        self.root = root / "repository"
        for part in ("base", "overlays", "clusters", "jobs", "schemas", "tools", "trainer"):
            shutil.copytree(HOME / part, self.root / part, symlinks=True)
        (self.root / ".tools").symlink_to(HOME / ".tools")
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{self.root / 'tools'}{os.pathsep}{self.root}",
            "XDG_CACHE_HOME": str(root / "cache"),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program of the copy."""
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=self.root, env=self._environment, capture_output=True, text=True, check=False
        )

    def generate(self) -> None:
        """What tools/update-docs does about keys and wires."""
        for module in ("trainyard.catalogues.settings", "trainyard.kustomize.wiring"):
            done = self.run("-m", module)
            assert done.returncode == 0, done.stderr

    def edit(self, file: str, old: str, new: str) -> None:
        """Change a piece of text that stands once in a file."""
        text = (self.root / file).read_text()
        assert text.count(old) == 1
        (self.root / file).write_text(text.replace(old, new))

    def lint(self, *arguments: str) -> tuple[int, str]:
        """What lint-jobs says of the first job."""
        done = self.run("-m", "trainyard", "lint-jobs", "--no-cache", *arguments, "jobs/research/gpt2-124m")
        return done.returncode, done.stdout + done.stderr

    def settings(self, job: str) -> dict[str, str]:
        """The variables of a job's trainer."""
        command = [str(HOME / ".tools/bin/kustomize"), "build", str(self.root / job)]
        documents = yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        [found] = [each["data"] for each in documents if each["metadata"]["name"].endswith("-trainer")]
        assert isinstance(found, dict)
        return found


def test_a_default_with_an_exponent_stays_a_text(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    new = '    epsilon: float = key(1e-8, "summand of the denominator", low=0, high=1, job="epsilon")\n'
    copy.edit("trainer/config.py", KEY, new + KEY)
    copy.generate()
    assert copy.settings("jobs/research/gpt2-124m")["TRAINER_EPSILON"] == "1.0e-08"
    assert copy.lint() == (0, "1 job passes\n")


@pytest.mark.claim("a-key-is-one-line")
def test_a_new_key_of_the_trainer_is_one_line(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    before = copy.settings("jobs/research/gpt2-355m")
    copy.edit("trainer/config.py", KEY, NEW + KEY)
    copy.generate()
    assert copy.settings("jobs/research/gpt2-355m") == {**before, "TRAINER_LABEL_SMOOTHING": "0.0"}

    copy.edit("jobs/research/gpt2-124m/job.yaml", "\nspec:\n", "\nspec:\n  labelSmoothing: 0.1\n")
    assert copy.lint() == (0, "1 job passes\n")
    variables = copy.settings("jobs/research/gpt2-124m")
    assert variables["TRAINER_LABEL_SMOOTHING"] == "0.1"
    read = "import sys, json; from trainer.sources import read; print(read([], json.load(sys.stdin)).label_smoothing)"
    done = subprocess.run(
        [sys.executable, "-c", read], cwd=copy.root, input=json.dumps(variables), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "0.1\n"

    copy.edit("jobs/research/gpt2-124m/job.yaml", "\nspec:\n", '\nspec:\n  env: {TRAINER_LABEL_SMOOTHING: "0.2"}\n')
    _, told = copy.lint()
    assert "label_smoothing is 0.2 in the end, but job.yaml says labelSmoothing 0.1" in told

    copy.edit("jobs/research/gpt2-124m/job.yaml", "  labelSmoothing: 0.1\n", "  labelSmoothing: 2\n")
    code, told = copy.lint()
    assert (code, "labelSmoothing" in told) == (1, True)

    copy.edit("trainer/config.py", NEW, "")
    copy.generate()
    for part in ("base", "schemas"):
        subprocess.run(["diff", "-r", HOME / part, copy.root / part], check=True)
