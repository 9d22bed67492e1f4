"""From targets to findings: the one place where the stages meet."""

import gc
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import bounded, codec, limits
from trainyard.applied import entry_of, entry_targets, told_by_no_job
from trainyard.bounded import Ended, Here
from trainyard.brief import brief, told_briefly
from trainyard.cache import LINK, Cache, Digests, text_digest
from trainyard.commandline import TRACEBACK
from trainyard.discover import KUSTOMIZATION_NAMES, STDIN, Discovery, Target, TargetKind, has_kustomization
from trainyard.errors import Fault, InputError, UsageError
from trainyard.exempt import LIST, exemptions
from trainyard.fetched import fetched_otherwise
from trainyard.fieldpath import format_path, lookup
from trainyard.finding import BROKE, Finding, NotJudged, Place, Position, Severity
from trainyard.masked import SECRET, cleaned, without
from trainyard.objects import Spot
from trainyard.origin import Origin
from trainyard.outcome import Judgement, Outcome, conclude
from trainyard.room import overbooked
from trainyard.rules.registry import Problem, Rule, declare
from trainyard.sources import Sources, decoded
from trainyard.synced import altered_lists, synced_otherwise, unsynced
from trainyard.unit import Unit

if TYPE_CHECKING:
    from trainyard.changed import Range
    from trainyard.cluster import Platforms
    from trainyard.render import Rendering
    from trainyard.suppress import Suppression

BAD_INPUT = declare(
    "INP001",
    "bad-input",
    Severity.ERROR,
    """The input cannot be judged, so nothing is said about what it would do.

    Broken YAML, a base that does not exist, a patch that hits nothing, a file that is too large or cannot be read, a
    kustomization that reaches out of the repository or onto the network. Also what is judged only in part: a key that
    stands twice, of which the last counts; more findings of one rule than anybody reads; more objects, memory or time
    than a job needs. The exit code is 2, and all other jobs are judged.

    Bad:
        # kustomization.yaml
        patches:
        - path: patch.yaml
          target: {kind: Jobb}

    Good:
        # kustomization.yaml
        patches:
        - path: patch.yaml
          target: {kind: Job}

    Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
    """,
)

LINTER_BROKE = declare(
    BROKE,
    "linter-broke",
    Severity.ERROR,
    """The linter broke on this input, so it is not known whether it would train.

    A rule that raises, a renderer that ends: this is a fault of the linter or of the machine, not of the job. The exit
    code is 3, and all other jobs are judged. With LINT_JOBS_TRACEBACK=1 standard error shows where it broke.

    Bad:
        # lint-jobs
        error: jobs/research/llama-8b-sft: RDV004 broke: ValueError: 12

    Good:
        # lint-jobs
        1 job passes
    """,
)


Progress = Callable[[str], None]

_GARBAGE = 200_000
"""New objects after which Python looks for garbage: those of a few jobs."""


