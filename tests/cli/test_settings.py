"""trainyard.yaml: how a repository of another layout is judged, and what it asks not to be told."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import HOME, Repository
from trainyard.schemas.releases import NEWEST, OLDEST

pytestmark = pytest.mark.commands

HEAD = "apiVersion: trainyard.dev/v1alpha1\nkind: LintSettings\n"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  parallelism: 1
  completions: 1
  backoffLimit: -1
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "registry.example.com/any:1", command: [python, train.py]}
"""


@pytest.fixture
def other(tmp_path: Path) -> Repository:
    """A repository of another layout: a wrong Job in two folders, a kustomization around a third."""
    root = tmp_path / "repository"
    for folder in ("deploy", "legacy", "overlays/prod"):
        (root / folder).mkdir(parents=True)
        (root / folder / "job.yaml").write_text(JOB)
    (root / "overlays/prod/kustomization.yaml").write_text("resources: [job.yaml]\n")
    (root / "values.yaml").write_text("replicas: 2\n")
    subprocess.run(["git", "init", "--quiet", "--template=", root], check=True)
    return _added(Repository(root))


def _added(repository: Repository, settings: str = "") -> Repository:
    if settings:
        (repository.root / "trainyard.yaml").write_text(HEAD + settings)
    subprocess.run(["git", "add", "--all"], cwd=repository.root, check=True)
    return repository


def rules(repository: Repository, *paths: str) -> dict[str, list[str]]:
    """The rules of what is told, by file."""
    found: dict[str, list[str]] = {}
    for finding in repository.report("--no-cache", *paths)["findings"]:
        found.setdefault(finding["file"], []).append(finding["rule"])
    return found


@pytest.mark.claim("settings")
def test_without_settings_what_git_tracks_is_judged(other: Repository) -> None:
    (other.root / "untracked.yaml").write_text(JOB)

    assert other.judged("--no-cache") == ["deploy", "legacy", "overlays/prod"]
    assert rules(other).keys() == {"deploy/job.yaml", "legacy/job.yaml", "overlays/prod/job.yaml"}


def test_a_repository_without_manifests_is_nothing_to_judge(other: Repository) -> None:
    for file in other.root.rglob("*job.yaml"):
        file.unlink()
    (other.root / "overlays/prod/kustomization.yaml").unlink()
    _added(other)

    done = other.lint()

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lint-jobs: Git tracks no manifest in ")


@pytest.mark.claim("settings")
@pytest.mark.parametrize(
    ("settings", "judged"),
    [
        ("paths: [deploy]", {"deploy/job.yaml"}),
        ("paths: [overlays/prod, legacy/job.yaml]", {"overlays/prod/job.yaml", "legacy/job.yaml"}),
        ("exclude: [legacy]", {"deploy/job.yaml", "overlays/prod/job.yaml"}),
        ("exclude: [legacy/, overlays/*]", {"deploy/job.yaml"}),
        ("exclude: ['*/job.yaml']", {"overlays/prod/job.yaml"}),
        ("paths: [.]\nexclude: [overlays, values.yaml]", {"deploy/job.yaml", "legacy/job.yaml"}),
    ],
)
def test_where_the_manifests_are(other: Repository, settings: str, judged: set[str]) -> None:
    assert rules(_added(other, settings)).keys() == judged


