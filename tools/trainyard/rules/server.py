"""What the API server itself says of rendered objects. tools/verify-jobs asks it and raises these findings."""

from trainyard.findings.finding import Severity
from trainyard.rules.registry import declare

REJECTS = declare(
    "API001",
    "server-rejects",
    Severity.ERROR,
    """The API server refuses an object of the job, or the pods that would be made from it.

    Every object is applied in server-side dry run as the identity that Argo CD would use, on a cluster that holds the
    namespaces, quotas, limits, roles and Pod Security levels of the job's own. Then the pods of the job are created as
    its controller would. What is refused there is refused when the job is synced, and the job never starts. The line is
    that of the field which the server names. Where it names none, it is the field that the message is about.

    Bad:
        # A claim that says nowhere how much it asks for
        kind: PersistentVolumeClaim
        spec: {accessModes: [ReadWriteMany]}

    Good:
        kind: PersistentVolumeClaim
        spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 500Gi}}}

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
    """,
)

WARNS = declare(
    "API002",
    "server-warns",
    Severity.WARNING,
    """The API server takes an object and says that something about it is wrong.

    It warns of fields and versions that are going away, of duplicates that it drops, and of pod templates that break
    the namespace's Pod Security level. kubectl prints these warnings; Argo CD and Flux show them to nobody.

    Bad:
        # A pod template in a namespace with pod-security.kubernetes.io/warn: restricted
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {privileged: true}}]}}}

    Good:
        spec: {template: {spec: {containers: [{name: trainer, securityContext: {allowPrivilegeEscalation: false}}]}}}

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#warnings
    """,
)
