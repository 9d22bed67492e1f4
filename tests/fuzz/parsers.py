"""What each parser promises for whatever a stranger writes. A target takes bytes; an exception is a fault found."""

import json
import os
import re
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path

from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.findings.suppress import find
from trainyard.kustomize.error_chains import explain
from trainyard.kustomize.jobfile import check_facts
from trainyard.kustomize.kustomization import load_graph
from trainyard.kustomize.replay import fieldspecs, jsonpatch, paths, replay
from trainyard.lint.masked import SHOWN, without_tokens
from trainyard.lint.outcome import Outcome
from trainyard.lint.settings import settings as own_settings
from trainyard.lint.settings import settled
from trainyard.objects.objects import Object, Spot
from trainyard.objects.quantity import quantity
from trainyard.repository.discover import SETTINGS
from trainyard.rules.common.plain_secrets import known_secrets
from trainyard.rules.deepspeed import hjson
from trainyard.rules.index import all_rules
from trainyard.workload.command import script_of
from trainyard.workload.environment import expand
from trainyard.workload.exit_code import hidden
from trainyard.workload.model import EnvVar, Word
from trainyard.workload.shell import Command, Script, commands
from trainyard.yaml.fieldpath import format_path
from trainyard.yaml.mistakes import lines_of
from trainyard.yaml.nodes import Node, load_documents, load_embedded
from trainyard.yaml.sources import Sources

FILE = "fuzzed.yaml"
_SPOT = Spot(Object.of({"kind": "Job", "metadata": {"name": "job"}}, 0), ("spec",))


def text_of(data: bytes) -> str:
    """What a file of these bytes holds, as far as it is text."""
    return data.decode(errors="replace")


def in_text(text: str, place: Position | None) -> None:
    """A place is unknown, or stands in the text: at a line that is there, at most one column behind its end."""
    if place is None or place.line == 0:
        return
    lines = lines_of(text.removeprefix("\ufeff"))
    assert 1 <= place.line <= len(lines), place
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1, place


def refused(words: str, line: int, text: str) -> None:
    """A refusal is one line of words, about a line that is there."""
    assert words
    assert "\n" not in words
    assert line <= len(lines_of(text))


def yaml(data: bytes) -> None:
    """YAML is read or refused at a place that is there; values are JSON, and each stands in the file."""
    text = text_of(data)
    try:
        documents = load_documents(text, FILE)
    except InputError as error:
        refused(error.message, error.line, text)
        in_text(text, Position(FILE, error.line, error.column))
        return
    for document in documents:
        json.dumps(document.plain())
        nodes = [document]
        while nodes:
            node = nodes.pop()
            in_text(text, node.mark)
            in_text(text, node.key_mark)
            if isinstance(node.value, str):
                inner = load_embedded(node)
                json.dumps(None if inner is None else inner.plain())
            below = node.value.values() if isinstance(node.value, dict) else node.value
            nodes.extend(below if isinstance(node.value, dict | list) else ())


def suppressions(data: bytes) -> None:
    """What silences a finding is a comment of the file: emptied, the file holds the same."""
    text = text_of(data)
    found = find(FILE, text)
    if not found:
        return
    plain = text.removeprefix("\ufeff")
    lines = lines_of(plain)
    breaks = re.findall("\r\n?|[\n\x85\u2028\u2029]", plain)
    for suppression in found:
        in_text(text, suppression.position)
        row, column = suppression.line - 1, suppression.position.column - 1
        assert lines[row][column:].startswith("#")
        assert suppression.target.start >= suppression.line or len(suppression.target) > 1
        lines[row] = f"{lines[row][:column]}#"
    bare = "".join(line + end for line, end in zip(lines, [*breaks, ""], strict=True))
    try:
        before = [document.plain() for document in load_documents(text, FILE)]
    except InputError:
        return
    assert [document.plain() for document in load_documents(bare, FILE)] == before


def job_file(data: bytes) -> None:
    """Whatever a job.yaml holds, its schema's words come with a place in it."""
    text = text_of(data)
    try:
        documents = load_documents(text, FILE)
    except InputError:
        return
    for document in documents[:2]:
        for kind in ("TrainingJob", "Cluster", "Fabric"):
            for finding in check_facts(document, kind):
                assert finding.message
                in_text(text, finding.place.position)


def ds_config(data: bytes) -> None:
    """Hjson is read or refused; what is JSON means the same to both readers, and can be written again."""
    text = text_of(data)
    try:
        plain = hjson.strict(text)
    except hjson.Refused:
        plain = None
    try:
        found = hjson.loads(text)
    except hjson.Refused as refusal:
        refused(str(refusal), 1, text)
        return
    json.dumps(found)
    if isinstance(plain, dict) and "NaN" not in text and "Infinity" not in text:
        assert found == plain


def amounts(data: bytes) -> None:
    """A quantity is exact, has its sign, and means the same with blanks refused and with its suffix spelt out."""
    text = text_of(data)
    value = quantity(text)
    assert value is None or isinstance(value, Fraction)
    if value is not None:
        assert text == text.strip()
        assert (value < 0) <= text.startswith("-")
        assert quantity(f"{text}\n") is None
        if text[-1] in "0123456789." and not re.search("[eE]", text):
            assert quantity(f"{text}Ki") == value * 1024
            assert quantity(f"{text}e3") == value * 1000
    if re.fullmatch(r"[0-9]{1,60}", text, re.ASCII):
        assert value == int(text)