def lint(
    root: Path,
    found: Discovery,
    *,
    changed: "str | Range | None" = None,
    shard: tuple[int, int] = (1, 1),
    use_cache: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
    stdin: bytes = b"",
) -> Outcome:
    """Judge every target. Input errors are findings too, with `input_error` set, and stop their own target only.

    Of `shard` (i, n), from 1, every n-th target is judged; what is about no target is told by the first.
    UsageError where git does not know `changed`; Fault where a program that is needed is missing or breaks.
    """
    # What a job leaves behind is freed as its last name goes. Cycles are few, and looking for them often is dear.
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    sources = Sources(root)
    digests = Digests(root)
    run = _Run(root, sources, digests, Cache(root, digests) if use_cache else None, workers, progress)
    applied = entry_targets(root) if found.whole else []
    named = {target.name for target in found.targets}
    everything = [*found.targets, *(target for target in applied if target.name not in named)]
    targets, errors = everything, list(found.errors)
    if any(target.name == STDIN for target in targets):
        try:
            sources.add(STDIN, decoded(stdin, STDIN))
        except InputError as error:
            errors.append(error)
            targets = [target for target in targets if target.name != STDIN]
    number, count = shard
    targets = targets[number - 1 :: count]
    others = {target.name for target in everything} - {target.name for target in targets}
    errors = errors if number == 1 else []
    edits: list[Finding] = []
    if changed is not None:
        from trainyard.changed import changed_files, resolve
        from trainyard.edited import edited_jobs

        range = resolve(root, changed) if isinstance(changed, str) else changed
        differing = changed_files(root, range)
        if not run.is_linter(differing):
            targets = [target for target in targets if run.touched(target, differing)]
        if found.whole:
            errors = [error for error in errors if _left_by(root, error.file, differing)]
        jobs = [target.name for target in targets if target.kind is TargetKind.JOB]
        edits = edited_jobs(root, range, jobs, sources)
    folders = [target.name for target in found.targets if target.kind is TargetKind.JOB]
    if changed is not None:
        folders = synced_otherwise(folders, differing)
    beside = unsynced(root, folders, sources, whole=found.whole and number == 1)
    beside += altered_lists(root, [target.name for target in targets], sources)
    if count > 1:
        beside = [finding for finding in beside if others.isdisjoint(finding.jobs)]
    if found.whole and number == 1:
        jobs = [target.name for target in everything if target.kind is not TargetKind.MANIFESTS]
        beside += fetched_otherwise(root, jobs, sources)
    if found.whole:
        jobs = [target.name for target in targets if target.kind is TargetKind.JOB]
        beside += overbooked(root, jobs, sources, changed=changed is not None)
    judgements = told_by_no_job(run.judge(targets), {target.name for target in applied}, sources)
    exempt = exemptions(root, sources)
    beside += exempt.findings
    unread = [input_finding(error, error.file) for error in (*errors, *exempt.errors)]
    whole = found.whole and changed is None and count == 1 and not errors
    uncounted = {target.name for target in applied}
    outcome = conclude(sources, unread + edits + beside, judgements, whole, uncounted, exempt.entries)
    if not outcome.units:
        none = "there is no job yet" if changed is None else f"no job reads what changed since {range.text}"
        return replace(outcome, note=none)
    return outcome


def input_finding(error: InputError, unit: str) -> Finding:
    """The finding that stands for input which cannot be judged."""
    place = Place("", "", Position(error.file, error.line, error.column))
    rule = BAD_INPUT
    return Finding(
        rule.id, rule.name, rule.severity, error.message, place, help=error.help, jobs=(unit,), input_error=True
    )


def broken_finding(why: str, unit: str) -> Finding:
    """The finding that stands for a fault of the linter."""
    rule = LINTER_BROKE
    place = Place("", "", Position(unit, 0, 0))
    return Finding(rule.id, rule.name, rule.severity, why, place, jobs=(unit,), input_error=True)


def _ended_finding(ended: Ended, unit: str) -> Finding:
    """The finding that stands for a target at which the process that judges came to its end."""
    at = f" (at {ended.at})" if ended.at else ""
    return (
        input_finding(InputError(ended.why + at, unit), unit)
        if ended.too_much
        else broken_finding(ended.why + at, unit)
    )


