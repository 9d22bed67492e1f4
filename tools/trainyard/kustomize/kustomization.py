"""The kustomizations that a folder is made of, and what a stranger's may not ask for.

Everything is checked before anything is rendered: remote sources, plugins, functions, Helm, paths out of the
repository, missing files, circles and bounds. Errors are InputError at the entry that is wrong.
"""

import difflib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainyard import limits
from trainyard.errors import InputError
from trainyard.repository.discover import KUSTOMIZATION_NAMES
from trainyard.yaml.nodes import Node, load_embedded
from trainyard.yaml.sources import Sources

_HELM = ("helmCharts", "helmGlobals", "helmChartInflationGenerator")
_PLAIN_FIELDS = frozenset(
    [
        "apiVersion",
        "kind",
        "metadata",
        "openapi",
        "namePrefix",
        "nameSuffix",
        "namespace",
        "commonLabels",
        "labels",
        "commonAnnotations",
        "patchesStrategicMerge",
        "patchesJson6902",
        "patches",
        "images",
        "imageTags",
        "replacements",
        "replicas",
        "vars",
        "sortOptions",
        "resources",
        "components",
        "crds",
        "bases",
        "configMapGenerator",
        "secretGenerator",
        "generatorOptions",
        "configurations",
        "generators",
        "transformers",
        "validators",
        "buildMetadata",
    ]
)
_ITEM_FIELDS = {
    "patches": frozenset(["path", "patch", "target", "options"]),
    "patchesJson6902": frozenset(["path", "patch", "target", "options"]),
    "replacements": frozenset(["path", "source", "sourceValue", "targets"]),
    "configMapGenerator": frozenset(["namespace", "name", "behavior", "literals", "files", "envs", "env", "options"]),
    "secretGenerator": frozenset(
        ["namespace", "name", "behavior", "literals", "files", "envs", "env", "options", "type"]
    ),
}
_BUILTIN = frozenset(
    [
        "AnnotationsTransformer",
        "ConfigMapGenerator",
        "HashTransformer",
        "ImageTagTransformer",
        "LabelTransformer",
        "NamespaceTransformer",
        "PatchJson6902Transformer",
        "PatchStrategicMergeTransformer",
        "PatchTransformer",
        "PrefixTransformer",
        "ReplacementTransformer",
        "ReplicaCountTransformer",
        "SecretGenerator",
        "SortOrderTransformer",
        "SuffixTransformer",
        "ValueAddTransformer",
        "IAMPolicyGenerator",
    ]
)
_FUNCTIONS = ("config.kubernetes.io/function", "config.k8s.io/function")
_REMOTE = re.compile(
    r"\s*(?:[a-z][a-z0-9+.-]*://|[a-z0-9]+::|[\w.-]+@[\w.-]+[:/]|(?:www\.)?(?:github|gitlab|bitbucket)\.(?:com|org)[/:])"
    r"|[^\n]*[?&](?:ref|version|timeout|submodules)=|[^\n]*\.git(?:/|$)",
    re.IGNORECASE,
)


class RemoteError(InputError):
    """A kustomization names what is on the network, which nobody here renders."""


@dataclass(frozen=True, slots=True)
class Kustomization:
    """One folder's kustomization file."""

    folder: str
    """Relative to the root; "." for the root itself."""
    file: str
    root: Node = field(repr=False)

    def items(self, name: str) -> list[Node]:
        """Entries of a list field; none where it is absent."""
        node = self.root.value.get(name)
        if node is None or node.value is None:
            return []
        if type(node.value) is not list:
            raise _wrong(f"{name} takes a list", node)
        found: list[Node] = node.value
        return found

    def text(self, name: str) -> Node | None:
        """A field that holds one string, or None."""
        node = self.root.value.get(name)
        return node if node is not None and type(node.value) is str and node.value else None

    @property
    def is_component(self) -> bool:
        """True where its kind is Component."""
        kind = self.text("kind")
        return kind is not None and kind.value == "Component"


@dataclass(frozen=True, slots=True)
class Graph:
    """What one folder is made of."""

    folder: str
    kustomizations: dict[str, Kustomization]
    """By folder, the folder itself first."""
    files: frozenset[str]
    """Every file that rendering reads, relative to the root."""


def has_kustomization(sources: Sources, folder: str) -> bool:
    """True where a folder holds a kustomization file."""
    return any(sources.is_file(join(folder, name)) for name in KUSTOMIZATION_NAMES)


