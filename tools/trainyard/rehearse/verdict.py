"""What a rehearsal comes to: findings at the fields that are to blame, in the linter's form."""

from collections.abc import Iterator

from trainyard.findings.finding import Finding, Severity
from trainyard.lint.result import finding_of, found_by_rules
from trainyard.objects.objects import Spot
from trainyard.rehearse import rules
from trainyard.rehearse.blame import is_of_shared_memory
from trainyard.rehearse.disk.slow import PendingWrite, size
from trainyard.rehearse.machine_lacks import not_judged
from trainyard.rehearse.miscounted import miscounted
from trainyard.rehearse.network import Waiting
from trainyard.rehearse.probes import FIELDS, Condemned
from trainyard.rehearse.rehearsal import RehearsalRecord
from trainyard.rehearse.runs import Run
from trainyard.rehearse.volumes import SHARED_MEMORY
from trainyard.rehearse.worlds import worlds
from trainyard.rules.index import all_rules
from trainyard.rules.registry import Problem, Rule
from trainyard.workload.model import Container
from trainyard.workload.plain import mapping

TOLERANCE = 1e-3
"""Relative difference of two losses at one step that is still rounding."""
_BUS_ERRORS = (128 + 7, 256 - 7)
_NO_NAME = ("NXDOMAIN", "NODATA")
_MOST_RANKS_TOLD = 8
_LONGEST_QUOTE = 200
_SEPARATE = "each of them trains the whole by itself, and all write the same checkpoints: give the launcher its peers"
_OF_MEETING = ("RDV", "NET", "MPI")
"""Families of rules about how ranks meet, which is where most jobs end that do not start."""
Told = tuple[Rule, Problem]


def verdict(seen: RehearsalRecord) -> tuple[Finding, ...]:
    """The findings of a rehearsal; none where nothing is wrong with what was seen, or nothing can be said."""
    told = list(_of_full_size(seen))
    if not not_judged(seen)[0]:
        told += list(_of_run(seen, seen.first)) or list(_of_second(seen))
    lint = _linted(seen) if told else ""
    found = []
    for rule, problem in told:
        whole = Problem(problem.message, problem.spot, problem.related, "; ".join(filter(None, [problem.help, lint])))
        found.append(finding_of(rule, whole, seen.loaded.origin, seen.loaded.name))
        lint = ""
    return tuple(found)


def _of_full_size(seen: RehearsalRecord) -> Iterator[Told]:
    if (found := seen.refusal) is not None:
        message = f"as it is written, with {seen.loaded.full_ranks} ranks, the trainer does not start: {found.message}"
        yield rules.AT_FULL_SIZE, Problem(message, found.spot)


def _of_run(seen: RehearsalRecord, run: Run) -> Iterator[Told]:
    outcome = run.outcome
    grace = [each for each in outcome.pods if each.killed_in_grace and each.disrupted]
    for each in grace[:1]:
        spot = _pod_spot(seen, each.pod, "terminationGracePeriodSeconds")
        seconds = next(plan.grace for plan in seen.plans if plan.name == each.pod)
        message = f"{each.pod} was told to end, was still at work {seconds:g} s later, and was killed"
        if each.saving is None:
            helped = "give it the time that a save takes, and let SIGTERM reach it"
        else:
            message = f"{message}: {_too_slow(each.saving)}"
            helped = "give it the time that a save takes on its disk, or a faster disk"
        yield rules.KILLED, Problem(message, spot, help=helped)
    ended = [(each.pod, *wrong) for each in outcome.pods for wrong in each.condemned]
    for pod, container, wrong in ended[:1]:
        yield rules.PROBED, _probed(seen, pod, container, wrong)
    if outcome.ending == "succeeded" or (outcome.ending == "timeout" and run.moves and not seen.trains):
        if not grace and not ended:
            yield from _of_success(seen, run)
        return
    if ended:
        return
    if (full := _shared_memory(seen, run)) is not None:
        yield full
        return
    counted = None if run.chaos.done else miscounted(seen.loaded.workload)
    if counted is None and (outcome.ending in ("hangs", "timeout") or not run.observed.blame.errors or _blocked(run)):
        connections = list(_of_waiting(seen, run))
        if connections:
            yield from connections
            return
    if run.chaos.done:
        yield rules.BROKEN, Problem(_broken(run), _main_spot(seen), help=_said(run))
    elif outcome.ending in ("hangs", "timeout"):
        message, spot = _hang(seen, run)
        yield rules.HANGS, Problem(message, spot, help=_standing(run))
    else:
        failure = _failure(seen, run)
        if counted is not None:
            failure = Problem(f"{counted[0]}; {failure.message}", counted[1], help=failure.help)
        yield rules.FAILS, failure