class _Run:
    """The state of one run: what was read, and how far it is."""

    def __init__(
        self,
        root: Path,
        sources: Sources,
        digests: Digests,
        cache: Cache | None,
        workers: int | None,
        progress: Progress | None,
    ) -> None:
        self.root = root
        self.sources = sources
        self.digests = digests
        self.cache = cache
        self.workers = workers
        self.progress = progress
        self.text_digests: dict[str, str] = {}
        self.clear: dict[str, bool] = {}
        """Of what results have in common, by name: True where no file that differs is near it."""
        self.begin: Callable[[Target, str], None]
        """Says which target is judged from here, and what is done first."""
        self.doing: Callable[[str], None]
        """Says what else is done there."""

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule, imported while the first folders are rendered."""
        from trainyard.rules.index import all_rules

        return all_rules()

    @cached_property
    def platforms(self) -> "Platforms":
        """The platforms of the clusters that jobs land on."""
        from trainyard.cluster import Platforms

        return Platforms(self.root, self.sources, self.cache, self._steady)

    def touched(self, target: Target, differing: frozenset[str]) -> bool:
        """True where a target reads one of the files, or cannot be followed."""
        from trainyard.changed import ways_to
        from trainyard.cluster import platforms_named
        from trainyard.kustomization import files_here

        if target.name == STDIN or any(f"{target.name}/{name}" in differing for name in _ALWAYS_READ):
            return True
        if self._reads_none(target, differing):
            return False
        if target.kind is TargetKind.MANIFESTS:
            return not differing.isdisjoint(ways_to(self.root, target.files))
        try:
            files = files_here(self.root, target.name, self.sources) | {f"{target.name}/job.yaml"}
            for folder in platforms_named(self.sources, files):
                if any(file.startswith(f"{folder}/") for file in differing) or _list_of(folder) in differing:
                    return True
                if has_kustomization(self.root / folder):
                    files |= files_here(self.root, folder, self.sources)
        except InputError:
            return True
        return not differing.isdisjoint(ways_to(self.root, files))

    def _reads_none(self, target: Target, differing: frozenset[str]) -> bool:
        """True where an earlier run's verdict holds and none of the files is near what it read: nobody has to look."""
        entry = None if self.cache is None else self.cache.entry(_key(target))
        if entry is None or any(digest.startswith(LINK) for digest in entry.own.values()):
            return False
        if entry.common.name not in self.clear:
            self.clear[entry.common.name] = _is_clear(entry.common.reads, differing)
        own = f"{target.name}/"
        return self.clear[entry.common.name] and not any(
            file in entry.own or file.startswith(own) for file in differing
        )

    def is_linter(self, differing: frozenset[str]) -> bool:
        """True where what judges is itself among the files."""
        own = Path(__file__).resolve().parents[2] == self.root
        return own and any(file.startswith(("tools/trainyard/", "tools/go/", "schemas/")) for file in differing)

    def judge(self, targets: Sequence[Target]) -> list[Judgement]:
        """One judgement a target, in their order."""
        done = {target.name: kept for target in targets if (kept := self._kept(target)) is not None}
        fresh = [target for target in targets if target.name not in done]
        try:
            while fresh:
                for target, made in self._apart(fresh):
                    if made is not None:
                        done[target.name] = made
                        self._tell(f"judged {len(done)} of {len(targets)}")
                fresh = [target for target in fresh if target.name not in done]
        finally:
            self._tell("")
        return [done[target.name] for target in targets]

    def _apart(self, targets: Sequence[Target]) -> Iterator[tuple[Target, Judgement | None]]:
        """Judgements of a process that is ended where a target asks for too much. None where its platform did."""
        number = {target.name: item for item, target in enumerate(targets)}

        def work(items: Sequence[int], here: Here) -> Generator[tuple[int, bytes], None, None]:
            self.begin = lambda target, what: here.begin(number[target.name], what)
            self.doing = here.doing
            for made in self._judgements([targets[item] for item in items]):
                sent = codec.packed(made.findings, made.suppressions, made.complete, made.not_judged)
                if len(sent) > limits.JUDGEMENT_BYTES:
                    most = f"findings take more than {limits.JUDGEMENT_BYTES >> 20} MiB"
                    sent = codec.packed(
                        [input_finding(InputError(most, made.target.name), made.target.name)], (), False
                    )
                yield number[made.target.name], sent

        for item, answer in bounded.each(len(targets), work):
            target = targets[item]
            if not isinstance(answer, Ended):
                findings, suppressions, complete, not_judged = codec.unpacked(answer)
                yield target, Judgement(target, findings, suppressions, complete, not_judged=not_judged)
            elif _OF_A_PLATFORM.match(f"{answer.at}/"):
                self.platforms.refuse(answer.at, InputError(answer.why, answer.at))
                yield target, None
            else:
                yield target, Judgement(target, (_ended_finding(answer, target.name),), (), complete=False)

    def _tell(self, text: str) -> None:
        if self.progress:
            self.progress(text)

    def _kept(self, target: Target) -> Judgement | None:
        """What an earlier run found, if that still holds."""
        if self.cache is None or target.name == STDIN:
            return None
        kept = self.cache.get(_key(target))
        if kept is None:
            return None
        try:
            findings, suppressions, not_judged = codec.decode(kept)
        except (ValueError, KeyError, TypeError):
            return None
        return Judgement(target, findings, suppressions, complete=True, cached=True, not_judged=not_judged)

    def _judgements(self, targets: Sequence[Target]) -> Iterator[Judgement]:
        """One target after another, so that one unit is in memory at a time. Not in the order of the targets."""
        for result, made in self._units(targets):
            if made is not None:
                self._judge(result, *made)
            yield self._finish(result)
            self.sources.forget(result.target.name)

    def _judge(self, result: "_Result", unit: Unit, origin: Origin) -> None:
        from trainyard import schema
        from trainyard.unjudged import gaps

        found: list[tuple[Rule, Problem]] = []
        with result.failing():
            for rule, problem in found_by_rules(self.rules, unit, self.doing):
                result.add(rule, problem, origin, self.sources)
                found.append((rule, problem))
            self.doing("schemas")
            for refused in schema.check([unit]):
                spot = Spot(refused.object, refused.path, at_key=refused.at_key)
                at = origin.position(spot.object, spot.path) if refused.is_missing and result.completed else None
                if at is not None and at.file in result.completed:
                    result.leave("required fields", result.completed[at.file], _place(spot, origin))
                    continue
                problem = Problem(refused.message, spot, (), refused.help, refused.fix, refused.severity)
                result.add(self.rules[refused.rule_id], problem, origin, self.sources)
                found.append((self.rules[refused.rule_id], problem))
            self.doing("what was not judged")
            for gap in gaps(unit, found):
                result.leave(gap.what, gap.why, _place(gap.spot, origin))

    def _units(self, targets: Sequence[Target]) -> "Iterator[tuple[_Result, tuple[Unit, Origin] | None]]":
        folders = []
        for target in targets:
            if target.kind is not TargetKind.MANIFESTS:
                folders.append(target)
                continue
            result = _Result(target)
            self.begin(target, "")
            yield result, self._manifests(result)
        yield from self._rendered(folders)

    def _manifests(self, result: "_Result") -> "tuple[Unit, Origin] | None":
        from trainyard.kustomized import depends_on
        from trainyard.manifests import read_manifests

        target = result.target
        if target.kind is not TargetKind.MANIFESTS:
            return None
        for file in target.files:
            try:
                self.sources.documents(file)
            except InputError as error:
                result.fail(error)
        if result.findings:
            return None
        with result.failing():
            files = self._objects_of(result)
            result.reads = {file: text_digest(self.sources.text(file)) for file in target.files}
            if target.name != STDIN:
                result.reads |= {each: self.digests.of(each) for file in target.files for each in depends_on(file)}
            if not files:
                return None
            made = read_manifests(target.name, files, self.sources)
            _check_number(made[0])
            return made
        return None

    def _objects_of(self, result: "_Result") -> list[str]:
        """The files of a target that hold objects of their own. What the others are, the result is told."""
        from trainyard.kustomized import completed_by, patched_by

        target = result.target
        if target.name == STDIN:
            return list(target.files)
        files = []
        for file in target.files:
            if why := patched_by(self.sources, file):
                result.leave(os.path.basename(file), why, Place("", "", Position(file, 1, 1)))
                continue
            files.append(file)
            if why := completed_by(self.sources, file):
                result.completed[file] = why
        return files

    def _rendered(self, targets: Sequence[Target]) -> "Iterator[tuple[_Result, tuple[Unit, Origin] | None]]":
        """Units of folders. What each may ask for is checked before it is rendered, the rest while others are."""
        from trainyard.render import render

        asked: deque[_Result | str] = deque()
        """What the renderer was given and has not answered: results, and before them the platforms that they need."""
        refused: list[_Result] = []

        def arrived() -> None:
            job = next(each for each in asked if isinstance(each, _Result))
            self.begin(job.target, "" if asked[0] is job else str(asked[0]))

        folders = self._folders(targets, asked, refused)
        for rendering in render(self.root, folders, workers=self.workers, arrived=arrived):
            result = asked.popleft()
            if isinstance(result, str):
                self.platforms.keep(result, rendering)
            else:
                yield result, self._unit(result, rendering)
        yield from ((result, None) for result in refused)

    def _folders(
        self, targets: Sequence[Target], asked: "deque[_Result | str]", refused: "list[_Result]"
    ) -> Iterator[str]:
        """Folders to render, each platform before the first job on it."""
        from trainyard.kustomization import load_graph

        for target in targets:
            result = _Result(target)
            self.begin(target, "")
            with result.failing():
                files = load_graph(self.sources, target.name).files
            if result.findings:
                refused.append(result)
                continue
            for folder in self.platforms.to_render(files) if entry_of(target.name) is None else ():
                asked.append(folder)
                yield folder
            asked.append(result)
            yield target.name

    def _unit(self, result: "_Result", rendering: "Rendering") -> tuple[Unit, Origin] | None:
        from trainyard.rendered import Prepared

        with result.failing():
            prepared = Prepared(self.sources, result.target)
            result.findings = prepared.findings
            if not prepared.may_render:
                return None
            if rendering.error.startswith("stopped the renderer"):
                result.findings.append(broken_finding(rendering.error, result.target.name))
                return None
            unit, origin = prepared.unit(rendering)
            result.reads = rendering.reads
            _check_number(unit)
            return self._on_platform(result, unit, origin)
        return None

    def _on_platform(self, result: "_Result", unit: Unit, origin: Origin) -> tuple[Unit, Origin]:
        """A unit with what its cluster holds. Where that is broken, the unit is judged as if nobody knew."""
        if entry_of(unit.name) is not None:  # these come before the platform
            return unit, origin
        try:
            result.reads = {**self.platforms.reads(unit), **result.reads}
            return self.platforms.under(unit, origin)
        except InputError as error:
            result.fail(error)
            return unit, origin

    def _finish(self, result: "_Result") -> Judgement:
        from trainyard.consequences import without_consequences
        from trainyard.suppress import find

        told = (told_briefly(finding) for finding in without_consequences(result.findings))
        findings = [without(finding, result.secrets) for finding in told]
        not_judged = tuple(replace(each, why=cleaned(brief(each.why), result.secrets)) for each in result.not_judged)
        files = {finding.place.position.file for finding in findings if finding.place.position}
        files |= {file for file, digest in result.reads.items() if len(digest) == _DIGEST_LENGTH}
        suppressions: list[Suppression] = []
        for file in sorted(files):
            try:
                suppressions += find(file, text) if "lint-jobs:" in (text := self._text(file)) else ()
            except InputError as error:
                findings.append(input_finding(error, result.target.name))
        target = result.target
        complete = bool(result.reads) and not any(finding.input_error for finding in findings)
        if self.cache is not None and complete and target.name != STDIN and self._steady(result.reads):
            listings = [target.name] if target.kind is TargetKind.JOB else []
            kept = codec.encode(findings, suppressions, not_judged)
            self.cache.put(_key(target), result.reads, listings, kept)
        return Judgement(target, tuple(findings), tuple(suppressions), complete, not_judged=not_judged)

    def _text(self, file: str) -> str:
        try:
            return self.sources.text(file)
        except InputError:
            return ""

    def _steady(self, reads: Mapping[str, str]) -> bool:
        """True where no file was edited between its reading here and by the renderer."""
        digests = self.text_digests
        for file in self.sources.files.intersection(reads):
            if file not in digests:
                digests[file] = text_digest(self._text(file))
            if len(reads[file]) == _DIGEST_LENGTH and reads[file] != digests[file]:
                return False
        return True


