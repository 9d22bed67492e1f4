"""Judges targets, one after another, in a process that is ended where one asks for too much."""

import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import bounded, limits
from trainyard.bounded import Here, ItemEnd
from trainyard.cache import LINK, Cache, Digests, is_content, text_digest
from trainyard.commandline import Progress
from trainyard.errors import InputError
from trainyard.findings import codec
from trainyard.findings.brief import brief, told_briefly
from trainyard.findings.consequences import without_consequences
from trainyard.findings.finding import Place, Position
from trainyard.findings.suppress import find
from trainyard.gitops.cluster_folders import entry_of
from trainyard.gitops.exempt import LIST
from trainyard.home import HOME
from trainyard.kustomize.kustomization import files_here, load_graph
from trainyard.lint.masked import cleaned, without
from trainyard.lint.outcome import Judgement
from trainyard.lint.result import Result, broken_finding, ended_finding, found_by_rules, input_finding, place_of
from trainyard.objects.objects import Spot
from trainyard.objects.origin import Origin
from trainyard.objects.unit import Unit
from trainyard.repository.discover import KUSTOMIZATION_NAMES, STDIN, Target, TargetKind, has_kustomization
from trainyard.rules.registry import Problem, Rule
from trainyard.yaml.sources import Sources

if TYPE_CHECKING:
    from trainyard.findings.suppress import Suppression
    from trainyard.gitops.cluster import Platforms
    from trainyard.kustomize.render import Rendering


