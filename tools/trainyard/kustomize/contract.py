"""What went wrong in silence between job.yaml, patches and the wiring: the findings that only the replay can see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.kustomize.difference import Later, difference, said
from trainyard.kustomize.replay import Loss, ObjectId, Replay, Wire, Write
from trainyard.objects.objects import Object
from trainyard.rules.registry import Rule, declare
from trainyard.yaml.fieldpath import Path, format_path, lookup
from trainyard.yaml.nodes import Node

DIFFERS = declare(
    "CTR002",
    "wired-value-differs",
    Severity.ERROR,
    """A field that the wiring fills ends up with another value than its source.

    Something later wrote it again: a second replacement, or a transformer. The number in job.yaml or in the facts is
    then not the number that runs, and nobody sees it.

    Bad:
        # base/wiring/job.yaml
        replacements:
        - source: {kind: TrainingJob, fieldPath: spec.nodes}
          targets: [{select: {kind: Job}, fieldPaths: [spec.completions]}]
        - source: {kind: TrainingJob, fieldPath: spec.gpusPerNode}
          targets: [{select: {kind: Job}, fieldPaths: [spec.completions]}]

    Good:
        # base/wiring/job.yaml
        replacements:
        - source: {kind: TrainingJob, fieldPath: spec.nodes}
          targets: [{select: {kind: Job}, fieldPaths: [spec.completions]}]

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/replacements/
    """,
)

OVERWRITTEN = declare(
    "CTR003",
    "patch-overwritten",
    Severity.ERROR,
    """A patch sets a field that the wiring then writes over.

    The wiring runs after every patch, so the patch has no effect. The value belongs where the wiring takes it from.

    Bad:
        # patch.yaml
        kind: Job
        spec: {completions: 8}

    Good:
        # job.yaml
        spec: {nodes: 8}

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/replacements/
    """,
)

MAP_INTO_TEXT = declare(
    "CTR004",
    "map-into-text",
    Severity.ERROR,
    """The wiring copies a map or a list into a field that holds text, which empties it.

    kustomize says nothing and writes "". Whole maps and lists can be copied over maps and lists only.

    Bad:
        # base/wiring/config-map.yaml
        - source: {kind: TrainingJob, fieldPath: spec.batch}
          targets: [{select: {kind: ConfigMap}, fieldPaths: [data.TRAINER_MICRO_BATCH]}]

    Good:
        # base/wiring/config-map.yaml
        - source: {kind: TrainingJob, fieldPath: spec.batch.micro}
          targets: [{select: {kind: ConfigMap}, fieldPaths: [data.TRAINER_MICRO_BATCH]}]

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/replacements/
    """,
)

VANISHED = declare(
    "CTR005",
    "containers-vanished",
    Severity.ERROR,
    """A patch on a custom resource replaces its list of containers, and what it does not repeat is gone.

    kustomize knows how to merge lists of built-in kinds only. On a PyTorchJob, MPIJob or any other custom resource a
    strategic merge patch with a container's name and one field leaves a container with that field alone.

    Bad:
        # patch.yaml
        kind: PyTorchJob
        spec:
          pytorchReplicaSpecs:
            Worker: {template: {spec: {containers: [{name: pytorch, env: [{name: NCCL_DEBUG, value: INFO}]}]}}}

    Good:
        # patch.yaml, a JSON patch
        - op: add
          path: /spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/env/-
          value: {name: NCCL_DEBUG, value: INFO}

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/patches/
    """,
)

BROKEN = declare(
    "CTR007",
    "wiring-broken",
    Severity.ERROR,
    """A replacement of the wiring has no field to read from, or none to write to, or no delimiter to go by.

    kustomize stops there and names neither the file nor the line. A delimiter that the target lacks does not stop it:
    the whole text is replaced then, and not the part before it.

    Bad:
        # base/wiring/job.yaml
        - source: {kind: TrainingJob, fieldPath: spec.nodez}
          targets: [{select: {kind: Job}, fieldPaths: [spec.completions]}]

    Good:
        # base/wiring/job.yaml
        - source: {kind: TrainingJob, fieldPath: spec.nodes}
          targets: [{select: {kind: Job}, fieldPaths: [spec.completions]}]

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/replacements/
    """,
)


UNHEARD = declare(
    "CTR018",
    "setting-without-effect",
    Severity.WARNING,
    """job.yaml sets a field that no object of the job takes.

    Not every way to run a job has a place for every setting: a TrainJob takes its restarts from the cluster's runtime,
    a priority needs a queue, a ZeRO policy needs DeepSpeed. The job runs without it.

    Bad:
        # job.yaml, with base/torchrun and no component
        spec: {priority: high}

    Good:
        # job.yaml, where kustomization.yaml lists the component ../../../base/queue/kueue
        spec: {priority: high}

    Source: base/wiring/
    """,
)


def broken_wires(job: str, replayed: Replay) -> list[Finding]:
    """What the wiring would stop at, said before kustomize says it worse."""
    patched: dict[Position, list[Wire]] = {}
    for wire in replayed.wires:
        if wire.instead is not None and wire.instead.file.startswith(f"{job}/"):
            patched.setdefault(wire.instead, []).append(wire)
    found = [_replaced(job, at, wires) for at, wires in patched.items()]
    others = (wire for wire in replayed.wires if wire.instead not in patched)
    return found + [finding for wire in others if (finding := _broken(job, wire)) is not None]


def after_rendering(job: str, replayed: Replay, objects: Sequence[Object]) -> list[Finding]:
    """What came out of a job folder otherwise than it was written."""
    rendered = {ObjectId(o.api_version, o.kind, o.namespace, o.name): o for o in (*objects, *_facts(replayed))}
    wired: dict[ObjectId, set[Path]] = {}
    for wire in replayed.wires:
        if wire.target is not None:
            wired.setdefault(wire.target.object, set()).add(wire.target.path)
    names = frozenset(each.name for each in objects)
    found = [
        finding
        for wire in replayed.wires
        if (finding := _differs(job, wire, replayed, rendered, wired, names)) is not None
    ]
    found += _unheard(job, replayed)
    for patch in replayed.patches:
        if patch.file.startswith("base/"):
            continue  # a base's own patches hold the places that the wiring fills
        found += [finding for w in patch.writes if (finding := _overwritten(job, w, replayed, rendered)) is not None]
    return found


def vanished(unit: str, replayed: Replay) -> list[Finding]:
    """What patches took away without a word, in whatever folder."""
    return [
        finding for patch in replayed.patches for loss in patch.losses if (finding := _vanished(unit, loss)) is not None
    ]


def images_without_effect(job: str, images: Sequence[Node], objects: Sequence[Object]) -> Iterator[Finding]:
    """Entries of `images` in a job's kustomization, none of whose words is in what came out."""
    there = "\n".join(f"{image}\n" for each in objects for image in _images(each.data))
    for entry in images:
        for key, before in (("newName", ""), ("newTag", ":"), ("digest", "@")):
            node = entry.at((key,))
            if node is None or f"{before}{node.value}" in there:
                continue
            message = f"images sets {key} to {said(node.value)}, but no container that comes out has it"
            place = Place("", "", node.mark, "no effect")
            help = "set spec.image in job.yaml instead: the wiring writes it over what images did"
            yield _finding(OVERWRITTEN, job, message, place, (), help)
            break


