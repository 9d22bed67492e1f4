"""Whether Argo CD and Flux will run what is judged here: that they find the job, and render the same."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trainyard.cache import text_digest
from trainyard.errors import InputError
from trainyard.findings.finding import Edit, Finding, Fix, Place, Position, Severity
from trainyard.gitops.argo_teams import argo_folder, argo_teams
from trainyard.gitops.fetched import shadowed
from trainyard.repository.listed import (
    JOB_FILES,
    all_jobs,
    altered,
    cluster_of,
    cluster_position,
    clusters_with_flux,
    is_in_place,
    list_file,
    listed,
    listing,
)
from trainyard.rules.registry import Rule, declare
from trainyard.yaml.sources import Sources

NOT_LISTED = declare(
    "GIT009",
    "job-not-listed",
    Severity.ERROR,
    """A job is missing from the list that its cluster's Flux reads, or stands in another cluster's.

    Argo CD finds jobs by their kustomization.yaml; Flux runs what it is told. A job that no list names is merged and
    never starts, and one that moved to another cluster goes on where it was. Argo CD looks only into the folders of
    teams that `clusters/<name>/argocd` leads to: on a cluster without a `flux` folder, a job of another team is told.

    Bad:
        # jobs/research/my-run/kustomization.yaml, with nothing of it in clusters/gpu-east/flux/jobs/jobs.yaml
        resources: [../../../base/torchrun, ../../../clusters/gpu-east/facts]

    Good:
        # clusters/gpu-east/flux/jobs/jobs.yaml
        metadata: {name: my-run, namespace: research}
        spec: {path: ./jobs/research/my-run}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """,
)

GONE = declare(
    "GIT010",
    "listed-job-gone",
    Severity.ERROR,
    """Flux's list names a job whose folder is gone.

    Flux then reports a path that does not exist, and stops nothing: the run of a folder that was removed goes on until
    its entry is removed too.

    Bad:
        # clusters/gpu-east/flux/jobs/jobs.yaml, without a folder jobs/research/old-run
        spec: {path: ./jobs/research/old-run}

    Good:
        # clusters/gpu-east/flux/jobs/jobs.yaml
        spec: {path: ./jobs/research/my-run}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """,
)

OUT_OF_REACH = declare(
    "GIT011",
    "job-out-of-reach",
    Severity.ERROR,
    """A job folder lies deeper or higher than jobs/<team>/<job>, where neither Argo CD nor Flux looks.

    Bad:
        # jobs/research/llama/8b-sft/job.yaml
        metadata: {name: 8b-sft}

    Good:
        # jobs/research/llama-8b-sft/job.yaml
        metadata: {name: llama-8b-sft}

    Source: base/gitops/argocd/team/
    """,
)

ALTERED = declare(
    "GIT020",
    "job-list-altered",
    Severity.ERROR,
    """The list of jobs that Flux reads is not what tools/list-jobs writes.

    Every pull request that adds a job changes that file, so nobody reads it closely, and Flux applies whatever stands
    there. It is written, byte for byte, from the folders below jobs/: an entry says a job's name, its team and its
    folder, and nothing else may stand in it or beside it.

    Bad:
        # clusters/gpu-east/flux/jobs/jobs.yaml
        metadata: {name: my-run, namespace: research}
        spec: {path: ./jobs/research/my-run, targetNamespace: vision}

    Good:
        # clusters/gpu-east/flux/jobs/jobs.yaml
        metadata: {name: my-run, namespace: research}
        spec: {path: ./jobs/research/my-run}

    Source: https://fluxcd.io/flux/components/kustomize/kustomizations/
    """,
    fix="safe",
    guarded=True,
)


_ENTRY = re.compile(r"clusters/[^/]+/(argocd|flux)/")
"""Files from which Argo CD and Flux know of jobs."""


def unsynced(root: Path, jobs: Sequence[str], sources: Sources, *, whole: bool) -> list[Finding]:
    """A finding for each of `jobs`, which are folders, that would not run as judged.

    With `whole`, which says that they are all there are, also for each that a list names and is not there.
    """
    lists = {cluster: listed(sources, cluster) for cluster in clusters_with_flux(root)}
    found = [finding for job in jobs for finding in (*_misplaced(job), *shadowed(root, job))]
    found += [finding for job in jobs if is_in_place(job) for finding in _unlisted(job, sources, lists)]
    found += _of_no_team([job for job in jobs if is_in_place(job)], sources, lists)
    return [*found, *_gone(root, lists)] if whole else found


def altered_lists(root: Path, folders: Iterable[str], sources: Sources) -> list[Finding]:
    """A finding for each list of jobs in one of `folders` that tools/list-jobs would have written otherwise."""
    found = []
    for folder in folders:
        cluster = folder.removeprefix("clusters/").removesuffix("/flux/jobs")
        file = list_file(cluster)
        if file.rpartition("/")[0] != folder or not sources.is_file(file):
            continue
        with suppress(InputError):  # one that cannot be read cannot be rendered either, and that is told
            if (line := altered(sources.text(file))) is not None:
                length = len(sources.lines(file)[line - 1 : line][0]) if line <= len(sources.lines(file)) else 1
                place = Place("", "", Position(file, line, 1, max(length, 1)), "differs from here on")
                message = f"the list of jobs of {cluster} is not what tools/list-jobs writes: Flux applies this too"
                finding = _finding(ALTERED, folder, message, place, "run tools/list-jobs, which writes it anew")
                found.append(replace(finding, fix=_rewritten(root, sources, cluster)))
    return found


def _rewritten(root: Path, sources: Sources, cluster: str) -> Fix:
    """The list of a cluster's jobs, written anew."""
    says, file = "Write the list of jobs as tools/list-jobs does", list_file(cluster)
    try:
        text = listing(job for job in all_jobs(root, sources) if job.cluster == cluster)
    except InputError as error:
        return Fix(says, True, refused=f"a job cannot be listed: {error}")
    old = sources.text(file)
    end = old.split("\n")
    return Fix(says, True, (Edit(file, 1, 1, len(end), len(end[-1]) + 1, text, text_digest(old)),))