@pytest.mark.claim("settings")
@pytest.mark.parametrize(
    ("settings", "judged"),
    [
        ("", ["deploy/base/again", "deploy/plain", "deploy/prod"]),
        ("paths: [deploy]\n", ["deploy/base/again", "deploy/plain", "deploy/prod"]),
        ("paths: [deploy/prod, deploy/base/]\n", ["deploy/base", "deploy/base/again", "deploy/prod"]),
        ("paths: [deploy/base/job.yaml]\n", ["deploy/base/job.yaml"]),
        ("paths: [rendered, deploy/prod]\n", ["deploy/prod", "rendered"]),
    ],
    ids=["all that Git tracks", "a folder", "a base by its name", "a file by its name", "a folder that Git ignores"],
)
def test_paths_hold_the_same_targets(tmp_path: Path, settings: str, judged: list[str]) -> None:
    files = {
        "deploy/base/kustomization.yaml": "resources: [job.yaml]\n",
        "deploy/base/job.yaml": JOB,
        "deploy/base/again/kustomization.yaml": "namePrefix: again-\nresources: [job.yaml]\n",
        "deploy/base/again/job.yaml": JOB,
        "deploy/part/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
        "deploy/prod/kustomization.yaml": "resources: [../base]\nnameSuffix: -prod\n",
        "deploy/plain/job.yaml": JOB,
        "deploy/plain/values.yaml": "replicas: 2\n",
        "rendered/job.yaml": JOB,
        ".gitignore": "rendered\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", "--template=", tmp_path], check=True)

    assert sorted(_added(Repository(tmp_path), settings).judged("--no-cache")) == judged


def test_what_excludes_everything_is_no_pass(other: Repository) -> None:
    done = _added(other, "exclude: [deploy]").lint("deploy")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lint-jobs: trainyard.yaml leaves nothing to judge of what is named\n"


@pytest.mark.claim("settings")
def test_severities_and_what_is_ignored(other: Repository) -> None:
    settings = """\
levels: {JOB005: warning, STO001: error}
ignore:
- {rule: SEC004, reason: the registry pins what it serves}
- {rule: JOB005, reason: it is rewritten next month, paths: [legacy]}
"""
    report = _added(other, settings).report("--no-cache", "deploy", "legacy")

    severities = {(each["file"], each["rule"]): each["severity"] for each in report["findings"]}
    assert severities[("deploy/job.yaml", "JOB005")] == "warning"
    assert ("legacy/job.yaml", "JOB005") not in severities
    assert "SEC004" not in {rule for _, rule in severities}
    kept = {(each["file"], each["rule"], each["reason"], each["by"]["line"]) for each in report["suppressed"]}
    assert kept == {
        ("deploy/job.yaml", "SEC004", "the registry pins what it serves", 5),
        ("legacy/job.yaml", "SEC004", "the registry pins what it serves", 5),
        ("legacy/job.yaml", "JOB005", "it is rewritten next month", 6),
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("levls: {}", 'error[SCH003] unknown field "levls": did you mean "levels"?'),
        ("levels: {JOB005: of}", "error[SCH003] levels.JOB005:"),
        ("levels: {JOB05: info}", "error[SUP003] JOB05 is not a rule"),
        ("levels: {INP001: info}", "error[SUP003] INP001 cannot be suppressed"),
        ("ignore: [{rule: JOB005, reason: no}]", "error[SUP002] ignore of JOB005 gives a reason of fewer than 3 words"),
        ("ignore: [{rule: JOB005}]", 'error[SCH003] ignore[0]: missing required field "reason"'),
        ("images: [registry.example.com]", "error[SCH003] images[0]: expected what images begin with, up to a slash"),
        ("kubernetes: 1.30", "error[SCH003] kubernetes:"),
        ('kubernetes: "1.27"', "error[SCH003] kubernetes:"),
        ("images: []", "error[SCH003] images: expected at least 1 item, found 0"),
        (
            "baseline: ../old.json",
            "error[SCH003] baseline: expected a file in the repository whose name ends in .json, found ",
        ),
        (
            "ignore: [{rule: JOB005, reason: rewritten in January, paths: [legacy, legcy, 'old/*']}]",
            "warning[SUP001] ignore of JOB005: legcy, old/* stands for no file",
        ),
        ("paths: [", "error: trainyard.yaml:"),
    ],
)
def test_settings_that_are_wrong_are_told_at_their_line(other: Repository, settings: str, said: str) -> None:
    done = _added(other, settings).lint("--no-cache", "deploy")

    assert done.returncode in (1, 2)
    assert said in done.stdout
    assert "trainyard.yaml:3" in done.stdout or "trainyard.yaml:4" in done.stdout


