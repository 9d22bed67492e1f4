"""Names of variables: misspelt, dead, or given twice."""

import re
from collections.abc import Iterator

from trainyard.catalogues.variables import Variable, nearest, variable
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.objects.remedy import Remedy, remove
from trainyard.rules.common.once import once
from trainyard.rules.common.settings import Assignment, assignments
from trainyard.rules.common.variable_remedies import renamed, unsafely, unset
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import entries, mapping, sequence

_READERS = {
    "TORCH_NCCL_": "PyTorch reads",
    "OFI_NCCL_": "the OFI plugin reads",
    "NCCL_": "NCCL and its known plugins read",
    "PET_": "torchrun reads",
    "GLOO_": "Gloo reads",
}
FAMILIES = tuple(_READERS)
"""Prefixes whose names the catalogue holds completely."""
_PARTS = ("UCX_", "OMPI_MCA_")
"""Prefixes of which it holds the well-known names: there only an `S` or a `D` too many or too few, or two letters that
changed places, are certainly a slip."""
_FEW = ("CUDA_", "DEEPSPEED_", "FI_", "OMP_", "PYTORCH_", "TORCHELASTIC_", "TORCH_")
"""Prefixes of which it holds the well-known names, and of which few are alike: there a letter that was dropped or
doubled is certainly a slip, too."""
_LOCAL = frozenset(
    {"NCCL_PLUGIN_PATH", "NCCL_INIT_SCRIPT", "NCCL_HOME", "NCCL_TEST_PATH", "NCCL_ISOLATION_TESTS", "NCCL_EXIT"}
)
"""Names that scripts of public recipes use for themselves."""
_READ_ELSEWHERE = (
    "NCCL_CHECKPOINT_",
    "NCCL_EP_",
    "NCCL_FASTRAK_",
    "NCCL_GIB_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_INSPECTOR_",
    "NCCL_PROFILE",
    "NCCL_RESHARD_",
    "NCCL_SHARP_",
    "NCCL_TEST",
    "NCCL_TUNER_",
    "NCCL_UCX_",
)
"""Beginnings of the names that plugins, tools and vendors' transports read, whose releases the catalogue does not
follow."""
_OF_SCRIPTS = re.compile(
    r"_(ARGS|BRANCH|BUILD_TYPE|CMD|DIR|FLAGS|HOME|IMAGE|LIB|LIBRARY|OPTS|PATH|REPO|ROOT|SCRIPT|TAG|URL|VERSION)\Z"
)
"""Ends of the names that images and scripts give to what they build and start, and no library to a setting."""
_PLUGINS = ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN")
_USES = r"\$[{(]?%s\b|[\"']%s[\"']"


@rule("ENV002", "near-miss-name", Severity.ERROR, needs=Workload, fix="safe")
@once
def near_miss_name(workload: Workload) -> Iterator[Problem]:
    """A variable's name is one or two letters away from one that a library reads.

    An unknown name is ignored without a message, so the setting never applies. Names that are far from every known one
    are not reported: they may belong to a script. Of CUDA, OpenMP, PyTorch, DeepSpeed and libfabric, which read more
    than the catalogue holds, a name counts as misspelt where one letter was dropped or doubled, or two changed places.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMOUT: "20"}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_IB_TIMEOUT: "20"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_PLUGIN_PATH: /opt/plugins}

    Source: https://github.com/NVIDIA/nccl/blob/master/src/misc/param.cc
    """
    for found in assignments(workload):
        meant = _meant(found.name)
        if meant is None or _is_used_by_script(workload, found.name):
            continue
        heir = variable(meant.instead) if meant.status and meant.instead else None
        said = f"{meant.name} is one that {meant.library} reads" if heir is None else f"{meant.name} is now {heir.name}"
        name = meant.name if heir is None else heir.name
        fix = renamed(found, name)
        yield Problem(
            f"{found.name} is read by nothing; {said}",
            _named(found).saying("ignored without a message"),
            help=f"rename it to {name}",
            fix=fix if heir is None else unsafely(fix),
        )


@rule("ENV006", "phantom-or-removed-name", Severity.WARNING, needs=Workload, fix="safe")
@once
def phantom_or_removed_name(workload: Workload) -> Iterator[Problem]:
    """A variable is set that no release reads, or that releases in use no longer read or advise.

    Recipes hand such names on for years. The effect that their author hoped for is missing: NCCL_TIMEOUT, for
    example, has never been read by any release, and the timeout of a collective stays what the process group says.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_TIMEOUT: "7200"}
    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_BACKEND: nccl}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {TORCH_NCCL_ASYNC_ERROR_HANDLING: "3"}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    for found in assignments(workload):
        facts = found.facts
        if facts is None or facts.unsure or not facts.status or _meant(found.name) is not None:
            continue
        yield Problem(
            f"{found.name} {_standing(facts)}",
            _named(found),
            help=f"use {facts.instead}" if facts.instead else "remove it",
            fix=_without_effect(found, facts),
        )


@rule("ENV032", "unread-name", Severity.INFO, needs=Workload)
@once
def unread_name(workload: Workload) -> Iterator[Problem]:
    """A variable has the prefix of a library, and no release of it reads that name.

    NCCL, PyTorch, torchrun, Gloo and the OFI plugin ignore what they do not know. The catalogue holds every name that
    a release of theirs reads, so the variable does nothing, unless a program of the image reads it. The rule is silent
    on names that the container's own script uses, on those of AMD's library, and on plugins outside the catalogue.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG_SUBSYSTEM: INIT}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_DEBUG_SUBSYS: INIT}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-nccl}
        data: {NCCL_FASTRAK_DUMP_COMM_STATS: "0"}

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    if _reads_more(workload):
        return
    for found in assignments(workload):
        readers = next((who for prefix, who in _READERS.items() if found.name.startswith(prefix)), None)
        if readers is None or found.facts is not None or _meant(found.name) is not None:
            continue
        own = found.name in _LOCAL or found.name.startswith(_READ_ELSEWHERE) or _OF_SCRIPTS.search(found.name)
        if not own and not _is_used_by_script(workload, found.name):
            gone = nearest(found.name, FAMILIES, _distance(found.name), ("removed",))
            yield Problem(
                f"{found.name} is not among the variables that {readers}",
                _named(found).saying("ignored without a message"),
                help="remove it, or look up what the setting is called"
                if gone is None
                else f"remove it: {gone.name}, which may be meant, {_standing(gone)}",
            )


