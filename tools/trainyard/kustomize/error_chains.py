"""Kustomize's error chains, cut to the one thing that is wrong."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a folder does not render, and what is known of the place."""

    message: str
    """One line that names the files in it relative to the root."""
    folder: str = ""
    """The kustomization that the error is in, relative to the root."""
    file: str = ""
    """A file in it that is wrong by itself, relative to the root; empty where the kustomization is."""
    line: int = 0
    """Line in that file, from 1; 0 where it is not known."""
    text: str = ""
    """What the author wrote that is wrong, such as a path or a field; empty where it is not known."""


def explain(error: str, folder: str) -> Cause:
    """The cause at the end of an error chain, which began at `folder`."""
    if len(error) > _BEGINNING + _ENDING:
        error = f"{error[:_BEGINNING]} ... {error[-_ENDING:]}"
    inner = _INNER_FOLDER.findall(error)
    found = Cause("", inner[-1] if inner else folder)
    named = _NAMED.split(error)
    subject, detail = (named[-2], named[-1]) if len(named) > 1 else ("", error)
    detail = _tail(detail)
    for expression, make in _CAUSES:
        match = expression.search(detail)
        if match:
            return make(found, subject, match)
    return replace(found, message=detail, text=subject)


_BEGINNING, _ENDING = 1024, 3072
"""Characters of an error that are read: a stranger's names can make it as long as a file."""
_INNER_FOLDER = re.compile(r"recursed accumulation of path '([^']*)'")
_NAMED = re.compile(r"(?:accumulating|merging) resources from '([^']*)': ")
_WRAPPING = re.compile(
    r"^(accumulating (resources|components): "
    r"|loading (generator|transformer|validator) plugins: "
    r"|failed to load (generator|transformer|validator): "
    r"|trouble configuring builtin \w+ with config: `[^`]*`: "
    r"|plugin \S+ fails configuration: "
    r"|kustomize gave up: )"
)


def _tail(detail: str) -> str:
    """The half of `as a file': as a folder` that fits what the name is, without the steps that led there."""
    as_file, both, as_folder = detail.rpartition("': ")
    if both and as_folder.endswith("file is not directory") and "': must build at directory" in detail:
        detail = detail.partition("': must build at directory")[0]
    elif "must resolve to a file'" in as_file:
        detail = detail.partition("must resolve to a file': ")[2]
    while match := _WRAPPING.match(detail):
        detail = detail[match.end() :]
    return detail


_Make = Callable[[Cause, str, re.Match[str]], Cause]


def _say(message: str, text: str = "") -> _Make:
    """Fill a message with the groups of the match; `{subject}` is the resource that was being loaded."""

    def make(found: Cause, subject: str, match: re.Match[str]) -> Cause:
        groups = {name: value or "" for name, value in match.groupdict().items()}
        groups["id"] = _plain_id(groups.get("id", ""))
        values = {"subject": subject or groups.get("path", ""), "folder": found.folder} | groups
        return replace(found, message=message.format(**values), text=text.format(**values))

    return make


def _bad_file(found: Cause, _subject: str, match: re.Match[str]) -> Cause:
    return replace(found, message=match[0], file=match["file"])


def _malformed(found: Cause, _subject: str, match: re.Match[str]) -> Cause:
    file = f"{found.folder}/{match['file']}" if found.folder != "." else match["file"]
    return replace(found, message=f"{file} is not YAML: {match['what']}", file=file, line=int(match["line"] or 0))


def _malformed_kustomization(found: Cause, _subject: str, match: re.Match[str]) -> Cause:
    message = f"the kustomization of {found.folder} is not YAML: {match['what']}"
    return replace(found, message=message, line=int(match["line"] or 0))


_ID = re.compile(r"(?P<kind>[^./]+)\.\[?[^/]*/(?P<name>.+)\.(?P<namespace>[^.]+)\Z")


def _plain_id(text: str) -> str:
    """`Service.v1.[noGrp]/web.[noNs]` as kind/namespace/name; any other text unchanged."""
    match = _ID.match(text)
    if not match:
        return text
    parts = (match["kind"], match["namespace"], match["name"])
    return "/".join(part for part in parts if not part.startswith("[no"))


_TYPES = {"[]": "a list", "map[": "a map", "string": "a string", "bool": "true or false", "int": "an integer"}


def _wrong_type(found: Cause, _subject: str, match: re.Match[str]) -> Cause:
    wanted = next((words for start, words in _TYPES.items() if match["wanted"].startswith(start)), "a map")
    field = match["field"]
    message = f"{field} in the kustomization of {found.folder} must be {wanted}, not {match['given']}"
    return replace(found, message=message, text=field.rpartition(".")[2])


