"""What Git and a controller would fight over."""

from trainyard.policy.kinds import JOB, JOB_SET, PYTORCH_JOB, TF_JOB
from trainyard.policy.model import Policy

POLICIES = (
    Policy(
        "GIT001",
        (JOB, JOB_SET, PYTORCH_JOB, TF_JOB),
        """\
!has(variables.spec.ttlSecondsAfterFinished)
&& !has(variables.spec.?runPolicy.orValue({}).ttlSecondsAfterFinished)""",
        exempt={
            "no-hook": "!('argocd.argoproj.io/hook' in object.metadata.?annotations.orValue({}))",
            "reconciled": (
                "object.metadata.?annotations.orValue({})[?'kustomize.toolkit.fluxcd.io/reconcile'].orValue('') "
                "!= 'disabled'"
            ),
        },
    ),
    Policy(
        "GIT013",
        (JOB,),
        """\
!variables.syncOptions.exists(o, o == 'Replace=true') || variables.syncOptions.exists(o, o == 'Force=true')""",
        {
            "syncOptions": (
                "object.metadata.?annotations.orValue({})[?'argocd.argoproj.io/sync-options'].orValue('')"
                ".split(',').map(o, o.trim())"
            )
        },
    ),
)
