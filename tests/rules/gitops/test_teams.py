"""GIT022: the Pod Security level of a team's namespace follows the fabric."""

import pytest

from tests.rules.judging import judge_good_job_with

PLATFORM = """\
kind: Fabric
spec: {{podSecurity: {needed}}}
---
$platform: true
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: deny, namespace: research}}
spec: {{podSelector: {{}}, policyTypes: [Egress, Ingress]}}
---
$platform: true
apiVersion: v1
kind: Namespace
metadata: {{name: research, labels: {{trainyard.dev/team: research{level}}}}}
"""


@pytest.mark.parametrize(
    ("needed", "level", "said"),
    [
        ("restricted", "privileged", "privileged"),
        ("restricted", "baseline", "baseline"),
        ("baseline", "privileged", "privileged"),
        ("restricted", "Restricted", "privileged"),
        ("restricted", "", "privileged"),
        ("restricted", "restricted", ""),
        ("baseline", "restricted", ""),
        ("privileged", "privileged", ""),
        ("privileged", "", ""),
        ("null", "privileged", "privileged"),
    ],
)
def test_a_namespace_is_no_laxer_than_its_fabric_needs(needed: str, level: str, said: str) -> None:
    written = f", pod-security.kubernetes.io/enforce: {level}" if level else ""

    found = judge_good_job_with("GIT022", PLATFORM.format(needed=needed, level=written))

    message = f"error: namespace research of a team enforces Pod Security {said}, and its fabric needs {needed}"
    assert [line.partition(" @ ")[0] for line in found] == ([message] if said and needed != "null" else [])