_CAUSES: tuple[tuple[re.Pattern[str], _Make], ...] = tuple(
    (re.compile(expression), make)
    for expression, make in (
        (
            r"\S+ lies outside the repository",
            _say("{subject} lies outside the repository", "{subject}"),
        ),
        (
            r"(?P<file>[^:'\" ][^:'\"]*)(: permission denied| is not a regular file| is larger than \d+ bytes"
            r"| changed while it was read| has more than \d+ nodes when its aliases are expanded)",
            _bad_file,
        ),
        (
            r"path \"(?P<path>[^\"]*)\" is ambiguous",
            _say("{subject} is not a path: are two lines of a list indented unequally?", "{subject}"),
        ),
        (
            r'Get "(?P<path>[^"]*)": remote files are not allowed|no \'git\' program on path',
            _say("{subject} is remote: all that a job is made of must lie in this repository", "{subject}"),
        ),
        (
            r"external plugins disabled; unable to load external plugin '(?P<kind>[^']*)'",
            _say(
                "plugin {kind} is not allowed: nothing but kustomize's own generators and transformers runs", "{kind}"
            ),
        ),
        (
            r"must specify --enable-helm",
            _say("helm charts are not allowed: commit what the chart renders to", "helm"),
        ),
        (
            r"cycle detected: candidate root '(?P<root>[^']*)' contains visited root",
            _say("{subject} leads back to {root}, which is being built already", "{subject}"),
        ),
        (
            r"failed to get the patch file from path\((?P<path>[^)]*)\): (?P<file>.*): no such file or folder",
            _say("patch {path} does not exist: there is no {file}", "{path}"),
        ),
        (
            r"(?P<file>[^:'\" ][^:'\"]*): no such file or folder",
            _say("{file} does not exist", "{subject}"),
        ),
        (
            r"unable to find one of 'kustomization.yaml'.* in directory '(?P<path>[^']*)'",
            _say("{path} holds no kustomization.yaml", "{subject}"),
        ),
        (
            r"Found multiple kustomization files under: (?P<path>.*)",
            _say("{path} holds more than one kustomization file", "{subject}"),
        ),
        (
            r"kustomization.yaml is empty",
            _say("the kustomization of {folder} is empty"),
        ),
        (
            r"security; file '(?P<path>[^']*)' is not in or below '(?P<root>[^']*)'",
            _say(
                "{path} lies outside {root}: a kustomization names files below it, and other folders whole", "{subject}"
            ),
        ),
        (
            r"no resource matches strategic merge patch \"(?P<id>[^\"]*)\"",
            _say("patch of {id} matches no object"),
        ),
        (
            r"unable to parse SM or JSON patch from \[(path: \"(?P<path>[^\"]*)\"|patch: (?P<patch>.*))\]",
            _say("patch {path}{patch} is neither a part of an object nor a list of JSON 6902 operations", "{path}"),
        ),
        (
            r"nothing selected by (?P<id>.*):(?P<field>.*)",
            _say("replacement source {id} matches no object: its field {field} is wanted", "{field}"),
        ),
        (
            r"multiple matches for selector (?P<id>.*):(?P<field>.*)",
            _say("replacement source {id} matches more than one object: its field {field} is wanted", "{field}"),
        ),
        (
            r"fieldPath `(?P<field>[^`]*)` is missing for replacement source (?P<id>.*)",
            _say("replacement source {id} has no field {field}", "{field}"),
        ),
        (
            r"unable to find field \"(?P<field>.*)\" in replacement target",
            _say("replacement target has no field {field}", "{field}"),
        ),
        (
            r"invalid Kustomization: json: unknown field \"(?P<field>[^\"]*)\"",
            _say("the kustomization of {folder} has a field {field} that kustomize does not know", "{field}"),
        ),
        (
            r"invalid Kustomization: json: cannot unmarshal (?P<given>\w+) into Go struct field "
            r"Kustomization\.(?P<field>\S+) of type (?P<wanted>\S+)",
            _wrong_type,
        ),
        (
            r"invalid Kustomization: yaml: (line (?P<line>\d+): )?(?P<what>.*)",
            _malformed_kustomization,
        ),
        (
            r"MalformedYAMLError: yaml: (line (?P<line>\d+): )?(?P<what>.*) in File: (?P<file>.*)",
            _malformed,
        ),
        (
            r"may not add resource with an already registered id: (?P<id>\S+)",
            _say("object {id} of {subject} is there already", "{subject}"),
        ),
        (
            r"(?P<id>\S+) has a value that JSON does not have: .*mapping key \"(?P<field>[^\"]*)\" already defined",
            _say("{id} has the field {field} twice", "{field}"),
        ),
        (
            r"(?P<id>\S+) has a value that JSON does not have: json: unsupported value: (?P<value>\S+)",
            _say("{id} has the value {value}, which is not a number in JSON"),
        ),
        (
            r"(?P<id>\S+) nests deeper than (?P<levels>\d+) levels",
            _say("{id} nests deeper than {levels} levels"),
        ),
        (
            r"(?P<verb>\w+) operation does not apply: doc is missing path: "
            r"\"(?P<path>/spec/\S*template/spec/(?P<rest>[^\"]+))\"",
            _say(
                "{verb} {path} does not apply: the object has no such field before the wiring copies the PodTemplate "
                "training-job into it; patch that one, at /template/spec/{rest}"
            ),
        ),
        (
            r"missing Resource metadata",
            _say("{subject} holds a document that is not a Kubernetes object", "{subject}"),
        ),
        (
            r"missing metadata\.name in object \{\{(?P<version>\S+) (?P<kind>\S+)\}",
            _say("{subject} holds a {kind} without metadata.name", "{subject}"),
        ),
    )
)
