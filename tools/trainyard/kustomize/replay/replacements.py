"""Replacements: values copied from a field of one object to fields of others."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trainyard.kustomize.replay import paths
from trainyard.kustomize.replay.patterns import is_plain, whole
from trainyard.kustomize.replay.resources import Resource, Selector, retyped, string, text_of
from trainyard.kustomize.replay.trails import Trail, trail
from trainyard.yaml.nodes import Node, RawMark
from trainyard.yaml.scalars import resolve


@dataclass(frozen=True, slots=True)
class Options:
    """How a part of a text is taken or put."""

    delimiter: str = ""
    index: int = 0
    create: bool = False

    @classmethod
    def of(cls, node: Node | None) -> "Options":
        """Read from `options`."""
        if node is None:
            return cls()
        index, create = node.child("index"), node.child("create")
        return cls(
            text_of(node.child("delimiter")),
            index.value if index is not None and type(index.value) is int else 0,
            create is not None and create.value is True,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """Where a value goes."""

    select: Selector
    reject: tuple[Selector, ...]
    fields: tuple[str, ...]
    options: Options
    selects: Callable[[Resource], bool]
    """Whether `select` and `reject` mean an object."""
    kind: str
    """The one kind that `select` can mean; empty where it may mean several."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One entry of a list of replacements."""

    entry: RawMark | None
    constant: Node | None
    source: Selector
    field: str
    options: Options
    targets: tuple[Target, ...]

    @classmethod
    def of(cls, node: Node) -> "Replacement":
        """Read from its entry."""
        source = node.child("source")
        listed = node.child("targets")
        targets = listed.value if listed is not None and type(listed.value) is list else []
        return cls(
            node.raw,
            node.child("sourceValue"),
            Selector.of(source),
            (text_of(source.child("fieldPath")) if source is not None else "") or "metadata.name",
            Options.of(source.child("options") if source is not None else None),
            tuple(_target(target) for target in targets),
        )


def _target(node: Node) -> Target:
    rejects, fields = node.child("reject"), node.child("fieldPaths")
    select = Selector.of(node.child("select"))
    reject = tuple(
        Selector.of(each) for each in (rejects.value if rejects is not None and type(rejects.value) is list else ())
    )
    return Target(
        select,
        reject,
        tuple(text_of(each) for each in (fields.value if fields is not None and type(fields.value) is list else ()))
        or ("metadata.name",),
        Options.of(node.child("options")),
        _selecting(select, reject),
        select.kind if is_plain(select.kind) else "",
    )


@dataclass(slots=True, eq=False)
class Wiring:
    """What one replacement did at one field, or that it reached none."""

    replacement: Replacement
    source: Resource | None
    source_path: Trail
    value: Node | None
    delimited: bool
    problem: str = ""
    field: str = ""
    path: Trail = ()
    written: Node | None = None
    instead: Node | None = None
    """Where there is no such field: what a patch has put on the way to it."""


def apply(resources: list[Resource], replacements: Sequence[Replacement]) -> list[Wiring]:
    """Copy the values, in order. What reached a target is kept there; what reached none, or had no value, is returned.

    Most of a wiring is about kinds that a job does not have, so objects are looked up by kind.
    """
    unreached: list[Wiring] = []
    by_kind = _by_kind(resources) if replacements else {}
    for replacement in replacements:
        wanted = replacement.source.kind
        among = by_kind.get(wanted, []) if wanted else resources
        source, path, value, problem = _source(among, replacement)
        if value is None:
            unreached.append(Wiring(replacement, source, path, None, False, problem, replacement.field))
            continue
        for target in replacement.targets:
            among = by_kind.get(target.kind, []) if target.kind else resources
            reached = [resource for resource in among if target.selects(resource)]
            if not reached:
                unreached.append(Wiring(replacement, source, path, value, False, "no target"))
            for resource in reached:
                for named in target.fields:
                    done = _write(resource, replacement, target.options, named, source, path, value)
                    resource.wired.extend(done)
            if any(paths.split(named)[0] == "kind" for named in target.fields):
                by_kind = _by_kind(resources)
    return unreached


