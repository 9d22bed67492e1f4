"""What a job folder may hold, at the door: schemas/job-folder.yaml in CEL, with the Team of each namespace."""

from trainyard.allowed.cel import POD, Writer
from trainyard.allowed.kinds import plural
from trainyard.allowed.places import Kind as Name
from trainyard.allowed.statement import ACCOUNT_RULE, FIELD_RULE, NODE_RULE, THERE_RULE, VALUE_RULE, statement
from trainyard.allowed.statement_limits import RUN_LABEL
from trainyard.policy.kinds import Kind
from trainyard.policy.model import Policy


def _kind(name: Name) -> Kind:
    api_version, kind = name
    group, _, version = api_version.rpartition("/")
    return Kind(kind, group, version, plural(kind))


_WRITER = Writer(statement())
_OF_RUN = f"[?'{RUN_LABEL}'].orValue('')"
_VARIABLES = {
    "team": "params.spec",
    "flux": "object.metadata.?labels[?'kustomize.toolkit.fluxcd.io/name'].orValue('')",
    "argocd": """\
object.metadata.?annotations[?'argocd.argoproj.io/tracking-id'].orValue('').split(':')[0]
  .replace(object.metadata.namespace + '.', '', 1)""",
    "marks": "[variables.flux, variables.argocd].filter(m, m != '')",
    "run": f"""\
variables.marks.size() > 0 ? (variables.marks.all(m, m == variables.marks[0]) ? variables.marks[0] : '') :
object.metadata.?labels{_OF_RUN} != '' ? object.metadata.labels['{RUN_LABEL}'] :
object.kind == 'NetworkPolicy' ? object.?spec.?podSelector.?matchLabels{_OF_RUN} :
object.kind == 'PodMonitor' ? object.?spec.?selector.?matchLabels{_OF_RUN} : ''""",
}
"""`run` is what Flux or Argo CD say, who mark all that they apply; else what the object says of itself."""


def _policy(rule: str, *, of_pods: bool, of_accounts: bool) -> Policy:
    """`of_pods`: pods are judged, too, when they are made."""
    kinds = tuple(_kind(name) for name in _WRITER.kinds(rule) if of_pods or name != POD)
    return Policy(
        rule,
        kinds,
        "variables.refused.size() == 0",
        {**_VARIABLES, **_WRITER.variables(rule)},
        of_owners=True,
        says="variables.refused.join(', ')",
        with_team=True,
        of_accounts=of_accounts,
        operations=("CREATE",) if of_pods else ("CREATE", "UPDATE"),
    )


_UNCHANGED = """\
object.all(k, k in ['metadata', 'status'] || (k in oldObject && object[k] == oldObject[k]))
&& oldObject.all(k, k in object || k == 'status')"""

POLICIES = (
    _policy(NODE_RULE, of_pods=True, of_accounts=False),
    _policy(FIELD_RULE, of_pods=False, of_accounts=True),
    _policy(VALUE_RULE, of_pods=False, of_accounts=True),
    _policy(ACCOUNT_RULE, of_pods=True, of_accounts=True),
    Policy(
        THERE_RULE,
        tuple(map(_kind, statement().kinds)),
        _UNCHANGED,
        of_owners=True,
        of_accounts=True,
        operations=("UPDATE",),
    ),
)