POD_SET = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: served}
spec:
  leaderWorkerTemplate:
    workerTemplate:
      spec:
        initContainers: [{name: fetch, image: "${FETCHER}"}]
        containers: [{name: serve, image: "python:3.12"}]
        volumes: [{name: model, image: {reference: "registry.example.net/models/a:1"}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: text}
data: {image: "anything:1"}
"""


def _from_elsewhere(repository: Repository, settings: str) -> list[tuple[str, int, str, str]]:
    found = _added(repository, settings).report("deploy", "overlays/prod")["findings"]
    return [(each["file"], each["line"], each["message"], each["help"]) for each in found if each["rule"] == "SEC011"]


@pytest.mark.claim("settings-images")
def test_images_come_from_where_the_settings_say(other: Repository) -> None:
    (other.root / "deploy/served.yaml").write_text(POD_SET)
    assert _from_elsewhere(other, "") == []

    digest = f"registry.example.com/any@sha256:{'0' * 64}"
    allowed = f"docker.io/library/, registry.example.com/an/, {digest}"
    says = f"which is not an image that this repository may run ({allowed})"
    help = "take it from there, or add to `images` in trainyard.yaml"
    volume = "spec.leaderWorkerTemplate.workerTemplate.spec.volumes[model].image.reference"
    job = f"spec.template.spec.containers[0].image is registry.example.com/any:1, {says}"
    assert _from_elsewhere(other, f"images: [{allowed}]\n") == [
        ("deploy/job.yaml", 12, job, help),
        ("deploy/served.yaml", 10, f"{volume} is registry.example.net/models/a:1, {says}", help),
        ("overlays/prod/job.yaml", 12, job, help),
    ]

    # What an earlier run kept does not outlive the settings that it was told under.
    assert _from_elsewhere(other, "images: [registry.example.com/, registry.example.net/, docker.io/]\n") == []


def test_images_of_standard_input_are_held_to_the_settings(other: Repository) -> None:
    told = _added(other, "images: [docker.io/]\n").report("-", stdin=JOB)["findings"]

    assert "SEC011" in {each["rule"] for each in told}


def test_new_settings_judge_what_a_change_left_alone(other: Repository) -> None:
    before = other.commit()
    _added(other, "images: [docker.io/]\n").commit()

    told = other.report("--changed", before, "deploy", "legacy")["findings"]

    assert {each["file"] for each in told if each["rule"] == "SEC011"} == {"deploy/job.yaml", "legacy/job.yaml"}


NEWER = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: newer}
spec:
  replicatedJobs:
  - name: node
    template:
      spec:
        managedBy: kueue.x-k8s.io/multikueue
        template:
          spec:
            restartPolicy: Never
            resources: {limits: {cpu: "8"}}
            containers:
            - name: main
              image: "registry.example.com/any:1"
              command: [python, train.py]
              restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers: [{name: idle, image: "registry.example.com/any:1", lifecycle: {preStop: {sleep: {seconds: 5}}}}]
"""
_JOB = "spec.replicatedJobs[0].template.spec"
_OF_RELEASE: dict[str, set[tuple[int, str, str]]] = {
    "1.28": {
        (9, f"{_JOB}.managedBy", "1.30"),
        (13, f"{_JOB}.template.spec.resources", "1.32"),
        (18, f"{_JOB}.template.spec.containers[0].restartPolicyRules", "1.34"),
        (20, "ResourceClaimTemplate of resource.k8s.io/v1", "1.34"),
        (29, "spec.containers[0].lifecycle.preStop.sleep", "1.29"),
    },
    "1.31": {
        (13, f"{_JOB}.template.spec.resources", "1.32"),
        (18, f"{_JOB}.template.spec.containers[0].restartPolicyRules", "1.34"),
        (20, "ResourceClaimTemplate of resource.k8s.io/v1", "1.34"),
    },
    "1.33": {
        (18, f"{_JOB}.template.spec.containers[0].restartPolicyRules", "1.34"),
        (20, "ResourceClaimTemplate of resource.k8s.io/v1", "1.34"),
    },
    "1.36": set(),
}


@pytest.mark.claim("settings-kubernetes")
@pytest.mark.parametrize("release", _OF_RELEASE)
def test_what_an_older_kubernetes_does_not_know(other: Repository, release: str) -> None:
    (other.root / "deploy/job.yaml").write_text(NEWER)
    said = [each for each in _added(other).report("deploy")["findings"] if each["rule"] == "SCH001"]
    assert said == []

    told = _added(other, f'kubernetes: "{release}"\n').report("deploy")["findings"]

    assert {(each["line"], each["message"]) for each in told if each["rule"] == "SCH001"} == {
        (line, f"{what} is unknown to Kubernetes {release}, which the settings name: it came with {since}")
        for line, what, since in _OF_RELEASE[release]
    }


def test_the_newest_release_of_the_settings_is_that_of_the_schemas() -> None:
    schema = json.loads((HOME / "schemas/trainyard.dev/lintsettings_v1alpha1.json").read_text())
    pinned = (HOME / "tools/go/schemas/go.mod").read_text().partition("k8s.io/kubernetes v")[2]

    releases = [f"1.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    assert schema["properties"]["kubernetes"]["enum"] == releases
    assert pinned.startswith(f"{releases[-1]}.")


def test_a_slip_leaves_the_other_settings_as_they_are(other: Repository) -> None:
    settings = """\
exclude: [legacy, 7]
levels: {JOB005: warning, STO001: fatal}
ignore:
- {rule: JOB005, reason: rewritten in January, path: [deploy]}
- {rule: SEC004, reason: the registry pins what it serves}
baseline: no-json
"""
    report = _added(other, settings).report("--no-cache", "deploy", "legacy")

    told = {(each["file"], each["rule"], each["path"], each["severity"]) for each in report["findings"]}
    assert {each for each in told if each[1] in ("SCH003", "JOB005", "SEC004")} == {
        ("trainyard.yaml", "SCH003", "exclude[1]", "error"),
        ("trainyard.yaml", "SCH003", "levels.STO001", "error"),
        ("trainyard.yaml", "SCH003", "ignore[0].path", "error"),
        ("trainyard.yaml", "SCH003", "baseline", "error"),
        ("deploy/job.yaml", "JOB005", "spec.backoffLimit", "warning"),
    }


def test_settings_of_another_kind_count_for_nothing(other: Repository) -> None:
    _added(other, "exclude: [legacy]\n")
    (other.root / "trainyard.yaml").write_text(HEAD.replace("v1alpha1", "v2") + "exclude: [legacy]\n")

    assert {"legacy/job.yaml", "trainyard.yaml"} < rules(other).keys()


@pytest.mark.claim("settings-baseline")
def test_a_finding_with_another_number_is_the_same_one(other: Repository) -> None:
    (other.root / "deploy/job.yaml").write_text(JOB.replace("any:1", "any:v1.2"))
    _added(other, "paths: [deploy]\nbaseline: .new/.baseline.json\n")
    assert other.lint("--write-baseline").returncode == 0

    (other.root / "deploy/job.yaml").write_text(JOB.replace("any:1", "any:v1.13").replace("-1", "-2"))

    report = other.report("--no-cache")
    assert report["findings"] == []
    assert {"JOB005", "SEC004"} <= {each["rule"] for each in report["suppressed"]}


@pytest.mark.claim("settings-baseline")
def test_what_was_there_before_is_not_told_and_what_is_new_is(other: Repository) -> None:
    _added(other, "baseline: old/baseline.json\n")
    (other.root / "old").mkdir()
    before = other.report("--no-cache")

    done = other.lint("--write-baseline")

    count = len(before["findings"])
    assert (done.returncode, done.stdout, done.stderr) == (0, f"old/baseline.json: {count} findings\n", "")
    after = _added(other).report("--no-cache")
    assert after["findings"] == []
    assert len(after["suppressed"]) == count
    assert {each["by"]["file"] for each in after["suppressed"]} == {"old/baseline.json"}

    file = other.root / "deploy/job.yaml"
    file.write_text("# a line above moves nothing\n" + JOB.replace("completions: 1", "completions: -3"))
    (told,) = other.report("--no-cache")["findings"]
    assert (told["rule"], told["file"], told["line"]) == ("JOB005", "deploy/job.yaml", 7)


def test_the_same_finding_once_more_is_told(other: Repository) -> None:
    _added(other, "paths: [deploy]\nbaseline: baseline.json\n").lint("--write-baseline")
    entry = json.loads((other.root / "baseline.json").read_text())["findings"][0]
    (other.root / "deploy/again.yaml").write_text(JOB)

    told = _added(other).report("--no-cache")["findings"]

    assert entry["rule"] in {each["rule"] for each in told}
    assert {each["file"] for each in told} == {"deploy/again.yaml"}


def test_a_baseline_is_written_anew_with_what_is_left(other: Repository) -> None:
    _added(other, "paths: [deploy]\nbaseline: baseline.json\n").lint("--write-baseline")
    before = (other.root / "baseline.json").read_text()
    (other.root / "deploy/job.yaml").write_text(JOB.replace("-1", "1"))

    other.lint("--write-baseline")

    after = (other.root / "baseline.json").read_text()
    assert "JOB005" in before
    assert "JOB005" not in after
    assert set(after.splitlines()) < set(before.splitlines())


@pytest.mark.claim("settings-baseline")
def test_a_baseline_keeps_no_secret_from_being_told(other: Repository) -> None:
    key = "9c2e71f0a3b84d56" * 2
    job = JOB.replace("python, train.py", f"python, train.py, --wandb_api_key={key}")
    (other.root / "deploy/job.yaml").write_text(job)
    _added(other, "paths: [deploy]\nbaseline: baseline.json\n")

    done = other.lint("--write-baseline")

    assert done.returncode == 0
    assert done.stderr == (
        "lint-jobs: 1 finding of SEC001 stays out of it: revoke the secret, "
        "or name the rule under ignore in trainyard.yaml and say why\n"
    )
    baseline = other.root / "baseline.json"
    assert "SEC001" not in baseline.read_text()
    [told] = _added(other).report("--no-cache")["findings"]
    assert (told["rule"], told["file"]) == ("SEC001", "deploy/job.yaml")

    keys = ("rule", "file", "object", "path", "message")
    entry = json.dumps(dict.fromkeys(keys, "") | {each: told[each] for each in keys if each in told})
    baseline.write_text(baseline.read_text().replace('"findings": [', f'"findings": [{entry},'))
    assert [each["rule"] for each in other.report("--no-cache")["findings"]] == ["SEC001"]

    _added(
        other, "paths: [deploy]\nignore: [{rule: SEC001, reason: a key of the test server}]\nbaseline: baseline.json\n"
    )
    assert other.report("--no-cache")["findings"] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "--write-baseline: say `baseline: trainyard-baseline.json` in "),
        ("baseline: linked/out.json\n", "--write-baseline: linked/out.json lies outside the repository "),
    ],
)
def test_a_baseline_has_its_place(other: Repository, tmp_path: Path, settings: str, said: str) -> None:
    (other.root / "linked").symlink_to(tmp_path)

    done = _added(other, settings).lint("deploy", "--write-baseline")

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_what_is_ignored_is_not_fixed(other: Repository) -> None:
    text = JOB.replace("restartPolicy: Never", "restartPolicy: never")
    (other.root / "deploy/job.yaml").write_text(text)
    assert "+      restartPolicy: Never" in other.lint("deploy", "--fix", "--diff").stdout

    _added(other, "ignore: [{rule: JOB001, reason: the controller mends the case}]\n").lint("deploy", "--fix")

    assert (other.root / "deploy/job.yaml").read_text() == text


@pytest.mark.claim("settings-not-here")
def test_in_the_layout_of_trainyard_they_are_refused(checkout: Repository) -> None:
    (checkout.root / "trainyard.yaml").write_text(f"{HEAD}ignore: [{{rule: SEC001, reason: I would rather not}}]\n")

    done = checkout.lint()

    assert done.returncode == 2
    assert (
        "error: trainyard.yaml: is for repositories of another layout; "
        "in this one clusters/<name>/suppressions.yaml silences findings"
    ) in done.stdout
