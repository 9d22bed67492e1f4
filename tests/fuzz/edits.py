"""Whatever a file looks like, an edit changes what it is meant to and nothing else, or is refused with a reason."""

import re
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path as File
from typing import Any

from tests.fuzz.parsers import FILE, text_of
from trainyard.errors import InputError
from trainyard.findings.finding import Finding, Severity
from trainyard.fixes.apply import edited
from trainyard.fixes.plan import plan
from trainyard.fixes.rounds import Rounds
from trainyard.lint.result import finding_of, found_by_rules, input_finding
from trainyard.objects.manifests import ManifestOrigin, read_manifests
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Act, Change, Remedy
from trainyard.rules.index import all_rules
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import Node, load_documents, load_embedded
from trainyard.yaml.sources import Sources

_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_PLACES = 400
_ACTS = (Act.SET, Act.SET, Act.REMOVE, Act.RENAME, Act.ADD)
_VALUES: tuple[Any, ...] = (
    "a", "true", "1", "k: v", "# no", "it's", '"', "", " ", "two\nlines\n", "é", "\u2028", "*x", "- a", "[z]", "~", 7,
    1.5, True, None, {"x": 1}, {"x": {"y": ["z"]}}, [1, "a"], {}, [],
)  # fmt: skip


def edits(data: bytes) -> None:
    """The file says afterwards what it said, but for the one field; its mark and the ends of its lines stay."""
    if len(data) < 4:
        return
    act, text = _ACTS[data[0] % len(_ACTS)], data[4:].decode(errors="replace")
    try:
        nodes = load_documents(text, FILE)
    except InputError:
        return
    nodes = [node for node in nodes if isinstance(node.value, dict)] if len(nodes) == 1 else []
    if not nodes:
        return
    places = list(islice(_places(nodes[0], act), _PLACES))
    if act is Act.RENAME:
        places = [(prefix, path) for prefix, path in places if isinstance(path[-1], str)]
    if not places:
        return
    prefix, path = places[(data[1] + 256 * data[2]) % len(places)]
    value: Any = "new" if act is Act.RENAME else _VALUES[data[3] % len(_VALUES)]
    expected = _changed(_tree(nodes[0], prefix), act, path, value)
    sources = Sources(File("/"))
    sources.add(FILE, text)
    spot = Object.of(nodes[0].plain(), 0).at(*prefix, *path)

    fix = plan(Remedy((Change(act, spot, value),), says="change it"), "", ManifestOrigin(nodes), sources)

    if fix.refused:
        assert not fix.edits
        return
    after = edited(text, fix.edits)
    (now,) = load_documents(after, FILE)
    assert _tree(now, prefix) == expected
    if prefix:
        assert _without(now, prefix) == _without(nodes[0], prefix)
    _same_ends(text, after)


def _same_ends(before: str, after: str) -> None:
    """The mark at the file's beginning stays, and lines end as they did: none in another way beside the others."""
    assert after.startswith("\ufeff") == before.startswith("\ufeff")
    ends = set(re.findall(_END, before))
    assert set(re.findall(_END, after)) <= (ends or {"\n"})


def _places(node: Node, act: Act, prefix: Path = (), path: Path = ()) -> Iterator[tuple[Path, Path]]:
    """Each field that may be acted on: the way to the document in a text that it stands in, and its way there."""
    value = node.value
    if isinstance(value, dict | list):
        if (path and act is not Act.ADD) or (isinstance(value, list) and act is Act.ADD):
            yield prefix, path
        if isinstance(value, dict) and act is Act.SET:
            yield prefix, (*path, "new")
        for step, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(below, act, prefix, (*path, step))
        return
    if path and act is not Act.ADD:
        yield prefix, path
    inner = load_embedded(node) if isinstance(value, str) and not prefix else None
    if inner is not None and path:
        yield from _places(inner, act, path, ())


def _tree(root: Node, prefix: Path) -> Any:
    found = root.at(prefix)
    if prefix and found is not None:
        found = load_embedded(found)
    assert found is not None
    return found.plain()


def _without(root: Node, path: Path) -> Any:
    tree = deepcopy(root.plain())
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = ""
    return tree


def _changed(tree: Any, act: Act, path: Path, value: Any) -> Any:
    tree = deepcopy(tree)
    if act is Act.ADD:
        found = tree
        for step in path:
            found = found[step]
        found.append(value)
        return tree
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    if act is Act.SET:
        holder[path[-1]] = value
    elif act is Act.REMOVE:
        del holder[path[-1]]
    elif isinstance(holder, dict):
        holder[value] = holder.pop(path[-1])
    return tree


@cache
def _folder() -> File:
    return File(tempfile.mkdtemp(prefix="trainyard-fuzz-"))


def fixes(data: bytes) -> None:
    """`--fix=unsafe` over a stranger's manifest: it can be read as before, and has no more errors."""
    text = text_of(data)
    before = _findings(text)
    if not any(finding.fix is not None and finding.fix.edits for finding in before):
        return
    file = _folder() / FILE
    file.write_bytes(text.encode())

    made = Rounds(_folder(), lambda: _findings(file.read_bytes().decode()), all_rules(), unsafe=True).run()

    after = file.read_bytes().decode()
    assert after == made.after.get(FILE, text)
    left = _findings(after)
    assert not any(finding.input_error for finding in left)
    assert _errors(left) <= _errors(before)
    assert bool(made.fixed) == (after != text)
    _same_ends(text, after)


def _errors(findings: list[Finding]) -> int:
    return sum(finding.severity is Severity.ERROR for finding in findings)


def _findings(text: str) -> list[Finding]:
    sources = Sources(_folder())
    sources.add(FILE, text)
    rules = all_rules()
    try:
        unit, origin = read_manifests(FILE, (FILE,), sources)
    except InputError as error:
        return [input_finding(error, FILE)]
    found = []
    for rule, problem in found_by_rules(rules, unit):
        finding = finding_of(rule, problem, origin, FILE)
        if problem.fix is not None:
            finding = replace(finding, fix=plan(problem.fix, problem.help, origin, sources))
        found.append(finding)
    return found
