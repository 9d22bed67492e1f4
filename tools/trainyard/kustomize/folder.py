"""Whether a job folder is put together as a job must be, seen before it is rendered."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from trainyard.findings.finding import Finding, Fix, Place, Position, Severity
from trainyard.fixes.mender import Mender
from trainyard.kustomize.kustomization import Kustomization
from trainyard.kustomize.replay import Replay
from trainyard.objects.remedy import add, put
from trainyard.repository.listed import JOB_FILES, cluster_named, is_in_place
from trainyard.rules.registry import Rule, declare
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

FACTS = ("TrainingJob", "Fabric", "Cluster")

NOT_ONE = declare(
    "CTR006",
    "facts-missing-or-doubled",
    Severity.ERROR,
    """A job has not exactly one TrainingJob, one Fabric and one Cluster.

    The wiring fills the job's objects from these three. Without one there is nothing to fill them from; of two,
    kustomize cannot choose.

    Bad:
        # kustomization.yaml
        resources:
        - ../../../base/torchrun

    Good:
        # kustomization.yaml
        resources:
        - ../../../base/torchrun
        - ../../../clusters/gpu-east/facts

    Source: clusters/
    """,
)

MISNAMED = declare(
    "CTR009",
    "name-differs-from-folder",
    Severity.ERROR,
    """A job is called otherwise than its folder.

    The folder keeps names unique: two folders cannot share a name, two job.yaml can, and then both jobs claim the same
    objects of the cluster.

    Bad:
        # jobs/research/llama-8b-sft/job.yaml
        metadata: {name: llama-8b}

    Good:
        # jobs/research/llama-8b-sft/job.yaml
        metadata: {name: llama-8b-sft}

    Source: jobs/
    """,
    fix="unsafe",
)

UNWIRED = declare(
    "CTR010",
    "wiring-missing",
    Severity.ERROR,
    """A job folder does not run the wiring, so job.yaml has no effect on what is applied.

    Bad:
        # kustomization.yaml
        patches:
        - path: job.yaml
          target: {kind: TrainingJob}

    Good:
        # kustomization.yaml
        patches:
        - path: job.yaml
          target: {kind: TrainingJob}
        transformers:
        - ../../../base/wiring

    Source: base/wiring/
    """,
    fix="safe",
)

UNUSED = declare(
    "CTR012",
    "job-file-unused",
    Severity.ERROR,
    """A job folder does not take its job.yaml, or not its name, so the job runs with the defaults of the base.

    job.yaml is a patch on the base's TrainingJob, and one that may change its name. kustomize leaves out what no
    kustomization names, and keeps the old name where a patch is not allowed to change it.

    Bad:
        # kustomization.yaml
        patches:
        - path: job.yaml
          target: {kind: TrainingJob}

    Good:
        # kustomization.yaml
        patches:
        - path: job.yaml
          target: {kind: TrainingJob}
          options: {allowNameChange: true}

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/patches/
    """,
    fix="safe",
)

TEAM = declare(
    "CTR013",
    "team-differs-from-folder",
    Severity.ERROR,
    """The namespace of a job is not the team that its folder belongs to.

    The folder is jobs/<team>/<job>, and the team is the namespace: who may change the folder may use that namespace,
    its quota and its secrets, and no other.

    Bad:
        # jobs/research/llama-8b-sft/kustomization.yaml
        namespace: vision

    Good:
        # jobs/research/llama-8b-sft/kustomization.yaml
        namespace: research

    Source: jobs/
    """,
    fix="safe",
)

OUT_OF_PLACE = declare(
    "CTR019",
    "cluster-out-of-place",
    Severity.ERROR,
    """A job does not name its cluster where Argo CD and tools/list-jobs look.

    They read one line, the second of `resources` in kustomization.yaml, and compare it to the letter. kustomize takes
    the facts from anywhere, and reads kustomization.yml too: such a job renders, and no cluster runs it.

    Bad:
        # kustomization.yaml
        resources:
        - ../../../clusters/gpu-east/facts
        - ../../../base/torchrun

    Good:
        # kustomization.yaml
        resources:
        - ../../../base/torchrun
        - ../../../clusters/gpu-east/facts

    Source: base/gitops/argocd/team/
    """,
)

_WIRING = "base/wiring"
_TAKES_JOB_FILE = {"path": "job.yaml", "target": {"kind": "TrainingJob"}, "options": {"allowNameChange": True}}

_MEANS = {
    "TrainingJob": "a base, such as ../../../base/torchrun",
    "Fabric": "a fabric, which the cluster's facts bring",
    "Cluster": "the facts of a cluster, such as ../../../clusters/<name>/facts",
}


def assembly(job: str, kustomization: Kustomization, replayed: Replay, sources: Sources) -> list[Finding]:
    """What a job folder lacks or has twice, and names that differ from its path. One finding for one cause."""
    resources = kustomization.root.value.get("resources")
    mark = resources and (resources.key_mark or resources.mark)
    top = mark or kustomization.root.mark or Position(kustomization.file, 0, 0)
    mend = Mender(kustomization.root, sources)
    found = [*_not_one(job, replayed, top), *_team_differs(job, kustomization, top, mend)]
    if any(finding.rule == NOT_ONE.id for finding in found):
        return found
    found += _out_of_place(job, kustomization, replayed, top)
    found += [*_unwired(job, replayed, top, mend), *_unused(job, replayed, top, mend)]
    return [*found, *_misnamed(job, replayed, sources)]


def _not_one(job: str, replayed: Replay, resources: Position) -> Iterator[Finding]:
    facts = [*replayed.facts, *replayed.objects]
    marks = {kind: [node.mark for node in facts if _kind(node) == kind] for kind in FACTS}
    missing = [kind for kind in FACTS if not marks[kind]]
    several = [kind for kind in FACTS if len(marks[kind]) > 1]
    place = Place("", "", resources)
    if missing:
        message = f"a job needs one {_and(missing)}, but there is none among its resources"
        help = f"name {' and '.join(_MEANS[kind] for kind in missing)} under resources"
        yield _finding(NOT_ONE, job, message, place, (), help)
    if several:
        counts = _and([f"{len(marks[kind])} of kind {kind}" for kind in several])
        message = f"a job needs one {_and(several)}, but its resources bring {counts}"
        related = tuple(Place(kind, "", mark, "one of them") for kind in several for mark in marks[kind])
        yield _finding(
            NOT_ONE, job, message, place, related, "name one base and the facts of one cluster under resources"
        )


def _unwired(job: str, replayed: Replay, resources: Position, mend: Mender) -> Iterator[Finding]:
    if any(wire.source is not None and wire.source.object.kind in FACTS for wire in replayed.wires):
        return
    if any(wire.problem for wire in replayed.wires):
        return
    message, help = "the wiring does not run, so job.yaml changes nothing", "add `transformers: [../../../base/wiring]`"
    there = mend.sources.is_folder(_WIRING)
    wiring = posixpath.relpath(_WIRING, job)
    fix = mend(add(mend.document.at("transformers"), wiring), help) if there else None
    yield _finding(UNWIRED, job, message, Place("", "", resources), (), help, fix)


def _out_of_place(job: str, kustomization: Kustomization, replayed: Replay, resources: Position) -> Iterator[Finding]:
    if not is_in_place(job):
        return
    expected, name = JOB_FILES[0], kustomization.file.rpartition("/")[2]
    if name != expected:
        message = f"no cluster runs this job: Argo CD and list-jobs look for {expected}, and it has {name}"
        place = Place("", "", Position(kustomization.file, 0, 0))
        yield _finding(OUT_OF_PLACE, job, message, place, (), f"rename {name} to {expected}")
        return
    entries = kustomization.items("resources")
    second = entries[1] if len(entries) > 1 else None
    if second is not None and cluster_named(second.value):
        return
    names = [node.at(("metadata", "name")) for node in replayed.facts if _kind(node) == "Cluster"]
    facts = f"../../../clusters/{names[0].value if names and names[0] is not None else '<name>'}/facts"
    found = f"{second.value} is" if second is not None else "there is no"
    message = f"no cluster runs this job: {found} second of its resources, where the facts of its cluster must be"
    place = Place("", "", second.mark if second is not None else resources, f"expected {facts}")
    yield _finding(OUT_OF_PLACE, job, message, place, (), f"list the base first, {facts} second, then the rest")


def _team_differs(job: str, kustomization: Kustomization, resources: Position, mend: Mender) -> Iterator[Finding]:
    parts = job.split("/")
    if len(parts) < 3 or parts[-3] != "jobs":
        return
    team, namespace = parts[-2], kustomization.text("namespace")
    remedy = put(mend.document.at("namespace"), team).saying(f"write namespace: {team}")
    if namespace is None:
        message = f"the job has no namespace, but its folder belongs to {team}"
        help = f"add namespace: {team} to kustomization.yaml"
        yield _finding(TEAM, job, message, Place("", "", resources), (), help, mend(remedy))
    elif namespace.value != team:
        message = f"the job is in namespace {namespace.value}, but its folder belongs to {team}"
        place = Place("", "", namespace.mark, f"expected {team}")
        help = f"write namespace: {team}, or move the folder to that team's"
        yield _finding(TEAM, job, message, place, (), help, mend(remedy.unsafe()))


def _unused(job: str, replayed: Replay, resources: Position, mend: Mender) -> Iterator[Finding]:
    file = f"{job}/job.yaml"
    names = [node.at(("metadata", "name")) for node in replayed.facts if _kind(node) == "TrainingJob"]
    if any(name is not None and name.mark is not None and name.mark.file == file for name in names):
        return
    patch = next((patch for patch in replayed.patches if patch.file == file), None)
    if patch is None:
        message = "kustomization.yaml does not take job.yaml, so the job runs with the defaults of its base"
        help = "add `patches: [{path: job.yaml, target: {kind: TrainingJob}, options: {allowNameChange: true}}]`"
        fix = mend(add(mend.document.at("patches"), _TAKES_JOB_FILE), help)
        yield _finding(UNUSED, job, message, Place("", "", resources), (), help, fix)
    elif patch.matched:
        message = "job.yaml may not change the name, so the job keeps the default name of its base"
        place = Place("", "", patch.entry or resources)
        help = "add `options: {allowNameChange: true}` to the patch"
        listed = mend.document.data.get("patches")
        paths = [each.get("path") if isinstance(each, dict) else "" for each in listed or ()]
        fix = None
        if "job.yaml" in paths:
            spot = mend.document.at("patches", paths.index("job.yaml"), "options", "allowNameChange")
            fix = mend(put(spot, True), help)
        yield _finding(UNUSED, job, message, place, (), help, fix)


def _misnamed(job: str, replayed: Replay, sources: Sources) -> Iterator[Finding]:
    folder = job.rpartition("/")[2]
    for node in replayed.facts:
        name = node.at(("metadata", "name"))
        if _kind(node) != "TrainingJob" or name is None or name.value == folder:
            continue
        if name.mark is None or name.mark.file != f"{job}/job.yaml":
            continue
        place = Place(f"TrainingJob/{name.value}", "metadata.name", name.mark, f"expected {folder}")
        help = f"write name: {folder}, or rename the folder to {name.value}"
        mend = Mender(node, sources)
        remedy = put(mend.document.at("metadata", "name"), folder).saying(f"write name: {folder}").unsafe()
        message = f"the job is called {name.value}, but its folder {folder}"
        yield _finding(MISNAMED, job, message, place, (), help, mend(remedy))


def _kind(node: Node) -> Any:
    kind = node.at(("kind",))
    return kind.value if kind is not None else None


def _and(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def _finding(
    rule: Rule,
    job: str,
    message: str,
    place: Place,
    related: tuple[Place, ...],
    help: str,
    fix: Fix | None = None,
) -> Finding:
    return Finding(rule.id, rule.name, rule.severity, message, place, related, help, (job,), fix=fix)
