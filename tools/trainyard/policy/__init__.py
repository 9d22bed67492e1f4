"""Rules that one object alone can decide, as ValidatingAdmissionPolicies: `lint-jobs export-policy` writes them."""

from trainyard.policy import communication, gitops, job_folder, operators, pods
from trainyard.policy.model import Policy

POLICIES: tuple[Policy, ...] = tuple(
    sorted(
        (*communication.POLICIES, *gitops.POLICIES, *job_folder.POLICIES, *operators.POLICIES, *pods.POLICIES),
        key=lambda policy: policy.rule,
    )
)
"""Every rule that is exported. tests/controlplane/test_policy.py tries each on a real API server."""
