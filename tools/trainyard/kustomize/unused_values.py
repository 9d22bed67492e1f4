"""What a job lists or patches and its base has no place for."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from trainyard.findings.finding import Finding, Place, Severity
from trainyard.kustomize.kustomization import Kustomization, join
from trainyard.kustomize.replay import ObjectId, PatchRecord, Replay, Wire, Write
from trainyard.rules.registry import declare
from trainyard.yaml.fieldpath import Path, format_path
from trainyard.yaml.nodes import Node

OUT_OF_PLACE = declare(
    "CTR030",
    "component-out-of-place",
    Severity.ERROR,
    """A job lists a component that its base has no place for.

    The component changes an object that the base does not make, or the base has the component in it already. kustomize
    stops at the component's files and does not name the line of the job.

    Bad:
        # kustomization.yaml
        resources:
        - ../../../base/torchrun
        components:
        - ../../../base/elastic

    Good:
        # kustomization.yaml
        resources:
        - ../../../base/pytorchjob
        components:
        - ../../../base/elastic

    Source: docs/matrix.md
    """,
)

UNTAKEN = declare(
    "CTR031",
    "pod-field-untaken",
    Severity.ERROR,
    """A patch sets a field of the PodTemplate that the job's kind does not take, so it reaches no pod.

    The wiring copies the PodTemplate into the job's own pods: all of its `template.spec` for most kinds, a few of its
    fields for a TrainJob, and its labels for none. The job runs without the rest.

    Bad:
        # patch.yaml, with base/trainjob
        kind: PodTemplate
        metadata: {name: training-job}
        template: {spec: {initContainers: [{name: fetch, image: fetch}]}}

    Good:
        # patch.yaml, with base/jobset
        kind: PodTemplate
        metadata: {name: training-job}
        template: {spec: {initContainers: [{name: fetch, image: fetch}]}}

    Source: base/wiring/
    """,
)

_TEMPLATE = "PodTemplate"


def components_out_of_place(
    job: str, kustomizations: Mapping[str, Kustomization], replayed: Replay
) -> Iterator[Finding]:
    """Components of a job that change nothing, or that its base lists as well."""
    own = kustomizations[job]
    base = next((join(job, entry.value) for entry in own.items("resources")), "the base")
    within = {
        join(each.folder, entry.value): each.folder
        for each in kustomizations.values()
        if each.folder != job
        for entry in each.items("components")
    }
    for entry in own.items("components"):
        folder = join(job, entry.value)
        idle = next((patch for patch in replayed.patches if patch.matched == 0 and _is_of(folder, patch)), None)
        if folder in within and kustomizations[folder].items("resources"):
            yield _out_of_place(job, f"{folder} is in {within[folder]} already", entry, (), "take the line out")
        elif idle is not None:
            what = f"{folder} changes an object of kind {idle.meant or 'its own'}, and {base} makes none"
            related = (Place("", "", idle.entry, "this patch finds nothing"),)
            help = f"take the line out, or name a base that makes a {idle.meant} under resources"
            yield _out_of_place(job, what, entry, related, help)


def pods_untaken(job: str, kustomization: Kustomization, replayed: Replay) -> Iterator[Finding]:
    """Fields of the PodTemplate that a patch set and no replacement copied into an object that is applied."""
    listed = [(join(job, entry.value), entry) for entry in kustomization.items("components")]
    for patch in replayed.patches:
        component = next((each for each in listed if _is_of(each[0], patch)), None)
        told: set[Path] = set()
        for write in patch.writes:
            if write.object.kind != _TEMPLATE or write.path[:1] != ("template",) or write.overwritten:
                continue
            wires = [each for each in replayed.wires_from.get(write.object, ()) if _leaves(each, write.object)]
            lost = _lost(write.path, [wire.source.path for wire in wires if wire.source is not None])
            if lost is None or lost in told or not wires:
                continue
            told.add(lost)
            yield _untaken(job, write, lost, wires[0], component)


def _untaken(job: str, write: Write, lost: Path, wire: Wire, component: tuple[str, Node] | None) -> Finding:
    assert wire.target is not None
    kind, field = wire.target.object.kind, format_path(None, lost)
    message = f"a {kind} does not take {field} from the PodTemplate"
    title = "/".join(part for part in (_TEMPLATE, write.object.namespace, write.object.name) if part)
    place = Place(title, field, write.mark, "reaches no pod")
    help = f"patch the {kind} itself, or name a base under resources that takes the whole pod, such as base/jobset"
    if component is None:
        return Finding(UNTAKEN.id, UNTAKEN.name, UNTAKEN.severity, message, place, (), help, (job,))
    folder, entry = component
    message = f"{message}, where {folder} sets it"
    here = Place(title, field, entry.mark, "reaches no pod in part")
    return Finding(UNTAKEN.id, UNTAKEN.name, UNTAKEN.severity, message, here, (place,), help, (job,))


def _leaves(wire: Wire, template: ObjectId) -> bool:
    """Whether a wire copies something into another object."""
    return wire.target is not None and wire.target.object != template


def _lost(path: Path, taken: Sequence[Path]) -> Path | None:
    """The field at or above `path` of which no part is taken; None where it is taken itself, or what holds it is."""
    if any(path[: len(each)] == each for each in taken):
        return None
    return next(path[:end] for end in range(1, len(path) + 1) if not any(each[:end] == path[:end] for each in taken))


def _is_of(folder: str, patch: PatchRecord) -> bool:
    return patch.entry is not None and posixpath.dirname(patch.entry.file) == folder


def _out_of_place(job: str, message: str, entry: Node, related: tuple[Place, ...], help: str) -> Finding:
    place = Place("", "", entry.mark)
    return Finding(OUT_OF_PLACE.id, OUT_OF_PLACE.name, OUT_OF_PLACE.severity, message, place, related, help, (job,))