def files_read(root: Path, folder: str, sources: Sources | None = None) -> frozenset[str]:
    """Files that rendering a folder reads, relative to `root`. InputError as `load_graph`."""
    return load_graph(sources or Sources(root), folder).files


def files_here(root: Path, folder: str, sources: Sources) -> frozenset[str]:
    """As `files_read`, for a folder with a remote part too: a change in this repository reaches only what is here."""
    try:
        return files_read(root, folder, sources)
    except RemoteError:
        return _Walk(sources, past_remote=True).visit(posixpath.normpath(folder), None, False).files


def load_graph(sources: Sources, folder: str) -> Graph:
    """Walk everything that a folder's kustomization names. InputError, with its place, for what may not be rendered."""
    folder = posixpath.normpath(folder)
    part = _Walk(sources).visit(folder, None, False)
    return Graph(folder, {each: read(sources, each) for each in part.folders}, part.files)


def read(sources: Sources, folder: str, at: Node | None = None) -> Kustomization:
    """A folder's kustomization file, its fields checked. `at` is the entry that names the folder."""
    kept = sources.kept.get(("kustomization", folder))
    if isinstance(kept, Kustomization):
        return kept
    files = [join(folder, name) for name in KUSTOMIZATION_NAMES if sources.is_file(join(folder, name))]
    if not files:
        message = f"folder {folder} has no kustomization.yaml"
        raise _wrong(message, at) if at is not None else InputError("folder has no kustomization.yaml", folder)
    if len(files) > 1:
        raise InputError(f"folder has {len(files)} kustomization files; keep one ({', '.join(files)})", files[1])
    documents = sources.documents(files[0])
    if not documents:
        raise InputError("kustomization is empty", files[0])
    if len(documents) > 1:
        raise _wrong("a kustomization file holds one document; a second starts here", documents[1])
    if type(documents[0].value) is not dict:
        raise _wrong("a kustomization is a map of fields such as resources", documents[0])
    loaded = Kustomization(folder, files[0], documents[0])
    _check_fields(loaded)
    sources.kept["kustomization", folder] = loaded
    return loaded


def join(folder: str, path: str) -> str:
    """A path in a folder, as a path from the root."""
    return posixpath.normpath(posixpath.join(folder, path))


def inline(node: Node) -> Node | None:
    """The document that an entry holds itself where others name a file, or None."""
    return load_embedded(node) if type(node.value) is str and "\n" in node.value.strip() else None


def generator_files(entry: Node) -> Iterator[tuple[Node, str]]:
    """File names in an entry of configMapGenerator or secretGenerator, with the node that holds each."""
    for name in ("files", "envs"):
        listed = entry.child(name)
        for node in listed.value if listed is not None and type(listed.value) is list else ():
            if type(node.value) is str:
                yield node, node.value.rpartition("=")[2] if name == "files" else node.value
    env = entry.child("env")
    if env is not None and type(env.value) is str and env.value:
        yield env, env.value


def _check_fields(loaded: Kustomization) -> None:
    for name, node in loaded.root.value.items():
        if name in _HELM:
            raise _at_key(
                f"{name} is not allowed: charts run a program and fetch from outside; commit what they render", node
            )
        if name not in _PLAIN_FIELDS:
            raise _at_key(f'kustomizations have no field "{name}"{_nearest(name, _PLAIN_FIELDS)}', node)
        allowed = _ITEM_FIELDS.get(name)
        for item in loaded.items(name) if allowed else ():
            if type(item.value) is not dict:
                raise _wrong(f"an entry of {name} is a map", item)
            for key, child in item.value.items():
                if allowed and key not in allowed:
                    raise _at_key(f'an entry of {name} has no field "{key}"{_nearest(key, allowed)}', child)


def _nearest(name: str, known: frozenset[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), 1, 0.7)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def _wrong(message: str, node: Node, remedy: str = "", error: type[InputError] = InputError) -> InputError:
    mark = node.mark
    return error(message, mark.file, mark.line, mark.column, remedy) if mark else error(message, "")