def env(data: bytes) -> None:
    """References and scripts are taken apart within bounds; text without `$` is left alone."""
    first, _, rest = text_of(data).partition("\0")
    known = {
        "JOB": EnvVar("JOB", "job", _SPOT),
        "EMPTY": EnvVar("EMPTY", "", _SPOT),
        "UNKNOWN": EnvVar("UNKNOWN", None, _SPOT),
        "FIRST": EnvVar("FIRST", first[:100], _SPOT),
    }
    value, _ = expand(rest, known)
    assert len(value) <= len(rest) + 200_000
    if "$" not in rest:
        assert value == rest
    for command in commands(Script(rest, _SPOT, "bash", (), (), known)):
        assert all(isinstance(word.text, str) for word in command.words)
    words = tuple(Word(text, _SPOT) for text in ("bash", "-c", rest))
    found = hidden(Command(words, known), lambda command: script_of(command, lambda _: None), _launches)
    assert found is None or "torchrun" in rest


def _launches(command: Command) -> bool:
    return command.words[0].text == "torchrun"


def field_paths(data: bytes) -> None:
    """A path of a replacement or a JSON patch leads to a field that is there, under the plain path that is told."""
    first, second, text = (*text_of(data).split("\n", 2), "", "")[:3]
    try:
        documents = load_documents(text, FILE)
    except InputError:
        return
    fieldspecs.split(first)
    steps = paths.split(first)
    for document in documents[:2]:
        found = paths.lookup(document, first)
        if found is not None:
            assert document.at(found[0]) is found[1]
            assert format_path(document.plain(), found[0]).isprintable() or not first.isprintable()
        for create in ("", "str", "map"):
            changed = document.copy()
            for holder, key, path in paths.match(changed, steps, create):
                assert changed.at(path[:-1]) is holder
                assert holder.child(key) is changed.at(path)
        _patched(document.copy(), second, first)


def _patched(root: Node, pointer: str, name: str) -> None:
    operations = [{"op": "add", "path": pointer, "value": name}, {"op": "remove", "path": pointer}]
    try:
        ((path, node),) = jsonpatch.apply(root, load_documents(json.dumps(operations[:1]), FILE)[0].value)
        assert root.at(path) is node
        assert node.value == name
        jsonpatch.apply(root, load_documents(json.dumps(operations[1:]), FILE)[0].value)
    except (jsonpatch.PatchError, InputError):
        return


def kustomize_errors(data: bytes) -> None:
    """What kustomize says, which holds names that a stranger chose, becomes one cause in one line."""
    said = text_of(data).replace("\n", " ")
    cause = explain(said, "jobs/research/job")
    assert "\n" not in cause.message
    assert "{" not in cause.message or "{" in said
    assert cause.line >= 0


@cache
def _repository() -> Path:
    """A repository with one base, one folder whose kustomization is the stranger's, and a secret beside it."""
    outside = Path(tempfile.mkdtemp(prefix="trainyard-fuzz-"))
    root = outside / "repository"
    for name, text in {
        "../secret.yaml": "kind: Secret",
        "base/kustomization.yaml": "resources: [pod.yaml]",
        "base/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a}]}}",
        "jobs/job/pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: a}]}}",
        "jobs/job/patch.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {hostname: c}}",
        "jobs/job/values.env": "A=1",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (root / "jobs/job/link.yaml").symlink_to("../../../secret.yaml")
    return root


def kustomizations(data: bytes) -> None:
    """A kustomization is refused, or reads nothing but plain files of its repository; both in a few words."""
    root = _repository()
    (root / "jobs/job/kustomization.yaml").write_bytes(data)
    sources = Sources(root)
    try:
        graph = load_graph(sources, "jobs/job")
        replay(root, "jobs/job", sources)
    except InputError as error:
        refused(error.message, error.line, text_of(data))
        return
    for file in graph.files:
        real = os.path.realpath(root / file)
        assert real.startswith(f"{os.path.realpath(root)}/")
        assert os.path.isfile(real)


def secrets(data: bytes) -> None:
    """Of what looks like a token, no more is printed than its first signs."""
    text = text_of(data)
    printed = without_tokens(text)
    for secret in known_secrets(text):
        assert secret not in printed or len(secret) <= SHOWN or not secret[SHOWN:].strip(".")


_FOUND = tuple(
    Finding(rule, rule.lower(), Severity.ERROR, "wrong", Place("Job/a", "spec", Position(f"{folder}/job.yaml", 1, 1)))
    for folder in ("deploy", "legacy")
    for rule in ("SEC001", "JOB005", "INP001")
)
"""What a repository's settings have to do with: rules that may be silenced, and one that may not."""


@cache
def _other_layout() -> Path:
    return Path(tempfile.mkdtemp(prefix="trainyard-fuzz-"))


def settings(data: bytes) -> None:
    """trainyard.yaml and its baseline are refused at a place in them, or each finding is told or silenced once."""
    root = _other_layout()
    own, _, baseline = data.partition(b"\0")
    texts = {SETTINGS: text_of(own), "baseline.json": text_of(baseline)}
    (root / SETTINGS).write_bytes(own)
    (root / "baseline.json").write_bytes(baseline)
    try:
        found = own_settings(root, Sources(root))
    except InputError as error:
        refused(error.message, error.line, texts.get(error.file, ""))
        return
    outcome = Outcome(_FOUND, (), (), 0, lambda _, __: None, "")
    after = settled(found, outcome, all_rules(), whole=True)
    about = [each for each in after.findings if each.place.position and each.place.position.file in texts]
    for each in about:
        assert each.place.position
        in_text(texts[each.place.position.file], each.place.position)
    told = [(each.rule, each.place) for each in after.findings if each not in about]
    silenced = [(each.finding.rule, each.finding.place) for each in after.suppressed]
    assert sorted(map(str, told + silenced)) == sorted(str((each.rule, each.place)) for each in _FOUND)
    assert "INP001" not in {rule for rule, _ in silenced}
    for silent in after.suppressed:
        in_text(texts[silent.by.file], silent.by)
