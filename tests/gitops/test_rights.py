"""Who syncs a team's jobs has no right in its namespace that the team's project does not know."""

import pytest

from tests.gitops.folders import CLUSTERS, of_kind, teams, unit_of
from trainyard.allowed.kinds import groups, plural
from trainyard.allowed.statement import statement

RESOURCES = {(group, plural(kind)) for group, kinds in groups(statement()).items() for kind in kinds}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_role_of_gitops_holds_kinds_of_a_job_only(cluster: str) -> None:
    roles = {
        role["metadata"]["namespace"]: role["rules"]
        for role in of_kind(unit_of(f"clusters/{cluster}/platform").objects, "Role")
        if role["metadata"]["name"] == "gitops"
    }

    assert sorted(roles) == teams(cluster)
    for rules in roles.values():
        held = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
        assert held == RESOURCES
        deletable = {name for rule in rules if "delete" in rule["verbs"] for name in rule["resources"]}
        assert "persistentvolumeclaims" not in deletable