def _at_key(message: str, node: Node) -> InputError:
    mark = node.key_mark
    return InputError(message, mark.file, mark.line, mark.column) if mark else _wrong(message, node)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one folder, or one entry of a kustomization, pulls in."""

    size: int = 0
    """Kustomizations that kustomize evaluates for it; one that is named twice counts twice."""
    depth: int = 0
    folders: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()


class _Walk:
    """One walk. What a folder pulls in is kept for the run, since the jobs of a repository share their bases.

    With `past_remote` it leaves out what is remote, and goes on.
    """

    def __init__(self, sources: Sources, past_remote: bool = False) -> None:
        self.sources = sources
        self.past_remote = past_remote
        self.files: set[str] = set()
        self.trail: list[str] = []

    def visit(self, folder: str, at: Node | None, config: bool) -> _Part:
        """Walk one folder. `at` is the entry that names it; `config` says that it holds transformers."""
        if at is not None and folder in self.trail:
            circle = " -> ".join([*self.trail[self.trail.index(folder) :], folder])
            raise _wrong(f"kustomizations name one another in a circle: {circle}", at)
        key = (f"graph of {'transformers' if config else 'objects'}{' here' if self.past_remote else ''}", folder)
        kept = self.sources.kept.get(key)
        if (
            at is not None
            and len(self.trail) + (kept.depth if isinstance(kept, _Part) else 1) > limits.KUSTOMIZATION_DEPTH
        ):
            raise _wrong(f"kustomizations name one another more than {limits.KUSTOMIZATION_DEPTH} deep", at)
        if isinstance(kept, _Part):
            return kept
        if at is None and self.sources.outside(folder):
            raise InputError("folder is outside the repository", folder)
        if at is None and not self.sources.is_folder(folder):
            raise InputError("folder does not exist", folder)
        loaded = read(self.sources, folder, at)
        outer, self.files = self.files, {loaded.file}
        self.trail.append(folder)
        below = self._children(loaded, config)
        self.trail.pop()
        part = _Part(
            1 + sum(each.size for each in below),
            1 + max((each.depth for each in below), default=0),
            tuple(dict.fromkeys((folder, *(name for each in below for name in each.folders)))),
            frozenset(self.files).union(*(each.files for each in below)),
        )
        self.files = outer
        self.sources.kept[key] = part
        return part

    def _children(self, loaded: Kustomization, config: bool) -> list[_Part]:
        below: list[_Part] = []
        for name in ("resources", "bases", "components"):
            for entry in self._followed(loaded, name):
                below.append(self._target(loaded, entry, config, folder_only=name != "resources"))
                self._bound(below, entry)
        for name in ("generators", "transformers", "validators"):
            for entry in self._followed(loaded, name):
                document = inline(entry)
                if document is not None:
                    self._config(document)
                    self._config_files(loaded, document)
                    continue
                below.append(self._target(loaded, entry, True))
                self._bound(below, entry)
                for node in self._naming_files(join(loaded.folder, entry.value), entry):
                    self._config_files(loaded, node)
        self._plain_files(loaded)
        return below

    def _bound(self, below: list[_Part], entry: Node) -> None:
        if 1 + sum(each.size for each in below) > limits.KUSTOMIZATIONS:
            raise _wrong(f"pulls in more than {limits.KUSTOMIZATIONS} kustomizations", entry)

    def _target(self, loaded: Kustomization, entry: Node, config: bool, folder_only: bool = False) -> _Part:
        path = self._local(loaded, entry, entry.value)
        if self.sources.is_folder(path):
            return self.visit(path, entry, config)
        if folder_only or not self.sources.is_file(path):
            kind = "file" if not folder_only and posixpath.splitext(path)[1] in (".yaml", ".yml", ".json") else "folder"
            raise _wrong(f"{entry.value} names a {kind} that does not exist", entry)
        self._file(loaded, entry, entry.value)
        for document in self.sources.documents(path):
            if config:
                self._config(document)
        return _Part()

    def _local(self, loaded: Kustomization, entry: Node, path: object) -> str:
        if type(entry.value) is dict and not entry.value.keys().isdisjoint(_ITEM_FIELDS["patches"]):
            raise _wrong("a patch stands where folders and files are listed", entry, "move it under `patches:`")
        if type(path) is not str or not path:
            raise _wrong("a path is missing: this entry is not text", entry)
        if "\n" in path.strip():
            raise _wrong("several lines are not a path, and what they hold is not YAML either", entry)
        if _REMOTE.match(path):
            message = f"{path} is remote; only files of this repository are rendered"
            raise _wrong(message, entry, "copy it into base/", RemoteError)
        if posixpath.isabs(path):
            raise _wrong(f"{path} is absolute; write it relative to {loaded.folder}", entry)
        target = join(loaded.folder, path)
        if target == ".." or target.startswith("../"):
            raise _wrong(f"{path} leads out of the repository", entry)
        if self.sources.outside(target):
            raise _wrong(f"{path} leads out of the repository through a symlink", entry)
        return target

    def _followed(self, loaded: Kustomization, name: str) -> list[Node]:
        return [entry for entry in loaded.items(name) if not self._is_passed(entry.value)]

    def _is_passed(self, path: object) -> bool:
        return self.past_remote and type(path) is str and _REMOTE.match(path) is not None

    def _file(self, loaded: Kustomization, entry: Node, path: object) -> str | None:
        """The file that an entry names; None where it is remote and passed over."""
        if self._is_passed(path):
            return None
        target = self._local(loaded, entry, path)
        if self.sources.is_folder(target):
            raise _wrong(f"{path} is a folder, not a file", entry)
        if not self.sources.is_file(target):
            what = "what is not a plain file" if self.sources.exists(target) else "a file that does not exist"
            raise _wrong(f"{path} names {what}", entry)
        if loaded.folder != "." and not target.startswith(loaded.folder + "/"):
            raise _wrong(f"{path} is not below {loaded.folder}; kustomize reads files only from there", entry)
        self.files.add(target)
        return target

    def _plain_files(self, loaded: Kustomization) -> None:
        for name in ("configurations", "crds"):
            for entry in loaded.items(name):
                self._file(loaded, entry, entry.value)
        openapi = loaded.root.child("openapi")
        schema = openapi.child("path") if openapi is not None else None
        if schema is not None:
            self._file(loaded, schema, schema.value)
        for entry in loaded.items("patchesStrategicMerge"):
            if inline(entry) is None:
                self._patch(loaded, entry)
        for name in ("patches", "patchesJson6902", "replacements"):
            for entry in loaded.items(name):
                path = entry.child("path")
                if path is not None and path.value:
                    self._patch(loaded, path)
        for name in ("configMapGenerator", "secretGenerator"):
            for entry in loaded.items(name):
                for node, path_text in generator_files(entry):
                    self._file(loaded, node, path_text)

    def _patch(self, loaded: Kustomization, path: Node) -> None:
        file = self._file(loaded, path, path.value)
        if file is not None:
            self.sources.documents(file)

    def _config(self, document: Node) -> None:
        if type(document.value) is not dict:
            return
        annotations = document.at(("metadata", "annotations"))
        for name in _FUNCTIONS:
            node = annotations.child(name) if annotations is not None else None
            if node is not None:
                raise _at_key("functions (exec or container) are not allowed: they run a program", node)
        version, kind = document.child("apiVersion"), document.child("kind")
        if version is None or version.value != "builtin":
            raise _wrong(
                'plugins are not allowed: a transformer or generator has apiVersion "builtin"', version or document
            )
        if kind is None or type(kind.value) is not str or kind.value not in _BUILTIN:
            found = kind.text if kind is not None and kind.text else "an object without a kind"
            raise _wrong(f"{found} is not allowed as a transformer or generator", kind or document)

    def _naming_files(self, path: str, entry: Node) -> tuple[Node, ...]:
        """Those of the transformers that an entry names which name files; kept, since jobs share their wiring."""
        key = ("transformers that name files", path)
        kept = self.sources.kept.get(key)
        if isinstance(kept, tuple):
            return kept
        found = tuple(node for node in self._config_objects(path, entry) if _names_files(node))
        self.sources.kept[key] = found
        return found

    def _config_objects(self, path: str, entry: Node) -> Iterator[Node]:
        """The transformers that an entry names, as they were written."""
        if not self.sources.is_folder(path):
            yield from self.sources.documents(path)
            return
        loaded = read(self.sources, path, entry)
        for name in ("resources", "bases", "components"):
            for below in loaded.items(name):
                yield from self._config_objects(join(path, below.value), below)

    def _config_files(self, loaded: Kustomization, node: Node) -> None:
        """Files that a transformer names: they are relative to the folder that lists it, not to its own."""
        for path in _named_patches(node):
            self._patch(loaded, path)
        for named, text in generator_files(node):
            self._file(loaded, named, text)


def _named_patches(config: Node) -> Iterator[Node]:
    """The paths in a transformer that it reads itself."""
    path = config.child("path")
    if path is not None and path.value:
        yield path
    for name, key in (("paths", None), ("replacements", "path")):
        listed = config.child(name)
        for item in listed.value if listed is not None and type(listed.value) is list else ():
            named = item if key is None else item.child(key)
            if named is not None and type(named.value) is str and inline(named) is None:
                yield named


def _names_files(config: Node) -> bool:
    return any(True for _ in (*_named_patches(config), *generator_files(config)))
