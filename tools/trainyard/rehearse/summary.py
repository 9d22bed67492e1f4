"""What a rehearsal did and saw, for people and for programs."""

from typing import Any

from trainyard.rehearse.disk.slow import size
from trainyard.rehearse.evidence import ending, evidence, not_seen, plural
from trainyard.rehearse.machine_lacks import not_judged
from trainyard.rehearse.rehearsal import RehearsalRecord
from trainyard.rehearse.runs import Run
from trainyard.report.escape import inert, visible

_USUAL_PODS = 2


def document(seen: RehearsalRecord) -> dict[str, Any]:
    """The rehearsal as plain data."""
    why, _ = not_judged(seen)
    return {
        "job": seen.loaded.name,
        "kind": seen.loaded.workload.object.kind,
        "pods": [plan.name for plan in seen.plans],
        "ranks": seen.loaded.ranks,
        "full_pods": seen.loaded.full.pods,
        "size_as_written": seen.loaded.size or None,
        "network": "strict" if seen.strict else "loopback",
        "bounds": seen.bounds,
        "substitutes": dict(seen.substitutes.told),
        "made_up": [f"{each.kind} {each.name}, key {each.key}" for each in seen.made_up],
        "empty_volumes": list(seen.invented),
        "not_checked": list(seen.unchecked),
        "seen": {each.what: each.seen for each in evidence(seen) if each.seen},
        "not_seen": {each.what: each.why for each in evidence(seen) if not each.seen},
        "not_judged": why or None,
        "saved_steps": list(seen.saved),
        "goes_on_from": seen.goes_on_from,
        "runs": [_run(run) for run in (seen.first, seen.second) if run is not None],
    }


def text(seen: RehearsalRecord) -> str:
    """The rehearsal in a few lines."""
    full = seen.loaded.full.pods
    smaller = f" of {full}" if full != len(seen.plans) else ""
    rows = [("pods", f"{len(seen.plans)}{smaller}, {seen.loaded.workload.object.kind}")]
    if seen.loaded.size and (full or 0) > _USUAL_PODS:
        rows.append(("size", f"as written: {seen.loaded.size}"))
    rows += seen.substitutes.told.items()
    rows += [("made up", f"{each.kind} {each.name}, key {each.key}") for each in seen.made_up]
    rows += [("empty", f"an empty folder stands in for {volume}") for volume in seen.invented]
    rows.append(("network", "namespaces, names and NetworkPolicies as in the cluster" if seen.strict else "loopback"))
    rows.append(("bounds", seen.bounds))
    rows += [("not checked", each) for each in seen.unchecked]
    rows += _told(seen.first)
    if seen.second is not None:
        rows.append(("started again", ending(seen.second)))
    rows += [("seen", f"{each.what}: {each.seen}") for each in evidence(seen) if each.seen]
    rows += [("not seen", f"{each.what}: {each.why}") for each in evidence(seen) if not each.seen]
    wide = max(len(what) for what, _ in rows)
    lines = [f"{visible(what):>{wide}}  {visible(told)}" for what, told in rows]
    return inert("\n".join([f"rehearsed {visible(seen.loaded.name)}", *lines]))


def note(seen: RehearsalRecord) -> str:
    """What a rehearsal without a finding comes to: that the job passes, and what of it nobody has seen."""
    missing = not_seen(seen)
    return f"1 job passes{f'; not seen: {missing}' if missing else ''}"


def _told(run: Run) -> list[tuple[str, str]]:
    rows = [("world sizes", ", then ".join(map(str, run.sizes)))] if len(run.sizes) > 1 else []
    rows += [("chaos", each.text) for each in run.chaos.done]
    rows += [("slow disk", _saves(claim, run)) for claim in dict.fromkeys(each.claim for each in run.saves)]
    if run.outcome.replaced:
        rows.append(("replaced", plural(run.outcome.replaced, "pod")))
    rows.append(("ended", f"{ending(run)} after {run.outcome.seconds:.1f} s, {_codes(run)}"))
    return rows


def _run(run: Run) -> dict[str, Any]:
    return {
        "ending": run.outcome.ending,
        "reason": run.outcome.reason,
        "seconds": round(run.outcome.seconds, 2),
        "ranks_joined": run.ranks,
        "joined_after_seconds": None if run.joined_after is None else round(run.joined_after, 2),
        "steps": sorted(run.observed.steps),
        "losses": {str(step): loss for step, loss in run.observed.losses.items()},
        "resumed_from": run.resumed_from,
        "world_size": run.observed.result.get("world_size"),
        "world_sizes": list(run.sizes),
        "pods_replaced": run.outcome.replaced,
        "chaos": [each.text for each in run.chaos.done],
        "slow_saves": [
            {"claim": each.claim, "folder": each.folder, "bytes": each.size, "seconds": round(each.seconds, 2)}
            for each in run.saves
        ],
        "exit_codes": [{"pod": each.pod, "codes": each.codes} for each in run.outcome.pods],
        "stacks": [{"pod": each.pod, "rank": each.rank, "at": each.at, "stack": each.whole} for each in run.stacks],
        "waiting": [
            {"pod": each.pod[1], "peer": each.peer, "port": each.port, "protocol": each.protocol,
             "state": each.state, "why": each.why}
            for each in run.waiting
        ],
    }  # fmt: skip


def _saves(claim: str, run: Run) -> str:
    mine = [each for each in run.saves if each.claim == claim]
    largest = max(mine, key=lambda each: each.size)
    took = f"{size(largest.size)} in {largest.seconds:.1f} s"
    return f"{plural(len(mine), 'save')} onto claim {claim}, the largest {took}"


def _codes(run: Run) -> str:
    counted = [each for each in run.outcome.pods if not each.wound_down]
    bad = [f"{each.pod} {name} {code}" for each in counted for name, code in each.codes.items() if code]
    if bad:
        return f"exit codes {', '.join(dict.fromkeys(bad))}"
    at_work = sum(not each.codes for each in counted)
    return f"{plural(at_work, 'pod')} still at work" if at_work else "all exit codes 0"
