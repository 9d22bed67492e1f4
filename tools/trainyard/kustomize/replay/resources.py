"""An object on its way through kustomize: its nodes, and the names that it had."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainyard.kustomize.replay.patterns import labels_match, whole
from trainyard.yaml.nodes import Node, RawMark
from trainyard.yaml.scalars import resolve

LOCAL_CONFIG = "config.kubernetes.io/local-config"

_CLUSTER_SCOPED = frozenset(
    [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "CustomResourceDefinition",
        "APIService",
        "CertificateSigningRequest",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "IngressClass",
        "RuntimeClass",
        "PodSecurityPolicy",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "CSIDriver",
        "CSINode",
        "StorageClass",
        "VolumeAttachment",
        "ComponentStatus",
        "Namespace",
        "Node",
        "NodeProxyOptions",
        "PersistentVolume",
    ]
)
_BUILTIN_GROUPS = frozenset(("", "apps", "batch", "policy"))


class Id(NamedTuple):
    """What kustomize knows an object by. `namespace` is as written for a current id, effective for a former one."""

    kind: str
    name: str
    namespace: str


class _Identity(NamedTuple):
    """What an object's nodes say of what it is called."""

    api_version: str
    group_version: tuple[str, str]
    kind: str
    name: str
    namespace: str
    cluster_scoped: bool
    ids: tuple[Id, ...]


_IDENTIFYING = frozenset(("apiVersion", "kind", "metadata"))
"""Fields that an identity is read from."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which objects a patch, a replacement or a reject means. Texts are expressions where `Resource.fits` is asked."""

    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    labels: str = ""
    annotations: str = ""

    @classmethod
    def of(cls, node: Node | None) -> "Selector":
        """Read one from a `target`, `select` or `source`."""
        if node is None or type(node.value) is not dict:
            return cls()
        keys = ("group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector")
        return cls(*(text_of(node.child(key)) for key in keys))

    @property
    def names_nothing(self) -> bool:
        """True where neither kind, name, namespace nor group narrows it."""
        return not (self.group or self.version or self.kind or self.name or self.namespace)


@dataclass(slots=True, eq=False)
class Resource:
    """One object. `own()` before a change: objects of a base are shared between the jobs that use it."""

    node: Node = field(repr=False)
    shared: bool = True
    previous: tuple[Id, ...] = ()
    hashed: bool = False
    behavior: str = ""
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    patched: list[Any] = field(default_factory=list, repr=False)
    wired: list[Any] = field(default_factory=list, repr=False)
    origin: "Resource | None" = None
    """The object of a base that this one was copied from."""
    _identity: _Identity | None = field(default=None, repr=False)

    def fork(self) -> "Resource":
        """A resource of its own that shares the nodes until one of the two changes."""
        self.shared = True
        return Resource(
            self.node,
            True,
            self.previous,
            self.hashed,
            self.behavior,
            self.prefixes,
            self.suffixes,
            [*self.patched],
            [*self.wired],
            self.origin or self,
            self._identity,
        )

    def own(self, below: str = "") -> Node:
        """The nodes, for a change: of anything, or of what lies below one field."""
        if not below or below in _IDENTIFYING:
            self._identity = None
        if self.shared:
            self.node = self.node.copy()
            self.shared = False
        return self.node

    def renamed(self) -> None:
        """Read anew what the object is called: it was changed since `own`."""
        self._identity = None

    @property
    def identity(self) -> _Identity:
        """What the nodes say now."""
        if self._identity is None:
            node = self.node
            kind, api_version = text_of(node.child("kind")), text_of(node.child("apiVersion"))
            name, namespace = text_of(node.at(("metadata", "name"))), text_of(node.at(("metadata", "namespace")))
            group, _, version = api_version.rpartition("/")
            scoped = kind in _CLUSTER_SCOPED and (group in _BUILTIN_GROUPS or group.endswith(".k8s.io"))
            ids = (Id(kind, name, namespace), *self.previous)
            self._identity = _Identity(api_version, (group, version), kind, name, namespace, scoped, ids)
        return self._identity

    @property
    def kind(self) -> str:
        return self.identity.kind

    @property
    def api_version(self) -> str:
        return self.identity.api_version

    @property
    def group_version(self) -> tuple[str, str]:
        return self.identity.group_version

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def namespace(self) -> str:
        return self.identity.namespace

    @property
    def cluster_scoped(self) -> bool:
        return self.identity.cluster_scoped

    @property
    def ids(self) -> tuple[Id, ...]:
        """The current id and all former ones."""
        return self.identity.ids

    @property
    def original(self) -> Id:
        """The first id, its namespace effective."""
        return self.previous[0] if self.previous else Id(self.kind, self.name, self.effective_namespace)

    @property
    def effective_namespace(self) -> str:
        if self.cluster_scoped:
            return "_non_namespaceable_"
        return self.namespace or "default"

    def remember(self) -> None:
        """Keep the current id as a former one: a name, kind or namespace is about to change."""
        self.previous = (*self.previous, Id(self.kind, self.name, self.effective_namespace))
        self._identity = None

    def strings(self, name: str) -> Mapping[str, str]:
        """Labels or annotations."""
        node = self.node.at(("metadata", name))
        if node is None or type(node.value) is not dict:
            return {}
        return {key: text_of(child) for key, child in node.value.items()}

    @property
    def is_local(self) -> bool:
        """True where kustomize reads the object and does not print it."""
        value = self.strings("annotations").get(LOCAL_CONFIG)
        return value is not None and value != "false"

    def fits(self, selector: Selector) -> bool:
        """Whether a patch's target means this object: by its first or current name and namespace."""
        group, version = self.group_version
        original = self.original
        namespace, name = whole(selector.namespace), whole(selector.name)
        return (
            whole(selector.kind)(self.kind)
            and (name(original.name) or name(self.name))
            and (namespace(original.namespace) or namespace(self.effective_namespace))
            and whole(selector.group)(group)
            and whole(selector.version)(version)
            and self.carries(selector)
        )

    def carries(self, selector: Selector) -> bool:
        """Whether labels and annotations are what the selector asks for."""
        return (not selector.labels or labels_match(selector.labels, self.strings("labels"))) and (
            not selector.annotations or labels_match(selector.annotations, self.strings("annotations"))
        )

    def has_id(self, api_version: str, kind: str, name: str, namespace: str) -> bool:
        """Whether this object has or had an id; an empty namespace is `default`."""
        if self.api_version != api_version:
            return False
        scoped = "_non_namespaceable_"
        wanted = namespace or "default"
        return any(
            former.kind == kind
            and former.name == name
            and (self.cluster_scoped or former.namespace == scoped or (former.namespace or "default") == wanted)
            for former in self.ids
        )


def text_of(node: Node | None) -> str:
    """The text of a scalar as written; empty for anything else."""
    if node is None:
        return ""
    return node.text if type(node.value) is not dict and type(node.value) is not list else ""


def string(text: str, raw: RawMark | None, key_raw: RawMark | None = None, style: str = "") -> Node:
    """A string node."""
    return Node(text, raw, key_raw, style, text, "str")


def retyped(source: Node, text: str, target: Node) -> Node:
    """A scalar with the text and place of one node and the type of another, as kustomize copies values."""
    if target.tag == "str":
        return Node(text, source.raw, target.key_raw, source.style, text, "str")
    tag, value = resolve(text, None, plain=True)
    return Node(value, source.raw, target.key_raw, source.style, text, tag)


def empty_map(key_raw: RawMark | None = None) -> Node:
    """A map that nobody wrote."""
    return Node({}, None, key_raw, "", "", "map")