class _Result:
    """What is known of a target while it is judged."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.findings: list[Finding] = []
        self.not_judged: list[NotJudged] = []
        self.reads: Mapping[str, str] = {}
        self.secrets: set[str] = set()
        self.told: Counter[str] = Counter()
        """Problems by rule."""
        self.completed: dict[str, str] = {}
        """Why fields that are missing in a file may come from elsewhere."""

    def leave(self, what: str, why: str, place: Place) -> None:
        """Something is not judged; told once, at its first place."""
        if all((each.what, each.why) != (what, why) for each in self.not_judged):
            self.not_judged.append(NotJudged(self.target.name, what, why, place))

    def fail(self, error: InputError) -> None:
        """The target cannot be judged further."""
        self.findings.append(input_finding(error, self.target.name))

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What goes wrong in here ends the judgement of this target alone. A Fault is one of every target."""
        try:
            yield
        except InputError as error:
            self.fail(error)
        except Broke as error:
            self._broke(error, str(error))
        except (MemoryError, Fault, UsageError):
            raise
        except Exception as error:
            self._broke(error, f"{type(error).__name__}: {error}")

    def _broke(self, error: Exception, why: str) -> None:
        if os.environ.get(TRACEBACK):
            import traceback

            traceback.print_exception(error)
        self.findings.append(broken_finding(f"{why} ({TRACEBACK}=1 shows where)", self.target.name))

    def add(self, rule: Rule, problem: Problem, origin: Origin, sources: Sources) -> None:
        """A rule's problem becomes a finding, with the places where its values were written.

        InputError where the target has too many. Of one rule, those beyond a fifth of that are left out.
        """
        self.told[rule.id] += 1
        if self.told[rule.id] > limits.FINDINGS // 5:
            if self.told[rule.id] == limits.FINDINGS // 5 + 1:
                most = f"has more than {limits.FINDINGS // 5} findings of {rule.id}: the rest is left out"
                self.fail(InputError(most, self.target.name))
            return
        if len(self.findings) >= limits.FINDINGS:
            raise InputError(f"has more than {limits.FINDINGS} findings: no more rules are asked", self.target.name)
        finding = finding_of(rule, problem, origin, self.target.name)
        if problem.fix is not None and self.target.name != STDIN:
            from trainyard.fixes.plan import plan

            folder = self.target.name if self.target.kind is TargetKind.JOB else ""
            finding = replace(finding, fix=plan(problem.fix, problem.help, origin, sources, folder))
        self.findings.append(finding)
        if rule.id == SECRET:
            self.secrets.add(str(lookup(problem.spot.object.data, problem.spot.path)))


