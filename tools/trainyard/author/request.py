"""A job that a program asks for: from JSON to its folder on a git branch, with the working tree untouched."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.author.answers import Answers, Refused, check_choice, check_name, check_new, check_nodes
from trainyard.author.choices import Choices
from trainyard.author.files import kustomization
from trainyard.author.trial import MADE_OF, judge
from trainyard.errors import UsageError
from trainyard.repository.git import extract, git, tried
from trainyard.repository.listed import all_jobs, clusters_with_flux, list_file, listing
from trainyard.yaml.sources import Sources

CODE = "train.py"

_GENERATORS = """\
configMapGenerator:
- name: {name}-code
  files:
  - train.py
  options:
    disableNameSuffixHash: true # custom resources follow no hash
"""
_PATCHES = """\
- path: code.yaml
  target:
    kind: PodTemplate
"""
_MOUNT = """\
# The program of the ranks: train.py beside this file.
- op: add
  path: /template/spec/containers/0/volumeMounts/-
  value:
    name: code
    mountPath: /code
    readOnly: true
- op: add
  path: /template/spec/volumes/-
  value:
    name: code
    configMap:
      name: {name}-code
"""
_JOB = """\
# yaml-language-server: $schema=../../../schemas/trainyard.dev/trainingjob_v1alpha1.json
# Made by a program of its author. train.py is what its ranks run.
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata:
  name: {name}
spec:
  nodes: {nodes}
  gpusPerNode: {gpus}
"""


@dataclass(frozen=True, slots=True)
class JobBranch:
    """A branch with one more job."""

    branch: str
    commit: str
    folder: str


def serve(root: Path, text: str) -> JobBranch:
    """Make the branch that a request asks for. Refused or UsageError where it cannot be had; then no branch is made."""
    try:
        request = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the request is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise UsageError("the request is not a JSON object")
    base = git(
        root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{_text(request, 'base', 'HEAD')}^{{commit}}"
    )
    with tempfile.TemporaryDirectory(prefix="new-job-") as temporary:
        copy = Path(temporary).resolve()
        extract(root, base, (*MADE_OF, "jobs"), copy)
        answers, gpus = _checked(request, root, copy)
        files = files_of(request, answers, gpus)
        branch = _text(request, "branch", answers.name)
        _check_branch(root, branch)
        (copy / answers.folder).mkdir(parents=True)
        for name, content in files.items():
            (copy / answers.folder / name).write_text(content, encoding="utf-8")
        added = {f"{answers.folder}/{name}": content for name, content in files.items()}
        if answers.cluster in clusters_with_flux(copy):
            jobs = [job for job in all_jobs(copy, Sources(copy)) if job.cluster == answers.cluster]
            added[list_file(answers.cluster)] = listing(jobs)
            (copy / list_file(answers.cluster)).write_text(listing(jobs))
        trial = judge(copy, answers.folder)
    if trial.code:
        raise Refused("the job would not train, so no branch was made", trial.findings)
    return JobBranch(branch, _commit(root, base, branch, added, f"Train {answers.name}"), answers.folder)


def takes_a_program(choices: Choices, launcher: str) -> bool:
    """True for a base that starts the trainer as it would start any other program of PyTorch."""
    return list(choices.defaults(launcher)["spec"]["command"])[-2:] == ["-m", "trainer"]


def files_of(request: Mapping[str, Any], answers: Answers, gpus: int) -> dict[str, str]:
    """The files of the folder."""
    name = answers.name
    job = _JOB.format(name=name, nodes=answers.nodes, gpus=gpus)
    if image := request.get("image"):
        job += f"  image: {json.dumps(image)}\n"
    job += f"  command: {json.dumps(request['command'])}\n"
    if environment := request.get("env"):
        job += "  env:\n" + "".join(
            f"    {json.dumps(key)}: {json.dumps(value)}\n" for key, value in environment.items()
        )
    return {
        "job.yaml": job,
        "kustomization.yaml": kustomization(answers, _GENERATORS.format(name=name), _PATCHES),
        "code.yaml": _MOUNT.format(name=name),
        CODE: request["program"],
    }


def _checked(request: dict[str, Any], root: Path, copy: Path) -> tuple[Answers, int]:
    """Who and where, and GPUs a node; the request gets the command that the base starts programs with."""
    choices = Choices(Sources(copy))
    cluster = check_choice(_text(request, "cluster"), choices.clusters(), "cluster")
    team = check_choice(_text(request, "team"), choices.teams(cluster), f"team on {cluster}")
    launcher = check_choice(_text(request, "launcher"), tuple(choices.launchers()), "runtime")
    name = check_name(_text(request, "name"))
    check_new(root, f"jobs/{team}/{name}")
    if (copy / f"jobs/{team}/{name}").exists():
        raise Refused(f"jobs/{team}/{name} is there already")
    nodes = check_nodes(str(request.get("nodes", 1)), choices, cluster)
    there = choices.facts(cluster)["Cluster"]["spec"]["node"]["gpus"]
    gpus = there if request.get("gpus") is None else request["gpus"]
    if not isinstance(gpus, int) or not 1 <= gpus <= there:
        raise Refused(f"{gpus!a} GPUs a node: a node of {cluster} has {there}")
    if gpus < there:
        whole = -(-nodes * gpus // there)
        raise Refused(
            f"{gpus} GPUs a node: a pod on {cluster} takes its node whole, {there} GPUs, so {nodes} x {gpus} would "
            f"reserve {nodes * there} GPUs and leave {nodes * (there - gpus)} idle; ask for num_nodes={whole} and "
            f"{there} GPUs a node, {whole * there} GPUs in all"
        )
    if not takes_a_program(choices, launcher):
        raise Refused(f"{launcher} starts no plain program, so a function cannot stand in for it: take another runtime")
    request["command"] = [*choices.defaults(launcher)["spec"]["command"][:-2], f"/code/{CODE}"]
    program = request.get("program")
    if not isinstance(program, str) or not program or len(program.encode()) > 900_000:
        raise Refused("the program is missing, or over the 900 kB that a ConfigMap holds")
    return Answers(name, cluster, team, launcher, "", nodes, "", "", _text(request, "queue", "")), gpus


def _text(request: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = request.get(key) or default
    if not isinstance(value, str):
        raise UsageError(f"the request has no {key}")
    return value


def _check_branch(root: Path, branch: str) -> None:
    if tried(root, "check-ref-format", "--branch", branch) is None:
        raise Refused(f"{branch!a} is not a valid name for a branch")
    if tried(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is not None:
        raise Refused(f"there is a branch {branch} already: delete it, or take another name")


def _commit(root: Path, base: str, branch: str, files: Mapping[str, str], message: str) -> str:
    """A commit on `base` with `files`, and a branch for it; neither index nor working tree is touched."""
    with tempfile.TemporaryDirectory(prefix="new-job-") as temporary:
        index = {"GIT_INDEX_FILE": str(Path(temporary) / "index")}
        git(root, "read-tree", base, environment=index)
        for path, content in files.items():
            blob = git(root, "hash-object", "-w", "--stdin", stdin=content.encode())
            git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", environment=index)
        tree = git(root, "write-tree", environment=index)
    commit = git(root, "commit-tree", tree, "-p", base, "-m", message)
    git(root, "branch", "--no-track", branch, commit)
    return commit
