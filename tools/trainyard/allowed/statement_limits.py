"""The limits that the statement names: each for the linter, and in CEL for the API server.

In CEL `{value}` is the value and `{key}` the name of its field. `variables.run` is the run that an object belongs to,
or empty where nothing says which; `variables.team` the spec of the namespace's Team.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.allowed.team import Context
from trainyard.objects.quantity import quantity
from trainyard.workload.plain import entries, mapping, sequence, text

RUN_LABEL = "trainyard.dev/job"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PLATFORM_ACCOUNTS = ("default", "gitops")
"""ServiceAccounts of every team's namespace that are not a run's."""
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Limit:
    """What it lets through."""

    holds: Callable[[Any, str, Context], bool]
    """Whether a value under a key is let through. True where that is not known."""
    cel: str
    allowed: Callable[[Context], list[str]] = lambda _: []
    """What it lets through, for people; empty where the words of the statement say it."""
    field: str = ""
    """The field that is wrong, where it is a limit of an object as a whole."""


def _run(value: Any, _: str, context: Context) -> bool:
    return not context.run or value == context.run


def _own_name(value: Any, _: str, context: Context) -> bool:
    return not context.run or value == context.run or text(value).startswith(f"{context.run}-")


def _account(value: Any, _: str, context: Context) -> bool:
    others = (*PLATFORM_ACCOUNTS, *context.accounts, *_of(context, "accounts", ()))
    return (not context.run or value == context.run) and value not in others


def _not_root(value: Any, _: str, __: Context) -> bool:
    return not isinstance(value, bool) and value != 0


def _image(value: Any, _: str, context: Context) -> bool:
    return context.team is None or text(value).startswith(tuple(filter(None, map(text, _of(context, "images")))))


def _label(value: Any, key: str, context: Context) -> bool:
    return context.team is None or _is_named(_of(context, "labels"), key, value)


def _annotation(value: Any, key: str, context: Context) -> bool:
    return context.team is None or _is_named(_of(context, "annotations"), key, value)


def _pod_annotation(value: Any, key: str, context: Context) -> bool:
    return _annotation(value, key, context) or _is_named(mapping(_of_cluster(context, "podAnnotations")), key, value)


def _is_named(known: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in known and known[key] in (_ANY, value)


def _audience(value: Any, _: str, context: Context) -> bool:
    return context.team is None or value in _of(context, "audiences")


def _claim(value: Any, _: str, context: Context) -> bool:
    name = text(mapping(value).get("claimName"))
    own = not context.run or name in context.claims or context.team is None
    return own or mapping(value).get("readOnly") is True or name in _of(context, "sharedClaims")


def _egress(value: Any, _: str, context: Context) -> bool:
    return context.team is None or _is_own_peer(value, context) or value in _egress_peers(context)


def _ingress(value: Any, _: str, context: Context) -> bool:
    return context.team is None or _is_own_peer(value, context) or value in _ingress_peers(context)


def _is_own_peer(value: Any, context: Context) -> bool:
    labels = mapping(mapping(mapping(value).get("podSelector")).get("matchLabels"))
    return list(mapping(value)) == ["podSelector"] and labels.get(RUN_LABEL) == context.run


def _egress_peers(context: Context) -> list[Any]:
    facts = (sequence(_of_cluster(context, name)) for name in ("dns", "objectStorage"))
    return [peer for peers in (*facts, _of(context, "egress")) for peer in peers]


def _ingress_peers(context: Context) -> list[Any]:
    facts = (sequence(_of_cluster(context, name)) for name in ("metrics", "rayOperator"))
    return [peer for peers in (*facts, _of(context, "ingress")) for peer in peers]


def _queue(value: Any, _: str, context: Context) -> bool:
    wanted = _of(context, "queue", "")
    return not wanted or mapping(value).get(QUEUE_LABEL) == wanted


def _secret_key(value: Any, _: str, context: Context) -> bool:
    if context.team is None:
        return True
    below = tuple(_secret_keys(context))
    return text(value).startswith(below) and ".." not in text(value)


def _secret_keys(context: Context) -> list[str]:
    """How keys begin. None is empty, with which every text begins."""
    return [key for _, each in entries(_of(context, "secrets")) if (key := text(each.get("key")))]


def _secret_store(value: Any, _: str, context: Context) -> bool:
    if context.team is None:
        return True
    named = mapping(value).get("kind", "SecretStore"), mapping(value).get("name")
    return named in [(each.get("kind"), each.get("name")) for _, each in entries(_of(context, "secrets"))]


def _storage_class(value: Any, _: str, context: Context) -> bool:
    return context.team is None or value in _storage_classes(context)


def _storage_classes(context: Context) -> list[str]:
    return [text(_of_cluster(context, "checkpointClass")), *_of(context, "storageClasses")]


def _storage_size(value: Any, _: str, context: Context) -> bool:
    if context.team is None:
        return True
    asked, largest = quantity(value), quantity(_of(context, "largestClaim"))
    return asked is None or largest is None or asked <= largest


def _toleration(value: Any, _: str, context: Context) -> bool:
    known = (*sequence(_of_cluster(context, "tolerations")), *_of(context, "tolerations", ()))
    return context.team is None or value in known


def _of(context: Context, name: str, unknown: Any = None) -> Any:
    """A field of the team; `unknown` where the team is."""
    return unknown if context.team is None else context.team[name]


def _of_cluster(context: Context, name: str) -> Any:
    """What the wiring copied from the facts of the cluster and its fabric."""
    return mapping(_of(context, "cluster")).get(name)


def _names(field: str) -> Callable[[Context], list[str]]:
    return lambda context: [str(each) for each in _of(context, field, ())]


_OWN_PEER = f"""\
({{value}}.all(k, k == 'podSelector')
  && {{value}}.?podSelector.?matchLabels[?'{RUN_LABEL}'].orValue('') == variables.run && variables.run != '')"""
_NAMED = "({{key}} in {0} && ({0}[{{key}}] == '*' || {0}[{{key}}] == {{value}}))"

LIMITS: Mapping[str, Limit] = {
    "account": Limit(
        _account,
        f"(object.kind == 'Pod' || {{value}} == variables.run) && !({{value}} in {list(PLATFORM_ACCOUNTS)}) "
        "&& !({value} in variables.team.accounts)",
    ),
    "annotation": Limit(_annotation, _NAMED.format("variables.team.annotations"), _names("annotations")),
    "audience": Limit(_audience, "{value} in variables.team.audiences", _names("audiences")),
    "claim": Limit(
        _claim,
        """\
{value}.?readOnly.orValue(false) || {value}.?claimName.orValue('') in variables.team.sharedClaims
  || (variables.run != '' && {value}.?claimName.orValue('').startsWith(variables.run + '-'))""",
        field="claimName",
    ),
    "egress": Limit(
        _egress,
        f"{_OWN_PEER} || {{value}} in variables.team.cluster.dns || {{value}} in variables.team.cluster.objectStorage "
        "|| {value} in variables.team.egress",
    ),
    "image": Limit(_image, "variables.team.images.exists(i, {value}.startsWith(i))", _names("images")),
    "ingress": Limit(
        _ingress,
        f"{_OWN_PEER} || {{value}} in variables.team.cluster.metrics "
        "|| {value} in variables.team.cluster.rayOperator || {value} in variables.team.ingress",
    ),
    "label": Limit(_label, _NAMED.format("variables.team.labels"), _names("labels")),
    "not-root": Limit(_not_root, "{value} != 0"),
    "own-name": Limit(
        _own_name,
        "variables.run != '' && ({value} == variables.run || {value}.startsWith(variables.run + '-'))",
    ),
    "pod-annotation": Limit(
        _pod_annotation,
        f"{_NAMED.format('variables.team.annotations')} || {_NAMED.format('variables.team.cluster.podAnnotations')}",
        _names("annotations"),
    ),
    "queue": Limit(
        _queue,
        f"variables.team.queue == '' || {{value}}[?'{QUEUE_LABEL}'].orValue('') == variables.team.queue",
        lambda context: [_of(context, "queue")],
        QUEUE_LABEL,
    ),
    "run": Limit(
        _run,
        "variables.run != '' && {value} == variables.run",
        lambda context: [context.run],
    ),
    "secret-key": Limit(
        _secret_key,
        "!{value}.contains('..') && variables.team.secrets.exists(s, {value}.startsWith(s.key))",
        _secret_keys,
    ),
    "secret-store": Limit(
        _secret_store,
        "variables.team.secrets.exists(s, s.kind == {value}.?kind.orValue('SecretStore') && s.name == {value}.name)",
        lambda context: [f"{each.get('kind')} {each.get('name')}" for _, each in entries(_of(context, "secrets"))],
        "name",
    ),
    "storage-class": Limit(
        _storage_class,
        "{value} == variables.team.cluster.checkpointClass || {value} in variables.team.storageClasses",
        lambda context: [] if context.team is None else [each for each in _storage_classes(context) if each],
    ),
    "storage-size": Limit(
        _storage_size,
        "!quantity(string({value})).isGreaterThan(quantity(variables.team.largestClaim))",
        lambda context: [_of(context, "largestClaim", "")],
    ),
    "toleration": Limit(
        _toleration, "{value} in variables.team.cluster.tolerations || {value} in variables.team.tolerations"
    ),
}
"""By the names that the statement has for them; it has the words, too."""