class Broke(Fault):
    """A rule broke on one target."""


def found_by_rules(
    rules: Mapping[str, Rule], unit: Unit, doing: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Rule, Problem]]:
    """What every rule says of a unit; `doing` is told its id before. Broke where a rule breaks."""
    from trainyard.rules.index import problems
    from trainyard.workload.of_unit import workloads

    jobs = tuple(workloads(unit))
    for rule in rules.values():
        if rule.declared:
            continue
        doing(rule.id)
        try:
            for problem in problems(rule, unit, jobs):
                yield rule, problem
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise Broke(f"{rule.id} broke: {type(error).__name__}: {error}") from error


def _check_number(unit: Unit) -> None:
    if len(unit.objects) > limits.OBJECTS:
        most = f"holds {len(unit.objects)} objects, and at most {limits.OBJECTS} are judged together"
        raise InputError(most, unit.name)


_DIGEST_LENGTH = 64
_ALWAYS_READ = ("job.yaml", *KUSTOMIZATION_NAMES)
_OF_A_PLATFORM = re.compile("clusters/[^/]+/platform/")


def _is_clear(reads: Mapping[str, str], differing: frozenset[str]) -> bool:
    """True where no file that differs is among those that were read, or could be."""
    if any(digest.startswith(LINK) for digest in reads.values()) or not differing.isdisjoint(reads):
        return False
    platforms = tuple({match[0] for file in reads if (match := _OF_A_PLATFORM.match(file))})
    if not differing.isdisjoint(map(_list_of, platforms)):
        return False
    return not any(file.startswith(platforms) for file in differing)