def _by_kind(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    """Objects under each kind that they have or had, in order."""
    found: dict[str, list[Resource]] = {}
    for resource in resources:
        for kind in dict.fromkeys(each.kind for each in resource.ids):
            found.setdefault(kind, []).append(resource)
    return found


def _source(resources: list[Resource], replacement: Replacement) -> tuple[Resource | None, Trail, Node | None, str]:
    if replacement.constant is not None:
        return (
            None,
            (),
            string(replacement.constant.text, replacement.constant.raw, None, replacement.constant.style),
            "",
        )
    wanted = replacement.source
    found = [resource for resource in resources if _is_source(resource, wanted)]
    if len(found) != 1:
        return None, (), None, "several sources" if found else "no source"
    held = paths.lookup(found[0].node, replacement.field)
    if held is None or held[1].value in ({}, []):
        return found[0], (), None, "no source field"
    path, value = trail(found[0].node, held[0], paths.source_steps(replacement.field)), held[1]
    if replacement.options.delimiter:
        parts = value.text.split(replacement.options.delimiter)
        if not 0 <= replacement.options.index < len(parts):
            return found[0], path, None, "no source field"
        value = retyped(value, parts[replacement.options.index], value)
    return found[0], path, value, ""


def _is_source(resource: Resource, wanted: Selector) -> bool:
    for each in resource.ids:
        if (
            (not wanted.kind or wanted.kind == each.kind)
            and (not wanted.name or wanted.name == each.name)
            and (not wanted.namespace or wanted.namespace == (each.namespace or "default"))
        ):
            break
    else:
        return False
    if not wanted.group and not wanted.version:
        return True
    group, version = resource.group_version
    return (not wanted.group or wanted.group == group) and (not wanted.version or wanted.version == version)


def _selecting(select: Selector, reject: tuple[Selector, ...]) -> Callable[[Resource], bool]:
    has_id, rejects = _by_id(select), [_rejecting(each) for each in reject]
    labelled = bool(select.labels or select.annotations)

    def selects(resource: Resource) -> bool:
        if not has_id(resource) or (labelled and not resource.carries(select)):
            return False
        return not any(rejected(resource) for rejected in rejects)

    return selects


def _rejecting(reject: Selector) -> Callable[[Resource], bool]:
    has_id, labelled = _by_id(reject), bool(reject.labels or reject.annotations)

    def rejected(resource: Resource) -> bool:
        if labelled and resource.carries(reject):
            return True
        return not reject.names_nothing and has_id(resource)

    return rejected


def _by_id(selector: Selector) -> Callable[[Resource], bool]:
    """Whether one of an object's ids is what a selector says. Expressions are compiled once."""
    kind, name, namespace = whole(selector.kind), whole(selector.name), whole(selector.namespace)
    group, version = whole(selector.group), whole(selector.version)
    typed = bool(selector.group or selector.version)

    def has_id(resource: Resource) -> bool:
        for each in resource.ids:
            if kind(each.kind) and name(each.name) and namespace(each.namespace):
                break
        else:
            return False
        return not typed or (group(resource.group_version[0]) and version(resource.group_version[1]))

    return has_id


def _write(
    resource: Resource,
    replacement: Replacement,
    options: Options,
    named: str,
    source: Resource | None,
    source_path: Trail,
    value: Node,
) -> list[Wiring]:
    delimited = bool(options.delimiter)
    tag = (value.tag if value.tag in ("map", "seq") else "str") if options.create else ""
    steps = paths.split(named)
    places = paths.match(resource.own(steps[0]), steps, tag)
    if not places:
        instead = paths.replaced_by(resource.node, steps)
        return [Wiring(replacement, source, source_path, value, delimited, "no target field", named, instead=instead)]
    done = []
    for holder, key, path in places:
        old = holder.child(key)
        assert old is not None
        new = _copied(old, value, options)
        if new is not None:
            holder.value[key] = new
        there = trail(resource.node, path, steps)
        done.append(Wiring(replacement, source, source_path, value, delimited, _problem(value, new), named, there, new))
    return done


def _problem(value: Node, new: Node | None) -> str:
    if new is None:
        return "no target field"
    return "map into text" if type(value.value) in (dict, list) and type(new.value) not in (dict, list) else ""


def _copied(old: Node, value: Node, options: Options) -> Node | None:
    structured = type(old.value) in (dict, list)
    if options.delimiter:
        if structured:
            return None
        parts = old.text.split(options.delimiter)
        if options.index < 0:
            parts.insert(0, value.text)
        elif options.index >= len(parts):
            parts.append(value.text)
        else:
            parts[options.index] = value.text
        return retyped(value, options.delimiter.join(parts), old)
    if structured:
        copied = value.copy()
        return copied.under(old.key_raw)
    if old.tag in ("", "null"):
        tag, plain = resolve(value.text, None, plain=True)
        return Node(plain, value.raw, old.key_raw, value.style, value.text, tag)
    return retyped(value, value.text, old)