def _probed(seen: RehearsalRecord, pod: str, name: str, wrong: Condemned) -> Problem:
    """What a probe that ended a container asked, and when."""
    container = _container(seen, pod, name)
    spot = seen.loaded.workload.object.at() if container is None else container.spot.below(FIELDS[wrong.kind])
    times = f"{wrong.probe.failures} times in a row" if wrong.probe.failures > 1 else "once"
    message = f"the {wrong.kind} probe of {name} in {pod} ({wrong.probe.text}) failed {times}"
    helped = "a probe that can fail while a job starts, waits or saves ends training that is well; leave it out"
    return Problem(f"{message}, and ended it {wrong.after:.0f} s after its start", spot, help=helped)


def _too_slow(held: PendingWrite) -> str:
    """Why its grace was shorter than its save."""
    told = f"in {held.seconds:.1f} s its save had brought {size(held.written)} onto claim {held.claim}"
    return f"{told}, which takes {size(held.rate)} a second, and was not over"


def _of_success(seen: RehearsalRecord, run: Run) -> Iterator[Told]:
    if not run.chaos.done:
        yield from _of_meeting(seen, run)
    if run.chaos.saved and run.outcome.replaced and not run.resumed_from and (seen.trains or run.began_again):
        message = f"after {_events(run)} the run began again at its first step"
        yield rules.UNSAVED, Problem(message, _main_spot(seen))


def _of_meeting(seen: RehearsalRecord, run: Run) -> Iterator[Told]:
    """Ranks that train in another world than the job has."""
    expected, met = seen.loaded.ranks, worlds(run.joined)
    told, trained = run.observed.result.get("world_size"), [pod for pod in run.observed.by_pod if pod in _pods(seen)]
    roles = {_pods(seen).get(pod) for world in met for pod in world.pods}
    if len(met) > 1 and len(roles) == 1:
        sizes = ", ".join(str(each.size) for each in met)
        job = f", and the job has {expected} in one" if expected else ""
        message = f"its pods met in {len(met)} separate worlds, of {sizes} ranks{job}"
        yield rules.SEPARATE, Problem(message, _main_spot(seen), help=_SEPARATE)
        return
    if not met and not told and not seen.trains and len(trained) > 1 and (expected or 0) > 1:
        message = f"{len(trained)} pods took steps, and no rank of them joined another: the job has {expected} ranks"
        yield rules.SEPARATE, Problem(message, _main_spot(seen), help=_SEPARATE)
        return
    got = told if isinstance(told, int) else max((each.size for each in met), default=0)
    if expected and got and got != expected:
        message = f"{got} {'rank' if got == 1 else 'ranks'} trained together, but the job has {expected}"
        helped = "each pod trains alone, or a GPU has no rank" if got < expected else "several ranks share a GPU"
        yield rules.MISSING, Problem(message, _count_spot(seen), help=helped)


def _pods(seen: RehearsalRecord) -> dict[str, str]:
    """Roles of the job's pods by the names and host names that they go by."""
    found = {plan.name: plan.member.pod_set.role for plan in seen.plans}
    return found | {plan.member.hostname[:63]: plan.member.pod_set.role for plan in seen.plans}


def _of_second(seen: RehearsalRecord) -> Iterator[Told]:
    first, second = seen.first, seen.second
    if first.outcome.ending == "succeeded" and seen.must_save and not seen.saved:
        yield rules.UNSAVED, Problem("the run left no checkpoint in a volume", _main_spot(seen))
    if second is None:
        return
    failed = list(_of_run(seen, second))
    if failed:
        yield from failed
        return
    step = seen.goes_on_from
    if step not in second.observed.resumed_from:
        message = f"started again, the run did not go on from the checkpoint of step {step}"
        yield rules.UNSAVED, Problem(message, _main_spot(seen))
        return
    for number, loss in second.observed.losses.items():
        before = first.observed.losses.get(number)
        if before is not None and abs(loss - before) > TOLERANCE * abs(before):
            message = f"step {number} had loss {before:.5g}, and {loss:.5g} when the run went on from step {step}"
            yield rules.DIFFERS, Problem(message, _main_spot(seen))
            return