def synced_otherwise(jobs: Sequence[str], differing: Iterable[str]) -> list[str]:
    """Those of `jobs`, which are folders, that files which differ could keep from running as judged."""
    if any(_ENTRY.match(file) for file in differing):
        return list(jobs)
    folders = {file.rpartition("/")[0] for file in differing}
    return [job for job in jobs if job in folders]


def _unlisted(job: str, sources: Sources, lists: dict[str, dict[str, Position]]) -> Iterator[Finding]:
    try:
        cluster = cluster_of(sources, job)
    except InputError:
        return
    elsewhere = [name for name in lists if job in lists[name] and name != cluster]
    missing = cluster in lists and job not in lists[cluster]
    if not missing and not elsewhere:
        return
    where = Place("", "", cluster_position(sources, job), "runs here")
    related = tuple(Place("", "", lists[name][job], f"Flux of {name} runs it") for name in elsewhere)
    message = f"Flux of {cluster} will not run this job: {list_file(cluster)} does not name it"
    if not missing:
        message = f"Flux of {' and '.join(elsewhere)} runs this job too, but it belongs to {cluster}"
    yield _finding(NOT_LISTED, job, message, where, "run tools/list-jobs, and commit the list that it writes", related)


def _of_no_team(jobs: Sequence[str], sources: Sources, with_flux: Container[str]) -> Iterator[Finding]:
    """The jobs whose team their cluster's Argo CD does not know. Where Flux is there too, it may be what serves."""
    known: dict[str, set[str] | None] = {}
    for job in jobs:
        with suppress(InputError):  # told where the folder itself is judged
            cluster, team = cluster_of(sources, job), job.split("/")[1]
            if cluster in with_flux or not sources.is_folder(argo_folder(cluster)):
                continue
            if cluster not in known:
                known[cluster] = None
                known[cluster] = argo_teams(sources, cluster)
            teams = known[cluster]
            if teams is not None and team not in teams:
                yield _of_team_unknown(job, cluster, sources, ", ".join(sorted(teams)) or "none")


def _of_team_unknown(job: str, cluster: str, sources: Sources, teams: str) -> Finding:
    folder, team = argo_folder(cluster), job.split("/")[1]
    message = f"Argo CD of {cluster} will not run this job: {folder} does not lead to team {team}"
    listed_at = Place("", "", Position(f"{folder}/kustomization.yaml", 0, 0), f"its teams: {teams}")
    where = Place("", "", cluster_position(sources, job), "runs here")
    help = f"list {team} in {folder}/kustomization.yaml, a folder beside it that names the team (docs/lifecycle.md)"
    return _finding(NOT_LISTED, job, message, where, help, (listed_at,))


def _gone(root: Path, lists: dict[str, dict[str, Position]]) -> Iterator[Finding]:
    for cluster, entries in lists.items():
        for job, position in entries.items():
            if not any((root / job / name).is_file() for name in JOB_FILES):
                message = f"Flux of {cluster} is told to run {job}, which does not exist"
                help = "run tools/list-jobs: Flux then ends the run, and keeps its claims"
                yield _finding(GONE, job, message, Place("", "", position), help)


def _misplaced(job: str) -> Iterator[Finding]:
    if job.startswith("jobs/") and not is_in_place(job):
        message = f"nothing syncs {job}: Argo CD and Flux look at jobs/<team>/<job>"
        place = Place("", "", Position(f"{job}/job.yaml", 0, 0))
        yield _finding(OUT_OF_REACH, job, message, place, "move the folder to jobs/<team>/<job>")


def _finding(rule: Rule, job: str, message: str, place: Place, help: str, related: tuple[Place, ...] = ()) -> Finding:
    return Finding(rule.id, rule.name, rule.severity, message, place, related, help, (job,))