def _list_of(platform: str) -> str:
    """What the owners of a platform's cluster silence."""
    return f"{platform.rstrip('/').removesuffix('platform')}{LIST}"


def _left_by(root: Path, path: str, differing: frozenset[str]) -> bool:
    """True where a change is why something cannot be judged. What the change deletes altogether is none."""
    if not any(file == path or file.startswith(f"{path}/") for file in differing):
        return False
    try:
        return any(not name.startswith(".") for name in os.listdir(root / path))
    except OSError:
        return os.path.lexists(root / path)


def finding_of(rule: Rule, problem: Problem, origin: Origin, unit: str) -> Finding:
    """A rule's problem as the finding of a unit, with the places where its values were written."""
    place, *related = [_place(spot, origin) for spot in (problem.spot, *problem.related[: limits.RELATED])]
    severity = rule.severity if problem.severity is None else problem.severity
    return Finding(rule.id, rule.name, severity, problem.message, place, tuple(related), problem.help, (unit,))


def _place(spot: Spot, origin: Origin) -> Place:
    from trainyard.workload.made import written

    spot = written(spot)
    path = format_path(spot.object.data, _shown(spot.path))
    return Place(spot.object.title, path, origin.position(spot.object, spot.path, spot.at_key), spot.label)


def _shown(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A container's variable is one field to its reader, env[NAME], though its value is what the caret marks."""
    return path[:-1] if path[-1:] == ("value",) and path[-3:-2] == ("env",) else path


def _key(target: Target) -> str:
    return "\0".join((target.kind.value, target.name, *target.files))