@rule("ENV008", "duplicate-env", Severity.ERROR, needs=Workload, fix="safe")
@once
def duplicate_env(workload: Workload) -> Iterator[Problem]:
    """A container lists one environment variable twice.

    The last entry wins, the API server only warns, and an apply that removes one copy later can remove both: the
    setting then changes at an edit that has nothing to do with it.

    Bad:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: {$replace: [
          {name: NCCL_IB_TIMEOUT, value: "20"}, {name: NCCL_IB_TIMEOUT, value: "22"}]}}]}}}
    Good:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: NCCL_IB_TIMEOUT, value: "22"}]}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, env: [{name: NCCL_DEBUG, value: VERSION}]}]}}}

    Source: https://github.com/kubernetes/kubernetes/issues/58477
    """
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            first: dict[str, int] = {}
            for index, entry in entries(container.data.get("env")):
                name = entry.get("name")
                if not isinstance(name, str):
                    continue
                if name in first:
                    yield Problem(
                        f"{name} is listed twice in container {container.name}",
                        container.spot.below("env", index, label="this entry wins"),
                        related=(container.spot.below("env", first[name], label="and hides this one"),),
                        help="keep one of the two",
                        fix=remove(container.spot.below("env", first[name])).saying("remove the one that is hidden"),
                    )
                first.setdefault(name, index)


def _named(found: Assignment) -> Spot:
    """Where the name of a variable stands: its key in a ConfigMap, its item in a list of variables."""
    spot = found.spot
    if spot.path[-1:] == (found.name,):
        return Spot(spot.object, spot.path, spot.label, at_key=True)
    is_value = spot.path[-1:] == ("value",) and spot.path[-3:-2] == ("env",)
    return Spot(spot.object, spot.path[:-1], spot.label) if is_value else spot


def _without_effect(found: Assignment, facts: Variable) -> Remedy | None:
    """A name that nothing reads may go; one that never was any may become the one that was meant."""
    instead = variable(facts.instead) if facts.instead else None
    if not facts.instead:
        return unset(found) if facts.status != "deprecated" else unsafely(unset(found))
    meant = facts.status == "phantom" and instead is not None and found.value and not instead.refuses(found.value)
    return unsafely(renamed(found, facts.instead)) if meant else None


def _meant(name: str) -> Variable | None:
    """The variable that a misspelt name stands for. A phantom counts as misspelt where it is that close."""
    facts = variable(name)
    if name in _LOCAL or (facts is not None and facts.status != "phantom"):
        return None
    if name.startswith(FAMILIES):
        return nearest(name, FAMILIES, _distance(name))
    close = nearest(name, (*_PARTS, *_FEW), 1)
    if close is None:
        return None
    mistyped = name.startswith(_FEW) and _is_mistyped(name, close.name)
    return close if mistyped or _is_slip(name, close.name) else None


def _distance(name: str) -> int:
    """Slips after which a name still stands for another, in a family that the catalogue holds completely."""
    return 2 if len(name) >= 14 else 1


def _is_used_by_script(workload: Workload, name: str) -> bool:
    """Whether a command line or a file of the job uses the value itself."""
    uses = re.compile(_USES % (name, name))
    containers = (container for pod_set in workload.pod_sets for container in pod_set.containers)
    lines = [sequence(container.data.get(field)) for container in containers for field in ("command", "args")]
    files = [mapping(each.data.get("data")).values() for each in workload.of_kind("ConfigMap")]
    return any(uses.search(text) for texts in (*lines, *files) for text in texts if isinstance(text, str))


def _reads_more(workload: Workload) -> bool:
    """Whether the ranks may load a library or a plugin whose variables the catalogue does not hold."""
    limits = (name for pod_set in workload.pod_sets for each in pod_set.containers for name in each.limits)
    return "amd.com/gpu" in limits or any(found.value != "none" for found in assignments(workload, *_PLUGINS))


def _is_slip(name: str, meant: str) -> bool:
    shorter, longer = sorted((name, meant), key=len)
    return sorted(name) == sorted(meant) or longer.upper() in (f"{shorter}S".upper(), f"{shorter}D".upper())


def _is_mistyped(name: str, meant: str) -> bool:
    """Whether a name lacks a letter of another, or has one of them twice."""
    if len(name) < len(meant):
        return any(meant[:at] + meant[at + 1 :] == name and meant[at].isalpha() for at in range(len(meant)))
    twice = (at for at in range(1, len(name)) if name[at] == name[at - 1] and name[at].isalpha())
    return any(name[:at] + name[at + 1 :] == meant for at in twice)


def _standing(facts: Variable) -> str:
    release = f" since {facts.ended.removeprefix('after ')}" if facts.ended else ""
    if facts.status == "phantom":
        return "is read by no release"
    if facts.status == "removed":
        return f"is no longer read by {facts.library}{release}"
    return f"is deprecated by {facts.library}{release}"
