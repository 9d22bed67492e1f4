"""What each parser promises for whatever a stranger writes. A target takes bytes, and an exception is a fault found.

`run.py` searches for inputs that break a promise, guided by coverage; `corpus/` keeps what was found and what it grew
from, a folder a target, and test_corpus.py holds every promise for all of it.
"""

import io
import json
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from trainyard import schema
from trainyard.errors import InputError
from trainyard.finding import Finding, Position
from trainyard.jobfile import check_facts
from trainyard.manifests import read_manifests
from trainyard.nodes import load_documents, load_embedded
from trainyard.objects import Object, Spot
from trainyard.pipeline import finding_of, found_by_rules, input_finding
from trainyard.quantity import quantity
from trainyard.report import FORMATS, Report, write
from trainyard.rules import all_rules
from trainyard.rules.deepspeed import hjson
from trainyard.sources import Sources
from trainyard.suppress import find
from trainyard.workload.environment import expand
from trainyard.workload.model import EnvVar
from trainyard.workload.shell import commands
from trainyard.yamltext import lines_of

FILE = "fuzzed.yaml"
_SPOT = Spot(Object.of({"kind": "Job", "metadata": {"name": "job"}}, 0), ("spec",))
_ROOT = Path(tempfile.gettempdir())


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _in(text: str, place: Position | None) -> None:
    """A place is none, or stands in the text: at a line that is there, at most one column behind its end."""
    if place is None:
        return
    lines = lines_of(text.removeprefix("\ufeff"))
    assert 1 <= place.line <= len(lines), place
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1, place


def _refused(words: str, line: int, text: str) -> None:
    """A refusal is one line of words, about a line that is there."""
    assert words
    assert "\n" not in words
    assert line <= len(lines_of(text))


def yaml(data: bytes) -> None:
    """YAML is read or refused at a place that is there; values are JSON, and each stands in the file."""
    text = _text(data)
    try:
        documents = load_documents(text, FILE)
    except InputError as error:
        _refused(error.message, error.line, text)
        return
    for document in documents:
        json.dumps(document.plain())
        nodes = [document]
        while nodes:
            node = nodes.pop()
            _in(text, node.mark)
            _in(text, node.key_mark)
            if isinstance(node.value, str):
                inner = load_embedded(node)
                json.dumps(None if inner is None else inner.plain())
            below = node.value.values() if isinstance(node.value, dict) else node.value
            nodes.extend(below if isinstance(node.value, dict | list) else ())
    find(FILE, text)


def job_file(data: bytes) -> None:
    """Whatever a job.yaml holds, its schema's words come with a place in it."""
    text = _text(data)
    try:
        documents = load_documents(text, FILE)
    except InputError:
        return
    for document in documents[:2]:
        for kind in ("TrainingJob", "Cluster", "Fabric"):
            for finding in check_facts(document, kind):
                assert finding.message
                _in(text, finding.place.position)


def ds_config(data: bytes) -> None:
    """Hjson is read or refused; what is JSON means the same to both readers, and can be written again."""
    text = _text(data)
    try:
        plain = hjson.strict(text)
    except hjson.Refused:
        plain = None
    try:
        found = hjson.loads(text)
    except hjson.Refused as refused:
        _refused(str(refused), 1, text)
        return
    json.dumps(found)
    if isinstance(plain, dict) and "NaN" not in text and "Infinity" not in text:
        assert found == plain


def amounts(data: bytes) -> None:
    """A quantity is exact, has its sign, and means the same with blanks refused and with its suffix spelt out."""
    text = _text(data)
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
    first, _, rest = _text(data).partition("\0")
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
    for command in commands(rest, _SPOT, known):
        assert all(isinstance(word.text, str) for word in command.words)


def manifest(data: bytes) -> None:
    """Every rule judges every manifest, and no format of the report can be made to say what is not in it."""
    text = _text(data)
    sources = Sources(_ROOT)
    sources.add(FILE, text)
    rules = all_rules()
    findings: list[Finding] = []
    try:
        unit, origin = read_manifests(FILE, (FILE,), sources)
    except InputError as error:
        findings.append(input_finding(error, FILE))
    else:
        findings += [finding_of(rule, problem, origin, FILE) for rule, problem in found_by_rules(rules, unit)]
        for refused in schema.check([unit]):
            place = origin.position(refused.object, refused.path, refused.at_key)
            assert refused.message
            _in(text, place)
    report = Report(tuple(findings), (FILE,), line_of=lambda file, line: _line(sources, file, line))
    for form in FORMATS:
        out = io.StringIO()
        write(report, form, out, rules=rules)
        harmless(form, out.getvalue())


def _line(sources: Sources, file: str, line: int) -> str | None:
    lines = sources.lines(file)
    return lines[line - 1] if 0 < line <= len(lines) else None


_COMMANDS = re.compile(r"^ *::[A-Za-z]", re.MULTILINE)
_OURS = re.compile(r"::(error|warning|notice|group|endgroup)(?: [a-zA-Z]+=[^,:\n]*(?:,[a-zA-Z]+=[^,:\n]*)*)?::")


def harmless(form: str, printed: str) -> None:
    """A report holds no control character and no command but its own, and is what its format says."""
    assert all(character == "\n" or character.isprintable() for character in printed), form
    assert not re.search(r"##[A-Za-z]*\[", printed), form
    if form == "github":
        for line in printed.split("\n"):
            assert not _COMMANDS.match(line) or _OURS.match(line), line
    else:
        assert not _COMMANDS.search(printed), form
    if form in ("json", "sarif"):
        json.loads(printed)
    if form == "junit":
        assert ET.fromstring(printed).tag in ("testsuites", "testsuite")


TARGETS: Mapping[str, Callable[[bytes], Any]] = {
    "amounts": amounts,
    "ds_config": ds_config,
    "env": env,
    "job_file": job_file,
    "manifest": manifest,
    "yaml": yaml,
}
