"""All that a report says of some runs and a baseline, however it is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.benchreport.history import Change, changes
from trainyard.benchreport.postmortem import Cause, postmortem
from trainyard.benchreport.runs import Baseline, Fingerprint, Run
from trainyard.benchreport.verdict import State, Verdict, verdict


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict with what explains it."""

    baseline: Baseline
    runs: tuple[tuple[Run, Fingerprint], ...]
    """By the time at which they finished; at least one."""
    verdict: Verdict
    changes: tuple[Change, ...]
    causes: tuple[Cause, ...]

    @property
    def history(self) -> list[Run]:
        """The baseline's runs and the later ones, by time."""
        return sorted([*self.baseline.runs, *(run for run, _ in self.runs)], key=lambda run: (run.finished, run.name))


def report(baseline: Baseline, runs: Sequence[tuple[Run, Fingerprint]], only: Sequence[str] = ()) -> Report:
    """The verdict on runs (one at least), changes over their history, and what held the newest one up."""
    found = verdict(baseline, runs, only)
    made = Report(baseline, tuple(runs), found, (), ())
    if found.state is State.NOT_COMPARABLE:
        return made
    causes = tuple(postmortem(runs[-1][0], baseline.runs[-1]))
    return Report(baseline, tuple(runs), found, tuple(changes(made.history)), causes)