def _blocked(run: Run) -> bool:
    """Whether what failed, failed for want of a connection."""
    words = ["timed out", "timeout", "TimeoutError", "Name or service", "name resolution", "unreachable", "refused"]
    words += ["DistNetworkError", "DistStoreError", "could not be established", "Could not resolve", "Connection"]
    return any(word in text for _, text in run.observed.blame.errors for word in words)


def _of_waiting(seen: RehearsalRecord, run: Run) -> Iterator[Told]:
    names = [each for each in run.waiting if each.protocol == "DNS"]
    dialled = [each for each in run.waiting if each.protocol != "DNS"]
    for each in names[:1]:
        message = f"{each.pod[1]} asks for {each.peer}, which does not resolve ({each.state}): {each.why}"
        yield rules.NO_NAME, Problem(message, _naming(seen, each), help=_standing(run))
    if names:
        return
    refused_only = all(each.state == "REFUSED" for each in dialled)
    for each in [each for each in dialled if each.state != "REFUSED" or refused_only][:1]:
        message = f"{each.pod[1]} dials {each.peer} on port {each.port}, and it stays {each.state}: {each.why}"
        yield rules.DROPPED, Problem(message, _dialling(seen, each), help=_standing(run))


def _shared_memory(seen: RehearsalRecord, run: Run) -> Told | None:
    codes = [(each.pod, name) for each in run.outcome.pods for name, code in each.codes.items() if code in _BUS_ERRORS]
    said = [(pod, "") for pod, text in [*run.observed.blame.errors, *run.observed.seen] if is_of_shared_memory(text)]
    for pod, _ in [*codes, *said]:
        size, spot = _shared_memory_of(seen, pod)
        message = f"{pod} filled its /dev/shm of {size}"
        return rules.SHARED_MEMORY, Problem(message, spot, help="mount a larger emptyDir of medium Memory there")
    return None


def _shared_memory_of(seen: RehearsalRecord, pod: str) -> tuple[str, Spot]:
    """Size of a pod's /dev/shm as written, and the field that says so."""
    plan = next(plan for plan in seen.plans if plan.name == pod)
    volumes = plan.member.pod_set.template.below("spec", "volumes")
    for mount in plan.containers[0].mounts:
        if mount.path == SHARED_MEMORY:
            size = mapping(mapping(plan.volumes.get(mount.volume)).get("emptyDir")).get("sizeLimit")
            return str(size or "no limit"), volumes.below(list(plan.volumes).index(mount.volume))
    return "64Mi, since nothing is mounted there", plan.containers[0].source.spot


def _failure(seen: RehearsalRecord, run: Run) -> Problem:
    """The first pod that named an error, else the first that ended with one."""
    bad, said = run.failed, run.said
    ended = next((each for each in bad if said is not None and each.pod == said[0]), bad[0] if bad else None)
    if ended is None:
        return Problem(run.outcome.reason, seen.loaded.workload.object.at())
    name, code = next((name, code) for name, code in ended.codes.items() if code)
    container = _container(seen, ended.pod, name)
    words = f": {said[1][:_LONGEST_QUOTE]}" if said is not None else ""
    spot = container.spot.below("command") if container is not None else seen.loaded.workload.object.at()
    return Problem(f"{name} of {ended.pod} ended with {code}{words}", spot, help=run.outcome.reason)


def _hang(seen: RehearsalRecord, run: Run) -> tuple[str, Spot]:
    expected = seen.loaded.ranks
    joined = f"{run.ranks} of {expected} ranks joined" if expected else f"{run.ranks} ranks joined"
    where = f"after step {run.observed.reached}" if run.observed.taken else "before the first step"
    stands = "stands still" if run.outcome.ending == "hangs" else "was not over in time,"
    message = f"the job {stands} {where}, {joined}: {run.outcome.reason}"
    if (counted := miscounted(seen.loaded.workload)) is not None:
        return f"{message}; {counted[0]}", counted[1]
    return message, _main_spot(seen)


def _broken(run: Run) -> str:
    ended = {"failed": "failed", "hangs": "hung", "timeout": "was not over in time"}[run.outcome.ending]
    return f"after {_events(run)} the job {ended}: {run.outcome.reason}"