class Judge:
    """Judges the targets of one run, and knows what was read and how far it is."""

    def __init__(
        self,
        root: Path,
        sources: Sources,
        digests: Digests,
        cache: Cache | None,
        workers: int | None,
        progress: Progress | None,
        images: tuple[str, ...] = (),
        kubernetes: str = "",
    ) -> None:
        """`images` and `kubernetes` are what the repository's settings say; empty where they say nothing."""
        self.root = root
        self.sources = sources
        self.digests = digests
        self.cache = cache
        self.workers = workers
        self.progress = progress
        self.images = images
        self.kubernetes = kubernetes
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
        from trainyard.gitops.cluster import Platforms

        return Platforms(self.root, self.sources, self.cache, self._steady)

    def touched(self, target: Target, differing: frozenset[str]) -> bool:
        """True where a target reads one of the files, or cannot be followed."""
        from trainyard.gitops.cluster import platforms_named
        from trainyard.repository.changed import ways_to

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
        entry = None if self.cache is None else self.cache.entry(self._key(target))
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
        own = self.root == HOME
        return own and any(file.startswith(("tools/trainyard/", "tools/go/", "schemas/")) for file in differing)

    def judgements(self, targets: Sequence[Target]) -> list[Judgement]:
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
            for made in self._one_by_one([targets[item] for item in items]):
                sent = codec.packed(made.findings, made.suppressions, made.complete, made.not_judged)
                if len(sent) > limits.JUDGEMENT_BYTES:
                    most = f"findings take more than {limits.JUDGEMENT_BYTES >> 20} MiB"
                    sent = codec.packed(
                        [input_finding(InputError(most, made.target.name), made.target.name)], (), False
                    )
                yield number[made.target.name], sent

        for item, answer in bounded.each(len(targets), work):
            target = targets[item]
            if not isinstance(answer, ItemEnd):
                findings, suppressions, complete, not_judged = codec.unpacked(answer)
                yield target, Judgement(target, findings, suppressions, complete, not_judged=not_judged)
            elif _OF_A_PLATFORM.match(f"{answer.at}/"):
                self.platforms.refuse(answer.at, InputError(answer.why, answer.at))
                yield target, None
            else:
                yield target, Judgement(target, (ended_finding(answer, target.name),), (), complete=False)

    def _tell(self, text: str) -> None:
        if self.progress:
            self.progress(text)

    def _key(self, target: Target) -> str:
        """The name of its verdict in the cache: what is told depends on the settings, too."""
        settings = (f"kubernetes {self.kubernetes}", *(f"image {each}" for each in self.images))
        return "\0".join((target.kind.value, target.name, *target.files, *settings))

    def _kept(self, target: Target) -> Judgement | None:
        """What an earlier run found, if that still holds."""
        if self.cache is None or target.name == STDIN:
            return None
        kept = self.cache.get(self._key(target))
        if kept is None:
            return None
        try:
            findings, suppressions, not_judged = codec.decode(kept)
        except (ValueError, KeyError, TypeError):
            return None
        return Judgement(target, findings, suppressions, complete=True, cached=True, not_judged=not_judged)

    def _one_by_one(self, targets: Sequence[Target]) -> Iterator[Judgement]:
        """One target after another, so that one unit is in memory at a time. Not in the order of the targets."""
        for result, made in self._units(targets):
            if made is not None:
                unit, origin = made
                self._judge(result, replace(unit, images=self.images) if self.images else unit, origin)
            yield self._finish(result)
            self.sources.forget(result.target.name)

    def _judge(self, result: "Result", unit: Unit, origin: Origin) -> None:
        from trainyard.lint.unjudged import gaps
        from trainyard.schemas import schema, validation
        from trainyard.schemas.releases import newer

        found: list[tuple[Rule, Problem]] = []
        with result.failing():
            for rule, problem in found_by_rules(self.rules, unit, self.doing):
                result.add(rule, problem, origin, self.sources)
                found.append((rule, problem))
            self.doing("schemas")
            for refused in (*schema.check([unit]), *newer(unit, self.kubernetes)):
                spot = Spot(refused.object, refused.path, at_key=refused.at_key)
                if refused.is_missing and _is_completed(spot, origin, result):
                    continue
                problem = Problem(refused.message, spot, (), refused.help, refused.fix, refused.severity)
                result.add(self.rules[refused.rule_id], problem, origin, self.sources)
                found.append((self.rules[refused.rule_id], problem))
            self.doing("validation")
            for problem, is_missing in validation.check(unit, found):
                if not (is_missing and _is_completed(problem.spot, origin, result)):
                    result.add(validation.REFUSED, problem, origin, self.sources)
            self.doing("what was not judged")
            for gap in gaps(unit, found):
                result.leave(gap.what, gap.why, place_of(gap.spot, origin))

    def _units(self, targets: Sequence[Target]) -> "Iterator[tuple[Result, tuple[Unit, Origin] | None]]":
        folders = []
        for target in targets:
            if target.kind is not TargetKind.MANIFESTS:
                folders.append(target)
                continue
            result = Result(target)
            self.begin(target, "")
            yield result, self._manifests(result)
        yield from self._rendered(folders)

    def _manifests(self, result: "Result") -> "tuple[Unit, Origin] | None":
        from trainyard.kustomize.parts import depends_on
        from trainyard.objects.manifests import read_manifests

        target = result.target
        if target.kind is not TargetKind.MANIFESTS:
            return None
        is_broken = False
        for file in target.files:
            try:
                result.fail_each(self.sources.twice(file))
            except InputError as error:
                is_broken = True
                result.fail(error)
        if is_broken:
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

    def _objects_of(self, result: "Result") -> list[str]:
        """The files of a target that hold objects of their own. What the others are, the result is told."""
        from trainyard.kustomize.parts import completed_by, patched_by

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

    def _rendered(self, targets: Sequence[Target]) -> "Iterator[tuple[Result, tuple[Unit, Origin] | None]]":
        """Units of folders. What each may ask for is checked before it is rendered, the rest while others are."""
        from trainyard.kustomize.render import render

        asked: deque[Result | str] = deque()
        """What the renderer was given and has not answered: results, and before them the platforms that they need."""
        refused: list[Result] = []

        def arrived() -> None:
            job = next(each for each in asked if isinstance(each, Result))
            self.begin(job.target, "" if asked[0] is job else str(asked[0]))

        folders = self._folders(targets, asked, refused)
        unsaved = self.sources.unsaved
        for rendering in render(self.root, folders, workers=self.workers, arrived=arrived, unsaved=unsaved):
            result = asked.popleft()
            if isinstance(result, str):
                self.platforms.keep(result, rendering)
            else:
                self.platforms.offer(result.target.name, rendering)
                yield result, self._unit(result, rendering)
        yield from ((result, None) for result in refused)

    def _folders(
        self, targets: Sequence[Target], asked: "deque[Result | str]", refused: "list[Result]"
    ) -> Iterator[str]:
        """Folders to render, each platform before the first job on it; one that is a target too is rendered once."""
        waiting = {target.name: target for target in targets}
        for target in targets:
            if waiting.pop(target.name, None) is None:
                continue
            result = Result(target)
            self.begin(target, "")
            with result.failing():
                files = load_graph(self.sources, target.name).files
            if result.findings:
                refused.append(result)
                continue
            for folder in self.platforms.to_render(files) if entry_of(target.name) is None else ():
                platform = waiting.pop(folder, None)
                asked.append(folder if platform is None else Result(platform))
                yield folder
            asked.append(result)
            yield target.name

    def _unit(self, result: "Result", rendering: "Rendering") -> tuple[Unit, Origin] | None:
        from trainyard.kustomize.rendered import RendererEnded, rendered_folder

        with result.failing():
            try:
                made = rendered_folder(self.sources, result.target, rendering)
            except RendererEnded as ended:
                result.findings.append(broken_finding(ended.message, result.target.name))
                return None
            result.findings = made.findings
            if made.made is None:
                return None
            result.reads = rendering.reads
            unit, origin = made.made
            _check_number(unit)
            return self._on_platform(result, unit, origin)
        return None

    def _on_platform(self, result: "Result", unit: Unit, origin: Origin) -> tuple[Unit, Origin]:
        """A unit with what its cluster holds. Where that is broken, the unit is judged as if nobody knew."""
        if entry_of(unit.name) is not None:  # these come before the platform
            return unit, origin
        try:
            result.reads = {**self.platforms.reads(unit), **result.reads}
            return self.platforms.under(unit, origin)
        except InputError as error:
            result.fail(error)
            return unit, origin

    def _finish(self, result: "Result") -> Judgement:
        if result.target.kind is not TargetKind.MANIFESTS:
            self._fail_others(result)
        told = (told_briefly(finding) for finding in without_consequences(result.findings))
        findings = [without(finding, result.secrets) for finding in told]
        not_judged = tuple(replace(each, why=cleaned(brief(each.why), result.secrets)) for each in result.not_judged)
        files = {finding.place.position.file for finding in findings if finding.place.position}
        files |= {file for file, digest in result.reads.items() if is_content(digest)}
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
            self.cache.put(self._key(target), result.reads, listings, kept)
        return Judgement(target, tuple(findings), tuple(suppressions), complete, not_judged=not_judged)

    def _fail_others(self, result: "Result") -> None:
        """Where a key that stands twice ended the judgement of a folder, the others of its file are told as well."""
        for finding in [each for each in result.findings if each.input_error]:
            at = finding.place.position
            if at is None or at.file not in self.sources.files:
                continue
            with suppress(InputError):
                first, *others = self.sources.twice(at.file) or (None,)
                if first is not None and (first.message, first.line) == (finding.message, at.line):
                    result.fail_each(others)

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
            if is_content(reads[file]) and reads[file] != digests[file]:
                return False
        return True


def _check_number(unit: Unit) -> None:
    if len(unit.objects) > limits.OBJECTS:
        most = f"holds {len(unit.objects)} objects, and at most {limits.OBJECTS} are judged together"
        raise InputError(most, unit.name)


_ALWAYS_READ = ("job.yaml", *KUSTOMIZATION_NAMES)
_OF_A_PLATFORM = re.compile("clusters/[^/]+/platform/")


def _is_completed(spot: Spot, origin: Origin, result: Result) -> bool:
    """Whether a kustomization adds fields to the file of a spot; what is missing there is then left to it."""
    at = origin.position(spot.object, spot.path) if result.completed else None
    if at is None or at.file not in result.completed:
        return False
    result.leave("required fields", result.completed[at.file], place_of(spot, origin))
    return True


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
