"""How a rule is declared: one pure function, its metadata beside it, its docstring the page that `explain` prints.

    @rule("RDV005", "unready-peers-hidden", Severity.ERROR, needs=Workload)
    def unready_peers_hidden(workload: Workload) -> Iterator[Problem]:
        '''What it says, in one line.

        Why it breaks, in a few.

        Bad:
            (YAML that is merged onto the example manifests; the rule must fire)
        Good:
            (the same; the rule must stay silent)
        Near miss:
            (looks wrong and is not; the rule must stay silent)

        Source: https://...
        '''

A rule that cannot know stays silent.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import Remedy
from trainyard.objects.unit import Unit
from trainyard.rules.aliases import ALIASES
from trainyard.workload.model import Workload


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found, before its place in the source is looked up."""

    message: str
    spot: Spot
    related: tuple[Spot, ...] = ()
    help: str = ""
    fix: Remedy | None = None
    """What would put it right, where that is certain or can be worked out."""
    severity: Severity | None = None
    """Less than the rule's own, where the manifest may well mean what it says. None: the rule's."""


Kind = Literal["none", "safe", "unsafe"]
"""Whether a rule knows how to put right what it finds, and at best how: safe fixes are made by `--fix`, those that
change what the job means by `--fix=unsafe` alone."""

Needs = type[Workload] | type[Object] | type[Unit]
Check = Callable[[Any], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its page."""

    id: str
    name: str
    severity: Severity
    needs: Needs
    """Workload: called for each training job. Object: for each rendered object. Unit: once for all of them."""
    check: Check
    page: str
    fix: Kind = "none"
    every_pod: bool = False
    """True for a rule of pods that is asked about those of Deployments and their like too, which do not train."""
    declared: bool = False
    """True where another stage of the pipeline raises the findings, and `check` finds nothing."""
    guarded: bool = False
    """True for a rule on security: no comment in a job folder silences it, only the platform team does."""


F = TypeVar("F", bound=Check)
_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    name: str,
    severity: Severity,
    *,
    needs: Needs,
    fix: Kind = "none",
    every_pod: bool = False,
    guarded: bool = False,
) -> Callable[[F], F]:
    """Register a check. The id is a family of three letters and three digits; ids are never used again."""

    def register(check: F) -> F:
        _refuse_taken(id)
        if not check.__doc__:
            raise ValueError(f"rule {id} has no page")
        _RULES[id] = Rule(id, name, severity, needs, check, check.__doc__, fix, every_pod, guarded=guarded)
        return check

    return register


def registered() -> dict[str, Rule]:
    """Every rule that was imported, by id."""
    return dict(sorted(_RULES.items()))


def declare(id: str, name: str, severity: Severity, page: str, *, fix: Kind = "none", guarded: bool = False) -> Rule:
    """Register the page of findings that another stage raises, so that `explain` and SARIF know them."""

    def nothing(_: Unit) -> Iterable[Problem]:
        return ()

    _refuse_taken(id)
    _RULES[id] = Rule(id, name, severity, Unit, nothing, page, fix, declared=True, guarded=guarded)
    return _RULES[id]


def _refuse_taken(id: str) -> None:
    if id in _RULES:
        raise ValueError(f"rule id {id} is taken by {_RULES[id].name}")
    if id in ALIASES:
        raise ValueError(f"rule id {id} was that of {ALIASES[id]}")
