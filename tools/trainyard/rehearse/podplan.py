"""A pod as the kubelet would start it: every container's command line, environment, mounts and probes."""

import base64
import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.objects.objects import Object
from trainyard.objects.quantity import quantity
from trainyard.rehearse.disk.slow import Place, Source
from trainyard.rehearse.members import Member
from trainyard.rehearse.probes import FIELDS, Kind, Probe, probe
from trainyard.rehearse.submitter import submits
from trainyard.rehearse.substitutes import Substitutes
from trainyard.workload.environment import replaced
from trainyard.workload.kuberay import DASHBOARD_PORT
from trainyard.workload.model import Container, Workload
from trainyard.workload.plain import count, entries, mapping, sequence, strings, text
from trainyard.workload.ray import SUBMITTER

GRACE_SECONDS = 30
"""Kubernetes' terminationGracePeriodSeconds where a pod says none."""
WORKING_FOLDER = "/opt/trainyard"
"""Of trainer/image/Dockerfile."""
ROOT_HOME = "/root"
_RAY_AGENT_PORT = 52365
IMAGE_VARIABLES = {"PYTHONPATH": WORKING_FOLDER, "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume of the pod in one container."""

    volume: str
    path: str
    read_only: bool = False
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container, ready to be started."""

    name: str
    source: Container
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    mounts: tuple[Mount, ...]
    folder: str
    user: int
    group: int
    sidecar: bool = False
    """An init container that goes on beside the others (restartPolicy: Always)."""
    probes: Mapping[Kind, Probe] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod, ready to be started."""

    member: Member
    namespace: str
    containers: tuple[ContainerPlan, ...]
    init: tuple[ContainerPlan, ...]
    volumes: Mapping[str, Mapping[str, Any]]
    restart_policy: str
    grace: float

    @property
    def name(self) -> str:
        """Its name in reports, unique in the job."""
        return self.member.name

    def writes_of(self, container: ContainerPlan) -> Source:
        """Where a container's writes go: its mounts, and the claims among them."""
        claims = {
            name: text(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
            for name, volume in self.volumes.items()
        }
        return Source(self.name, tuple(Place(each.path, claims.get(each.volume, "")) for each in container.mounts))

    @property
    def ports(self) -> dict[str, int]:
        """Named ports of its containers."""
        return {
            text(port.get("name")): number
            for container in (*self.containers, *self.init)
            for _, port in entries(container.source.data.get("ports"))
            if port.get("name") and (number := count(port.get("containerPort"))) is not None
        }


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A value that no manifest holds and that the rehearsal invents."""

    kind: str
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """What the network tells of a pod before it starts."""

    address: str
    variables: Mapping[str, str]
    """Those that the kubelet makes of Services."""
    interfaces: Mapping[str, str]
    """Variables that name a network interface, where the pod's has another name than in the cluster."""
    localise: Callable[[str], str]
    """Names replaced by addresses where names do not resolve."""


def pod_plan(
    workload: Workload, member: Member, known: PodNetwork, substitutes: Substitutes, made_up: list[MadeUp]
) -> PodPlan:
    """The plan of one pod. What is invented is added to `made_up`."""
    pod_set = member.pod_set
    kubelet = _Kubelet(workload, member, known, substitutes, made_up)
    grace = pod_set.spec.get("terminationGracePeriodSeconds")
    return PodPlan(
        member=member,
        namespace=workload.object.namespace,
        containers=tuple(kubelet.container(each) for each in pod_set.containers),
        init=tuple(kubelet.container(each, init=True) for each in pod_set.init_containers),
        volumes={text(volume.get("name")): volume for _, volume in entries(pod_set.spec.get("volumes"))},
        restart_policy=text(pod_set.spec.get("restartPolicy")) or "Always",
        grace=GRACE_SECONDS if grace is None else float(count(grace) or 0),
    )


def secret_value(name: str, key: str) -> str:
    """A made-up value of a Secret, the same for all who ask."""
    return hashlib.sha256(f"{name}/{key}".encode()).hexdigest()[:32]


def object_of(objects: Sequence[Object], kind: str, namespace: str, name: str) -> Object | None:
    """An object by its name."""
    for item in objects:
        if item.kind == kind and item.name == name and item.namespace == namespace:
            return item
    return None


def values_of(item: Object) -> dict[str, str]:
    """Keys and values of a ConfigMap or a Secret."""
    data = mapping(item.data.get("data"))
    if item.kind == "ConfigMap":
        return strings(data)
    decoded = {}
    for key, value in strings(data).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True).decode(errors="replace")
        except ValueError:
            decoded[key] = value
    return decoded | strings(item.data.get("stringData"))


@dataclass(frozen=True, slots=True)
class _Kubelet:
    """What the kubelet knows of one pod."""

    workload: Workload
    member: Member
    known: PodNetwork
    substitutes: Substitutes
    made_up: list[MadeUp]

    def container(self, source: Container, *, init: bool = False) -> ContainerPlan:
        data, substitutes = source.data, self.substitutes
        own = self._environment(source)
        command = sequence(data.get("command")) + sequence(data.get("args"))
        words = [_expanded(str(word), own) for word in command] or [word.text for word in source.words]
        if not words and self.member.pod_set.role == SUBMITTER and source is self.member.pod_set.containers[0]:
            words = list(submits(self.workload.object))
        localise = self.known.localise
        variables = {name: localise(value) for name, value in substitutes.variables(own, source).items()}
        security = {**mapping(self.member.pod_set.spec.get("securityContext")), **mapping(data.get("securityContext"))}
        user = count(security.get("runAsUser")) or 0
        home = ROOT_HOME if user == 0 else "/home/trainer"
        return ContainerPlan(
            name=source.name,
            source=source,
            command=tuple(localise(word) for word in substitutes.words(words, source)),
            environment={"HOME": home, "HOSTNAME": self.member.hostname} | IMAGE_VARIABLES | variables,
            mounts=tuple(_mounts(data, own)),
            folder=text(data.get("workingDir")) or WORKING_FOLDER,
            user=user,
            group=count(security.get("runAsGroup")) or 0,
            sidecar=init and data.get("restartPolicy") == "Always",
            probes=self._probes(source),
        )

    def _probes(self, source: Container) -> dict[Kind, Probe]:
        found = {kind: asked for kind in FIELDS if (asked := probe(source.data, kind)) is not None}
        made = self._of_ray(source)
        return found if made is None else {"readiness": made, **found}

    def _of_ray(self, source: Container) -> Probe | None:
        """The probe that KubeRay gives the first container of its pods: the dashboard's port, or that of its agent."""
        kind = self.member.labels.get("ray.io/node-type")
        if kind is None or source.name != self.member.pod_set.containers[0].name:
            return None
        return Probe(port=DASHBOARD_PORT if kind == "head" else _RAY_AGENT_PORT)

    def _environment(self, source: Container) -> dict[str, str]:
        """Variables as the container finds them, in the kubelet's order."""
        found = dict(self.known.variables)
        for _, each in entries(source.data.get("envFrom")):
            prefix = text(each.get("prefix"))
            for field_name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                named = mapping(each.get(field_name))
                item = object_of(self.workload.objects, kind, self.workload.object.namespace, text(named.get("name")))
                for key, value in values_of(item).items() if item is not None else ():
                    found[prefix + key] = value
        for _, each in entries(source.data.get("env")):
            name = text(each.get("name"))
            if "valueFrom" not in each:
                found[name] = _expanded(text(each.get("value")), found)
            elif (read := self._from(mapping(each.get("valueFrom")), source)) is not None:
                found[name] = read
        for name, variable in source.env.items():
            if variable.origin == "controller":
                told = self.member.variables.get(name) if variable.value is None else variable.value
                if told is not None:
                    found[name] = told
        for name, interface in self.known.interfaces.items():
            if name in found:
                found[name] = interface
        return found

    def _from(self, value_from: Mapping[Any, Any], source: Container) -> str | None:
        if isinstance(value_from.get("fieldRef"), dict):
            return self.field(text(value_from["fieldRef"].get("fieldPath")))
        if isinstance(value_from.get("resourceFieldRef"), dict):
            return resource(source, mapping(value_from["resourceFieldRef"]))
        for field_name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if isinstance(named := value_from.get(field_name), dict):
                return self._key(kind, text(named.get("name")), text(named.get("key")), named.get("optional") is True)
        return None

    def _key(self, kind: str, name: str, key: str, optional: bool) -> str | None:
        item = object_of(self.workload.objects, kind, self.workload.object.namespace, name)
        value = None if item is None else values_of(item).get(key)
        if value is not None or optional:
            return value
        self.made_up.append(MadeUp(kind, name, key))
        return secret_value(name, key)

    def field(self, path: str) -> str | None:
        """A field of the downward API."""
        member, spec = self.member, self.member.pod_set.spec
        known = {
            "metadata.name": member.name,
            "metadata.namespace": self.workload.object.namespace,
            "metadata.uid": hashlib.sha256(member.name.encode()).hexdigest()[:36],
            "spec.nodeName": f"node-of-{member.name}",
            "spec.serviceAccountName": text(spec.get("serviceAccountName")) or "default",
            "status.podIP": self.known.address,
            "status.podIPs": self.known.address,
            "status.hostIP": self.known.address,
        }
        for prefix, values in (("metadata.labels", member.labels), ("metadata.annotations", member.annotations)):
            known |= {f"{prefix}['{key}']": value for key, value in values.items()}
        return known.get(path)


def resource(source: Container, reference: Mapping[Any, Any]) -> str | None:
    """A container's limit or request in units of the divisor, rounded up, as the downward API gives it."""
    kind, _, name = text(reference.get("resource")).partition(".")
    amounts = source.limits if kind == "limits" else source.requests
    found = amounts.get(name)
    amount = None if found is None else quantity(found.value)
    divisor = quantity(reference.get("divisor") or "1") or 1
    return None if amount is None or divisor <= 0 else str(-int(-amount // divisor))


def _expanded(raw: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` and `$$` replaced; a name that is not known stays."""
    return replaced(raw, lambda match: "$" if match[1] is None else variables.get(match[1], match[0]))


def _mounts(data: Mapping[Any, Any], variables: Mapping[str, str]) -> Iterator[Mount]:
    for _, each in entries(data.get("volumeMounts")):
        sub_path = text(each.get("subPath")) or _expanded(text(each.get("subPathExpr")), variables)
        path = posixpath.normpath(text(each.get("mountPath"))).lstrip("/")
        yield Mount(text(each.get("name")), f"/{path}", each.get("readOnly") is True, sub_path)
