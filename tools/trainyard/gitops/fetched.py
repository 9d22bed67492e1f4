"""Whether Argo CD and Flux fetch what lies here: neither checks a commit out quite as git does on a laptop or in CI.

Flux reads blobs as they are stored, and leaves out links, what a .sourceignore names, and some names of its own. Argo
CD fetches submodules, and refuses a repository with a link that leads out of it. git converts files by attributes.
"""

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.kustomize.kustomization import files_read
from trainyard.repository.changed import ways_to
from trainyard.repository.git import git
from trainyard.repository.listed import PARTS, clusters_with_flux, is_in_place
from trainyard.rules.registry import declare
from trainyard.yaml.sources import Sources

RENDERED_OTHERWISE = declare(
    "GIT012",
    "rendered-otherwise",
    Severity.ERROR,
    """Argo CD or Flux renders something else than was judged here, since they treat a file otherwise than git does.

    - `.argocd-source.yaml` and `.argocd-source-<application>.yaml` are merged into the application's source: they may
      set images, patches and components that no kustomization.yaml shows. A file whose name ends in Chart.yaml makes
      Argo CD take the folder for a Helm chart. Flux reads neither.
    - Flux leaves out what a `.sourceignore` names. Without its kustomization.yaml a folder is applied with every YAML
      file in it. At the root it may name whole folders that hold no manifests, such as `/docs/`.
    - Flux leaves out symlinks, and files with names such as *.png and *.zip.
    - git changes a file with the attributes working-tree-encoding, filter, ident or eol=crlf when it is checked out.
      Flux takes the file as it is stored, so the two may hold different YAML.
    - Argo CD fetches submodules, which no other check does, and refuses every application of a repository that holds a
      symlink which leads out of it.

    Bad:
        # jobs/research/llama-8b-sft/.argocd-source.yaml
        kustomize: {images: ["trainer=registry.example.com/other:latest"]}

    Good:
        # jobs/research/llama-8b-sft/kustomization.yaml
        images:
        - name: trainer
          newName: registry.example.com/other

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/,
    https://fluxcd.io/flux/components/source/gitrepositories/#excluding-files
    """,
    guarded=True,
)

IGNORE_FILE = ".sourceignore"
_LEFT_OUT_BY_FLUX = (
    *("*.jpg", "*.jpeg", "*.gif", "*.png", "*.wmv", "*.flv", "*.tar.gz", "*.zip"),
    *(".git", ".gitignore", ".gitmodules", ".gitattributes", ".github", ".circleci"),
    *(".travis.yml", ".gitlab-ci.yml", "appveyor.yml", ".drone.yml", "cloudbuild.yaml"),
    *("codeship-services.yml", "codeship-steps.yml", ".goreleaser.yml", ".sops.yaml", ".flux.yaml"),
)
"""Names of files and folders, as sourceignore v0.18 of Flux has them."""

_WHOLE_FOLDER = re.compile(r"/([A-Za-z0-9_-][A-Za-z0-9._-]*)/?\Z")
"""A line of a .sourceignore that git and Flux read alike: one folder at the root."""

