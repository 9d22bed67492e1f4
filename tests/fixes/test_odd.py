"""Whatever a file looks like, an edit changes what it is meant to and nothing else, or is refused with a reason."""

from copy import deepcopy
from pathlib import Path as File
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.fixes.odd import FILE, SCALARS, Odd, odd_documents
from trainyard.errors import InputError
from trainyard.fixes.apply import edited
from trainyard.fixes.plan import plan
from trainyard.objects.manifests import ManifestOrigin
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Act, Change, Remedy
from trainyard.yaml.fieldpath import Path
from trainyard.yaml.nodes import load_documents, load_embedded
from trainyard.yaml.sources import Sources

NEW = st.one_of(SCALARS, st.sampled_from([{"x": 1}, {"x": {"y": ["z"]}}, [1, "a"], {}, []]))


def tree_of(text: str, prefix: Path) -> Any:
    """What the text holds at the end of a way that may lead into a string."""
    node: Any = load_documents(text, FILE)[0]
    for step in prefix:
        node = node.child(step)
    if prefix:
        node = load_embedded(node)
    return node.plain()


def places(tree: Any, path: Path = ()) -> list[Path]:
    """The way to everything in a tree."""
    below = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(each for step, item in below for each in places(item, (*path, step)))]


def changed(tree: Any, act: Act, path: Path, value: Any) -> Any:
    """The tree as it should be afterwards."""
    tree = deepcopy(tree)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    if act is Act.SET:
        holder[last] = value
    elif act is Act.REMOVE:
        del holder[last]
    elif act is Act.ADD:
        holder[last].append(value)
    else:
        holder[value] = holder.pop(last)
    return tree


@st.composite
def changes(draw: Any) -> tuple[Odd, Act, Path, Any]:
    """A text and something to change in it."""
    odd = draw(odd_documents())
    act = draw(st.sampled_from([Act.SET, Act.SET, Act.REMOVE, Act.RENAME, Act.ADD]))
    path = draw(st.sampled_from(places(odd.tree)[1:]))
    if act is Act.SET and draw(st.booleans()):
        holders = [each for each in places(odd.tree) if isinstance(at(odd.tree, each), dict)]
        return odd, act, (*draw(st.sampled_from(holders)), "new"), draw(NEW)
    if act is Act.ADD:
        lists = [each for each in places(odd.tree) if isinstance(at(odd.tree, each), list)]
        assume(lists)
        return odd, act, draw(st.sampled_from(lists)), draw(NEW)
    if act is Act.RENAME:
        assume(isinstance(path[-1], str))
        return odd, act, path, "new"
    if act is Act.SET:
        scalars = [each for each in places(odd.tree)[1:] if not isinstance(at(odd.tree, each), dict | list)]
        assume(scalars)
        path = draw(st.sampled_from(scalars))
    return odd, act, path, draw(SCALARS)


def at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


@settings(max_examples=600, deadline=None, derandomize=True)
@given(changes())
def test_an_edit_does_what_it_says_or_is_refused(case: tuple[Odd, Act, Path, Any]) -> None:
    odd, act, path, value = case
    try:
        assert tree_of(odd.text, odd.prefix) == odd.tree
    except (InputError, AttributeError):
        assume(False)  # a text that kustomize would not read either
    sources = Sources(File("/"))
    sources.add(FILE, odd.text)
    nodes = load_documents(odd.text, FILE)
    spot = Object.of(nodes[0].plain(), 0).at(*odd.prefix, *path)

    fix = plan(Remedy((Change(act, spot, value),), says="change it"), "", ManifestOrigin(nodes), sources)

    event(f"{act.value}: {fix.refused or 'made'}")
    if fix.refused:
        assert not fix.edits
        return
    after = edited(odd.text, fix.edits)
    assert tree_of(after, odd.prefix) == changed(odd.tree, act, path, value), after
    comments = [line.strip() for line in odd.text.splitlines() if line.lstrip().startswith("# note")]
    assert [line.strip() for line in after.splitlines() if line.lstrip().startswith("# note")] == comments
    assert ("\r\n" in odd.text) == ("\r\n" in after)
    assert after.count("\n") == after.count("\r\n") or "\r\n" not in after
    assert after.startswith("\ufeff") == odd.text.startswith("\ufeff")