def _said(run: Run) -> str:
    """Where ranks stand, and the first error of any pod."""
    said = run.observed.blame.errors[0] if run.observed.blame.errors else None
    words = f"{said[0]} said: {said[1][:_LONGEST_QUOTE]}" if said is not None else ""
    return "; ".join(filter(None, [words, _standing(run)]))


def _events(run: Run) -> str:
    return ", ".join(each.text for each in run.chaos.done)


def _standing(run: Run) -> str:
    ranks = [stack for stack in run.stacks if stack.rank.isdigit()] or list(run.stacks)
    told = [f"{f'rank {each.rank}' if each.rank.isdigit() else each.pod} stands at {each.at}" for each in ranks]
    more = f" and {len(told) - _MOST_RANKS_TOLD} more" if len(told) > _MOST_RANKS_TOLD else ""
    return ", ".join(dict.fromkeys(told[:_MOST_RANKS_TOLD])) + more


def _linted(seen: RehearsalRecord) -> str:
    """What the linter calls an error in the same job, which is the likely cause."""
    found = found_by_rules(all_rules(), seen.loaded.unit)
    errors = [(rule.id, problem.message) for rule, problem in found if rule.severity is Severity.ERROR]
    errors.sort(key=lambda error: error[0][:3] not in _OF_MEETING)
    return f"the linter says {errors[0][0]}: {errors[0][1]}" if errors else ""


def _container(seen: RehearsalRecord, pod: str, name: str) -> Container | None:
    for plan in seen.plans:
        if plan.name == pod:
            every = [*plan.containers, *plan.init]
            found = next((each for each in every if each.name == name), every[0])
            return found.source
    return None


def _main_spot(seen: RehearsalRecord) -> Spot:
    for pod_set in seen.loaded.workload.pod_sets:
        main = pod_set.main()
        if main is not None and main.launch is not None:
            return main.launch.spot
    return seen.loaded.workload.object.at()


def _count_spot(seen: RehearsalRecord) -> Spot:
    """Where mpirun is told how many ranks to start, else the launcher."""
    mains = [pod_set.main() for pod_set in seen.loaded.workload.pod_sets]
    told = [main.launch.option("np") for main in mains if main is not None and main.launch is not None]
    return next((np.spot for np in told if np is not None), _main_spot(seen))


def _pod_spot(seen: RehearsalRecord, pod: str, field: str) -> Spot:
    plan = next((plan for plan in seen.plans if plan.name == pod), None)
    if plan is None:
        return seen.loaded.workload.object.at()
    return plan.member.pod_set.template.below("spec", field)


def _naming(seen: RehearsalRecord, waiting: Waiting) -> Spot:
    """The field that holds a name: a variable's, else a word's, else the pods' subdomain."""
    label = waiting.peer.partition(".")[0]
    names = [waiting.peer, ".".join(waiting.peer.split(".")[:2]), label]
    for plan in sorted(seen.plans, key=lambda plan: plan.name != waiting.pod[1]):
        for each in (*plan.containers, *plan.init):
            for name in names:
                variables = [held for held in each.source.env.values() if held.value and name in held.value]
                if variables:
                    return min(variables, key=lambda held: len(held.value or "")).spot
                for word in each.source.words:
                    if name in word.text:
                        return word.spot
    return _pod_spot(seen, waiting.pod[1], "subdomain")


def _dialling(seen: RehearsalRecord, waiting: Waiting) -> Spot:
    """The rule that comes nearest to letting it through, else the policy that closes it.

    Where none does, the variable or word that holds the port.
    """
    named, path = waiting.rule or (None, ("spec",))
    for policy in seen.loaded.workload.of_kind("NetworkPolicy"):
        if policy.name == named or (named is None and policy.name in waiting.policies):
            return policy.at(*path)
    port = str(waiting.port)
    for plan in sorted(seen.plans, key=lambda plan: plan.name != waiting.pod[1]):
        for each in (*plan.containers, *plan.init):
            for held in each.source.env.values():
                if held.value and (held.value == port or held.value.endswith(f":{port}")):
                    return held.spot
            for word in each.source.words:
                if word.text == port or word.text.endswith((f":{port}", f"={port}")):
                    return word.spot
    return _main_spot(seen)