def _images(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, below in tree.items():
            if key == "image" and isinstance(below, str):
                yield below
            else:
                yield from _images(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from _images(below)


def _replaced(job: str, at: Position, wires: Sequence[Wire]) -> Finding:
    """A patch of the job that takes away what the wiring writes to: a list that is replaced, and not added to."""
    fields = ", ".join(sorted({wire.path for wire in wires}))
    related = tuple(Place("", "", mark, "writes there") for mark in dict.fromkeys(wire.replacement for wire in wires))
    message = f"the patch takes away what the wiring writes to: {fields}"
    place = Place("", "", at, "stands in its place")
    return _finding(BROKEN, job, message, place, related, "add to the list with a JSON patch: path .../-")


def _broken(job: str, wire: Wire) -> Finding | None:
    if wire.problem == "map into text" and wire.source and wire.target:
        message = (
            f"{_name(wire.source.path)} is a map or a list, and {_name(wire.target.path)} holds text: it becomes empty"
        )
        place = Place(_title(wire.target.object), _name(wire.target.path), wire.replacement, "this replacement")
        source = Place(_title(wire.source.object), _name(wire.source.path), wire.source.mark, "what it copies")
        return _finding(MAP_INTO_TEXT, job, message, place, (source,), "name the one field of it that is meant")
    if wire.problem not in ("no source", "several sources", "no source field", "no target field"):
        return None
    what = {
        "no source": "no object to read {} from",
        "several sources": "several objects to read {} from",
        "no source field": "no field {} in its source",
        "no target field": "no field {} in its target",
    }[wire.problem].format(wire.path or "a value")
    place = Place("", "", wire.replacement)
    return _finding(
        BROKEN, job, f"this replacement finds {what}", place, (), "correct its select, fieldPath or fieldPaths"
    )


def _unheard(job: str, replayed: Replay) -> Iterator[Finding]:
    """Fields of job.yaml from which no replacement reached a target."""
    ends: dict[Path, list[Wire]] = {}
    for wire in replayed.wires:
        if wire.source is not None and wire.source.object.kind == "TrainingJob":
            ends.setdefault(wire.source.path, []).append(wire)
    facts = [node for node in replayed.facts if (kind := node.at(("kind",))) and kind.value == "TrainingJob"]
    for path, wires in ends.items():
        source = wires[0].source
        node = facts[0].at(path) if facts else None
        mark = node.mark if node is not None else None
        if source is None or mark is None or path in _COUNTED or mark.file != f"{job}/job.yaml":
            continue
        if all(wire.problem == "no target" for wire in wires):
            field = _name(path).removeprefix("spec.")
            message = f"{field} reaches no object of this job, so it changes nothing"
            place = Place(_title(source.object), _name(path), mark, "no effect")
            help = "take it out, or name the base or the component under which it counts in kustomization.yaml"
            yield _finding(UNHEARD, job, message, place, (), help)


_COUNTED = (("spec", "gpusPerNode"),)
"""What counts without being wired: the batch is held against it, also where a base starts one process a node."""


def _facts(replayed: Replay) -> Iterator[Object]:
    """The local objects as they stood before the wiring deleted them: what is wired into them is judged, too."""
    for node in replayed.facts:
        data = node.plain()
        if isinstance(data, dict):
            yield Object.of(data, 0)


def _differs(
    job: str,
    wire: Wire,
    replayed: Replay,
    rendered: Mapping[ObjectId, Object],
    wired: Mapping[ObjectId, set[Path]],
    names: frozenset[str],
) -> Finding | None:
    if wire.problem or wire.source is None or wire.target is None:
        return None
    if wire.delimited:
        return _undelimited(job, wire)
    target = rendered.get(wire.target.object)
    if target is None:
        return None
    try:
        ends = lookup(target.data, wire.target.path)
    except KeyError:
        ends = None
    differing = difference(wire.target.value, ends, wire.target.path, Later(wired[wire.target.object], names))
    if differing is None:
        return None
    at, written, ends = differing
    last = replayed.position(target, at)
    if last is None:
        return None
    path = format_path(target.data, at)
    source = f"{_name((*wire.source.path, *at[len(wire.target.path) :]))} is {said(written)}"
    message = f"{source}, but {path}, which is wired to it, ends as {said(ends)}"
    place = Place(target.title, path, wire.replacement, "wired here")
    related = (
        Place(_title(wire.source.object), _name(wire.source.path), wire.source.mark, "the source"),
        Place(target.title, path, last, "what it ends as"),
    )
    return _finding(DIFFERS, job, message, place, related, "let one replacement alone write this field")


def _undelimited(job: str, wire: Wire) -> Finding | None:
    assert wire.source is not None
    assert wire.target is not None
    if wire.target.value != wire.source.value:
        return None
    path = _name(wire.target.path)
    message = f"this replacement's delimiter is not in {path} of {wire.target.object.kind}: the whole text is replaced"
    place = Place(_title(wire.target.object), path, wire.replacement)
    return _finding(BROKEN, job, message, place, (), "write the delimiter as it stands in the base")


def _overwritten(job: str, write: Write, replayed: Replay, rendered: Mapping[ObjectId, Object]) -> Finding | None:
    for id, path, before in _copies(write, replayed):
        target = rendered.get(id)
        wire = next(
            (w for w in replayed.wires_to.get(id, ()) if w is not before and _covers(w, path)),
            None,
        )
        if target is None or wire is None or wire.source is None:
            continue
        try:
            ends = lookup(target.data, path)
        except KeyError:
            ends = None
        if ends == write.value:
            continue
        written = rendered.get(write.object, target)
        shown = format_path(written.data, write.path)
        over = "takes it out" if ends is None else f"writes {said(ends)} over it"
        message = f"the patch sets {shown} to {said(write.value)}, but the wiring {over}"
        place = Place(written.title, shown, write.mark, "no effect")
        source = Place(_title(wire.source.object), _name(wire.source.path), wire.source.mark, "what counts")
        assert wire.target is not None
        instead = (*wire.source.path, *path[len(wire.target.path) :])
        help = f"set {_name(instead)} of {wire.source.object.kind} instead"
        return _finding(OVERWRITTEN, job, message, place, (source,), help)
    return None


def _copies(write: Write, replayed: Replay) -> Iterator[tuple[ObjectId, Path, Wire | None]]:
    """Where a patched value was written over: in its own object, or in one that the wiring copied it to."""
    if write.overwritten:
        yield write.object, write.path, None
        return
    for wire in replayed.wires_from.get(write.object, ()):
        assert wire.source is not None
        assert wire.target is not None
        start = wire.source.path
        if write.path[: len(start)] == start and len(write.path) > len(start):
            yield wire.target.object, (*wire.target.path, *write.path[len(start) :]), wire


def _vanished(job: str, loss: Loss) -> Finding | None:
    gone = [field for field in ("image", "command", "args", "resources", "volumeMounts") if field in loss.fields]
    if "image" not in gone and "command" not in gone:
        return None
    path = _name(loss.path)
    named = f" of container {loss.name}" if loss.name else ""
    message = (
        f"the patch replaces the whole list of containers of a {loss.object.kind}: {', '.join(gone)}{named} vanish"
    )
    place = Place(_title(loss.object), path, loss.mark, "lists of custom resources are replaced, not merged")
    return _finding(VANISHED, job, message, place, (), "use a JSON patch, or repeat the container whole")


def _covers(wire: Wire, path: Path) -> bool:
    assert wire.target is not None
    return path[: len(wire.target.path)] == wire.target.path


def _title(object: ObjectId) -> str:
    return "/".join(part for part in (object.kind, object.namespace, object.name) if part)


def _name(path: Path) -> str:
    return format_path(None, path)


def _finding(rule: Rule, job: str, message: str, place: Place, related: tuple[Place, ...], help: str) -> Finding:
    return Finding(rule.id, rule.name, rule.severity, message, place, related, help, (job,))