_LINK, _SUBMODULE = "120000", "160000"
_CONVERTING = ("eol", "filter", "ident", "working-tree-encoding")
"""Attributes by which git converts files."""


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A file that is under version control."""

    mode: str
    name: str

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.name)

    @property
    def is_rendered(self) -> bool:
        """True where jobs and clusters may be made of it."""
        return self.name.startswith(tuple(f"{part}/" for part in PARTS))


def shadowed(root: Path, job: str) -> Iterator[Finding]:
    """A finding for each file of a job folder by whose name Argo CD or Flux render something else."""
    for name in sorted(os.listdir(root / job)):
        if name == IGNORE_FILE:
            yield _ignoring(f"{job}/{name}")
        elif name.startswith(".argocd-source") and name.endswith(".yaml"):
            message = f"{name} changes what Argo CD renders, and Flux does not read it"
            yield _finding(f"{job}/{name}", message, "remove it, and write what it sets into kustomization.yaml")
        elif name.endswith("Chart.yaml"):
            message = f"{name} makes Argo CD take the folder for a Helm chart, and Flux does not read it"
            yield _finding(f"{job}/{name}", message, "rename or remove it")


def fetched_otherwise(root: Path, folders: Sequence[str], sources: Sources) -> list[Finding]:
    """A finding for each file of the repository that Argo CD or Flux fetch otherwise than it lies here.

    `folders` are those that they render. None where `root` is under no version control.
    """
    if not (root / ".git").exists():
        return []
    try:
        listed = git(root, "ls-files", "--stage", "-z")
    except UsageError as error:
        return [_not_judged(str(error))]
    tracked = [_tracked(entry) for entry in listed.split("\0") if entry]
    names = {file.name for file in tracked}
    told = {folder for folder in folders if is_in_place(folder)}
    found = [_ignoring(file.name) for file in tracked if _leaves_out(file, sources) and file.folder not in told]
    found += [_leading_out(file.name) for file in tracked if file.mode == _LINK and _leads_out(root, file)]
    if ".gitmodules" in names:
        found += [_submodule(file.name) for file in tracked if file.mode == _SUBMODULE and file.is_rendered]
    if any(posixpath.basename(name) == ".gitattributes" for name in names):
        found += _converted(root, [file.name for file in tracked if file.is_rendered and file.mode != _SUBMODULE])
    if clusters_with_flux(root):
        found += _left_out(root, [file for file in tracked if file.is_rendered], folders, sources)
    return found


def _tracked(entry: str) -> _Tracked:
    """An entry of `git ls-files --stage`: mode, id and stage, a tab, the name."""
    about, _, name = entry.partition("\t")
    return _Tracked(about.split(" ")[0], name)


def _leaves_out(file: _Tracked, sources: Sources) -> bool:
    """True of a .sourceignore that may leave out what is rendered."""
    if posixpath.basename(file.name) != IGNORE_FILE or (file.folder and not file.is_rendered):
        return False
    lines = [line.strip() for line in sources.lines(file.name) if line.strip() and not line.startswith("#")]
    folders = [_WHOLE_FOLDER.match(line) for line in lines]
    return bool(file.folder) or not all(each is not None and each[1] not in PARTS for each in folders)


def _leads_out(root: Path, link: _Tracked) -> bool:
    """True where Argo CD refuses a link: absolute, or out of the repository at any step of its way."""
    try:
        to = os.readlink(root / link.name)
    except OSError:
        return False
    if posixpath.isabs(to):
        return True
    steps = to.split("/")
    ways = (posixpath.normpath(posixpath.join(link.folder, *steps[:end])) for end in range(1, len(steps) + 1))
    return any(way == ".." or way.startswith("../") for way in ways)


def _converted(root: Path, files: Collection[str]) -> Iterator[Finding]:
    """What git itself says of the files' attributes: patterns and macros are its own business."""
    asked = "\0".join(files).encode(errors="surrogateescape")
    said = git(root, "check-attr", "-z", "--stdin", *_CONVERTING, stdin=asked).split("\0")
    told: dict[str, list[str]] = {}
    for file, name, value in zip(said[::3], said[1::3], said[2::3], strict=False):
        if _converts(name, value):
            told.setdefault(name if value == "set" else f"{name}={value}", []).append(file)
    for attribute, (first, *others) in told.items():
        more = f" and {len(others)} more files" if others else ""
        yield _finding(
            first,
            f"git converts {first}{more} when it is checked out ({attribute} in .gitattributes), and Flux does not",
            "take the attribute from these files: what was judged is then what is applied",
        )


def _converts(attribute: str, value: str) -> bool:
    if attribute == "ident":
        return value == "set"
    if attribute == "eol":
        return value == "crlf"
    return value not in ("unspecified", "unset", "set") and value.upper() != "UTF-8"


def _left_out(root: Path, tracked: Iterable[_Tracked], folders: Iterable[str], sources: Sources) -> Iterator[Finding]:
    """Files that are rendered here and that Flux does not fetch."""
    links = {file.name for file in tracked if file.mode == _LINK}
    ignored = {file.name for file in tracked if file.mode != _LINK and _is_left_out(file.name)}
    if not links and not ignored:
        return
    for folder in folders:
        try:
            needed = ways_to(root, files_read(root, folder, sources))
        except InputError:
            continue
        for name in sorted(needed & (links | ignored)):
            what = "is a symlink" if name in links else "has a name that Flux ignores"
            help = "put the file itself there" if name in links else "give it another name"
            said = _finding(name, f"{name} {what}: Flux does not fetch it, and {folder} is rendered with it", help)
            yield replace(said, jobs=(folder,))


def _is_left_out(name: str) -> bool:
    return any(fnmatchcase(part, each) for part in name.split("/") for each in _LEFT_OUT_BY_FLUX)


def _ignoring(file: str) -> Finding:
    message = f"{file} makes Flux leave files out, and a folder without its kustomization.yaml is applied whole"
    return _finding(file, message, "remove it; at the root it may name folders that hold no manifests, such as /docs/")


def _leading_out(file: str) -> Finding:
    message = f"{file} is a symlink that leads out of the repository: Argo CD then refuses all its applications"
    return _finding(file, message, "put the file itself there")


def _submodule(file: str) -> Finding:
    message = f"{file} is a submodule: Argo CD fetches it and applies what is in it, which nobody judged"
    return _finding(file, message, "put its files there")


def _not_judged(why: str) -> Finding:
    said = _finding(".git", f"nobody looked whether Argo CD and Flux fetch what lies here: {why}", "let git read it")
    return replace(said, severity=Severity.INFO)


def _finding(file: str, message: str, help: str) -> Finding:
    rule, place = RENDERED_OTHERWISE, Place("", "", Position(file, 0, 0))
    jobs = (posixpath.dirname(file) or ".",)
    return Finding(rule.id, rule.name, rule.severity, message, place, help=help, jobs=jobs)
