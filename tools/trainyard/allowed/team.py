"""What one team may have on one cluster: its Team, clusters/<name>/platform/<team>/team.yaml."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainyard.home import HOME
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.workload.plain import mapping

API_VERSION, KIND, NAME = "trainyard.dev/v1alpha1", "Team", "team"
SCHEMA = HOME / "schemas" / "trainyard.dev" / "team_v1alpha1.json"


@dataclass(frozen=True, slots=True)
class Context:
    """Whose job it is, and what that team may have."""

    run: str = ""
    """The name of the run; empty where it is not known."""
    claims: frozenset[str] = frozenset()
    """Names of the claims that the run brings."""
    accounts: frozenset[str] = frozenset()
    """Names of the ServiceAccounts that the platform has made in the namespace."""
    namespace: str = ""
    cluster: str = ""
    team: Mapping[str, Any] | None = None
    """The `spec` of the team, with its defaults; None where it is not known, and nothing is said that depends on it."""

    @property
    def whose(self) -> str:
        """`of team research on gpu-east`, as far as that is known."""
        team = f" of team {self.namespace}" if self.namespace else ""
        return f"{team} on {self.cluster}" if self.cluster else team

    @property
    def file(self) -> str:
        """Where the platform team writes what the team may have."""
        return f"clusters/{self.cluster or '<name>'}/platform/{self.namespace or '<team>'}/team.yaml"


def context_of(unit: Unit) -> Context:
    """What is known of a rendered job folder."""
    job, cluster = unit.fact("TrainingJob"), unit.fact("Cluster")
    namespace = "" if job is None else job.namespace
    platform = unit.platform or ()
    return Context(
        run="" if job is None else job.name,
        claims=frozenset(each.name for each in unit.objects if each.kind == "PersistentVolumeClaim"),
        accounts=frozenset(
            each.name for each in platform if each.kind == "ServiceAccount" and each.namespace == namespace
        ),
        namespace=namespace,
        cluster="" if cluster is None else cluster.name,
        team=_team(platform, namespace),
    )


def _team(platform: tuple[Object, ...], namespace: str) -> Mapping[str, Any] | None:
    for each in platform:
        if (each.api_version, each.kind, each.name, each.namespace) == (API_VERSION, KIND, NAME, namespace):
            return spec_of(mapping(each.data.get("spec")))
    return None


def spec_of(written: Mapping[str, Any]) -> dict[str, Any]:
    """The `spec` of a Team with its defaults, as the API server fills them in. What is of another type is left out."""
    return {
        name: written[name] if isinstance(written.get(name), type(empty)) else empty
        for name, empty in _defaults().items()
    }


@cache
def _defaults() -> Mapping[str, Any]:
    spec = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]["spec"]["properties"]
    empty = {"array": [], "object": {}, "string": ""}
    return {name: said.get("default", empty[said["type"]]) for name, said in spec.items()}
