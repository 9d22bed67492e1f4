"""How a verdict is put into words, the same in every format."""

from trainyard.benchreport.postmortem import Cause
from trainyard.benchreport.verdict import Need, Row, State, Verdict


def headline(found: Verdict) -> str:
    """The verdict in one line."""
    if found.state is State.NOT_COMPARABLE:
        runs = len({run for run, _ in found.differences})
        return f"Not comparable: {_count(runs, 'run')} did not run on what the baseline ran on"
    if found.state is State.CLEAN:
        return "Nothing is slower"
    if found.state is State.TOO_FEW:
        return "Too few runs to tell"
    cluster = [row for row in found.findings if not row.node]
    nodes = {row.node for row in found.findings if row.node}
    parts = []
    if cluster:
        worst = min(cluster, key=lambda row: row.change)
        parts.append(f"The cluster is {-worst.change:.1%} slower in {worst.measure}")
    if len(nodes) == 1:
        worst = min((row for row in found.findings if row.node), key=lambda row: row.change)
        parts.append(f"{worst.node} is {-worst.change:.1%} slower in {worst.measure}")
    elif nodes:
        parts.append(f"{len(nodes)} nodes are slower")
    return ", and ".join(parts)


def finding(row: Row) -> str:
    """What is slower, by how much and how surely."""
    who = row.node or "the cluster"
    if not row.own:
        return (
            f"{who}: {row.measure} is {-row.change:.1%} below the other nodes' ({number(row.after)} against "
            f"{number(row.before)}); the baseline has no runs of this node"
        )
    against = "beside the other nodes and its own baseline" if row.node else "than in the baseline"
    return (
        f"{who}: {row.measure} is {-row.change:.1%} slower {against} ({number(row.before)} -> {number(row.after)}, "
        f"{chance(row.adjusted)})"
    )


def chance(p: float) -> str:
    """A p-value for people."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def need(found: Need) -> str:
    """How many runs it takes, and what to do where there are fewer."""
    what = f"{found.measure}{' of nodes' if found.nodes else ''}: noise {found.noise:.1%} a run"
    if found.needed is None:
        if found.larger <= found.baseline:
            return f"{what}; no number of runs finds {found.target:.0%}"
        few = f"{found.baseline} baseline runs are too few to find {found.target:.0%}"
        return f"{what}; {few}: lock a baseline of {found.larger} runs"
    if found.met:
        return f"{what}; {_count(found.needed, 'run')} find {found.target:.0%}, {found.candidate} are there"
    return f"{what}; {_count(found.needed, 'run')} needed to find {found.target:.0%}, {found.candidate} are there"


def cause(found: Cause) -> str:
    """What a workload waited for."""
    rank = f" (rank {found.rank})" if found.rank is not None else ""
    return f"{found.workload}: {found.said}{rank}"


def number(value: float) -> str:
    """A value to four digits, with M, G or T for millions and more."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
