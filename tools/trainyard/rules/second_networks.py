"""Networks that Multus adds to pods, and the devices that operators hand out, against what pods ask for."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.rules.common.counts import number
from trainyard.rules.common.once import once
from trainyard.rules.common.pods import is_rdma
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload
from trainyard.workload.plain import digits, mapping, sequence, strings, text

NETWORKS = "k8s.v1.cni.cncf.io/networks"
_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
_ITEM = re.compile(r"(?:(?P<namespace>[^/@]+)/)?(?P<name>[^/@]+)(?:@.*)?\Z")
_POD_ANNOTATIONS = {
    NETWORKS: "networks of the pods",
    "gke-gcsfuse/volumes": "the sidecar of the pods' buckets",
    "networking.gke.io/interfaces": "interfaces of the pods",
    "sidecar.istio.io/inject": "the mesh's proxy",
    "linkerd.io/inject": "the mesh's proxy",
}


@rule("SNW001", "network-unknown", Severity.ERROR, needs=Workload)
@once
def network_unknown(workload: Workload) -> Iterator[Problem]:
    """The pods ask Multus for a network that is not there, though others are.

    Multus looks in the pods' own namespace, unless the name says `namespace/name`. It does not find the network, and
    the pods stay in ContainerCreating.

    Bad:
        kind: NetworkAttachmentDefinition
        apiVersion: k8s.cni.cncf.io/v1
        metadata: {name: rail-0, namespace: network}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail-0}}}}
    Good:
        kind: NetworkAttachmentDefinition
        apiVersion: k8s.cni.cncf.io/v1
        metadata: {name: rail-0, namespace: network}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: network/rail-0}}}}
    Near miss:
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail-0}}}}

    Source: https://github.com/k8snetworkplumbingwg/multus-cni/blob/master/docs/how-to-use.md
    """
    known = [item for item in workload.objects if item.kind == "NetworkAttachmentDefinition"]
    for pod_set in workload.pod_sets:
        for namespace, name in _networks(workload, pod_set) if known else ():
            if _definition(workload, namespace, name) is not None:
                continue
            others = [item for item in known if item.name == name]
            place = f", only in {others[0].namespace}" if others else ""
            qualified = ", ".join(sorted({f"{item.namespace}/{item.name}" for item in others or known}))
            yield Problem(
                f"there is no network {name} in namespace {namespace or 'default'}{place}",
                pod_set.template.below("metadata", "annotations", NETWORKS, label="Multus does not find it"),
                tuple(item.at("metadata", "name", label="a network") for item in others or known),
                f"name one of {qualified}",
            )


@rule("SNW002", "network-without-its-device", Severity.ERROR, needs=Workload)
@once
def network_without_its_device(workload: Workload) -> Iterator[Problem]:
    """The pods ask Multus for more networks of a device pool than they request devices of it.

    A network of virtual functions takes one device for each use, which the pod must request as a resource. With too few
    the pod's network cannot be set up, and it stays in ContainerCreating. A network-resources-injector adds the
    requests by itself; where one is shown, the rule is silent.

    Bad:
        kind: NetworkAttachmentDefinition
        apiVersion: k8s.cni.cncf.io/v1
        metadata: {name: rail, namespace: research, annotations: {k8s.v1.cni.cncf.io/resourceName: nvidia.com/rail}}
        ---
        kind: Job
        spec: {template: {
          metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail,rail"}},
          spec: {containers: [{name: trainer, resources: {limits: {nvidia.com/rail: 1}}}]}}}
    Good:
        kind: NetworkAttachmentDefinition
        apiVersion: k8s.cni.cncf.io/v1
        metadata: {name: rail, namespace: research, annotations: {k8s.v1.cni.cncf.io/resourceName: nvidia.com/rail}}
        ---
        kind: Job
        spec: {template: {
          metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail,rail"}},
          spec: {containers: [{name: trainer, resources: {limits: {nvidia.com/rail: 2}}}]}}}
    Near miss:
        kind: NetworkAttachmentDefinition
        apiVersion: k8s.cni.cncf.io/v1
        metadata: {name: rail, namespace: research}
        ---
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: "rail,rail"}}}}

    Source: https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin
    """
    if any("network-resources-injector" in item.name for item in workload.objects):
        return
    for pod_set in workload.pod_sets:
        uses: Counter[str] = Counter()
        definitions: dict[str, Object] = {}
        for namespace, name in _networks(workload, pod_set):
            found = _definition(workload, namespace, name)
            annotations = strings(mapping(found.data.get("metadata")).get("annotations")) if found else {}
            if found is not None and (resource := annotations.get(_RESOURCE)):
                uses[resource] += 1
                definitions[resource] = found
        for resource, count in uses.items():
            asked = sum(
                _whole(container.limits[resource].value)
                for container in pod_set.containers
                if resource in container.limits
            )
            main = pod_set.main()
            if asked >= count or main is None:
                continue
            yield Problem(
                f"the pods use {number(count, 'network')} of {resource}, but request {asked} of it",
                main.spot.below("resources", "limits", resource, label=f"expected {count}"),
                (
                    pod_set.template.below("metadata", "annotations", NETWORKS, label=number(count, "network")),
                    definitions[resource].at("metadata", "annotations", _RESOURCE, label="one device each"),
                ),
                f"request {resource}: {count} in limits",
            )


@rule("SNW003", "annotation-beside-the-pods", Severity.ERROR, needs=Workload)
@once
def annotation_beside_the_pods(workload: Workload) -> Iterator[Problem]:
    """An annotation that is read on pods stands on the job, which does not hand it on.

    Multus, the sidecar injectors of a mesh and GKE look at the pod. What stands in the metadata of the job is never
    seen by them: the pods come without the network or with the proxy.

    Bad:
        kind: Job
        metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail-0}}
    Good:
        kind: Job
        spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail-0}}}}
    Near miss:
        kind: Job
        metadata: {annotations: {k8s.v1.cni.cncf.io/network-status: "[]"}}

    Source: https://kubernetes.io/docs/concepts/workloads/pods/#pod-templates
    """
    metadata = mapping(workload.object.data.get("metadata"))
    for field in ("annotations", "labels"):
        for key, what in _POD_ANNOTATIONS.items():
            if key not in mapping(metadata.get(field)) or not workload.pod_sets:
                continue
            if any(key in pod_set.annotations or key in pod_set.labels for pod_set in workload.pod_sets):
                continue
            yield Problem(
                f"{key} is about {what}, but stands on the {workload.object.kind}",
                workload.object.at("metadata", field, key, label="not handed on to the pods"),
                tuple(each.template.below("metadata", field, label="it belongs here") for each in workload.pod_sets),
                "move it to the metadata of the pod template",
            )


@rule("SNW004", "device-nobody-offers", Severity.ERROR, needs=Workload)
@once
def device_nobody_offers(workload: Workload) -> Iterator[Problem]:
    """The pods request an RDMA device under a name that the cluster's device plugin does not use.

    No node has that resource, and the pods stay Pending. The plugin's configuration gives the name: the shared device
    plugin offers `rdma/<resourceName>`, the SR-IOV one `<resourcePrefix>/<resourceName>`.

    Bad:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: rdma-devices, namespace: kube-system}
        data: {config.json: '{"configList": [{"resourceName": "hca_shared_devices_a", "rdmaHcaMax": 63}]}'}
    Good:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: rdma-devices, namespace: kube-system}
        data: {config.json: '{"configList": [{"resourceName": "hca", "rdmaHcaMax": 63}]}'}
    Near miss:
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: rdma-devices, namespace: kube-system}
        data: {config.json: '{"configList": []}'}

    Source: https://github.com/Mellanox/k8s-rdma-shared-dev-plugin
    """
    offered = {name: spot for item in workload.objects for name, spot in _offered(item)}
    for pod_set in workload.pod_sets if offered else ():
        for container in pod_set.containers:
            for name, limit in container.limits.items():
                if name in offered or not (is_rdma(name) or name.partition("/")[0] in _prefixes(offered)):
                    continue
                if name.endswith("/gpu") or name.startswith("nvidia.com/mig-"):
                    continue
                yield Problem(
                    f"the pods request {name}, but the device plugin offers {', '.join(sorted(offered))}",
                    limit.spot.saying("no node has this"),
                    tuple(dict.fromkeys(spot.saying("what is offered") for spot in offered.values())),
                    f"request {min(offered)}",
                )


def _networks(workload: Workload, pod_set: PodSet) -> Iterator[tuple[str, str]]:
    """Namespace and name of each network that the pods ask for, as often as they do."""
    written = pod_set.annotations.get(NETWORKS, "")
    items: list[Any]
    if written.lstrip().startswith("["):
        try:
            items = sequence(json.loads(written))
        except (ValueError, RecursionError):
            items = []
    else:
        items = [item.strip() for item in written.split(",") if item.strip()]
    for item in items:
        if isinstance(item, dict):
            yield text(item.get("namespace")) or workload.object.namespace, text(item.get("name"))
        elif isinstance(item, str) and (match := _ITEM.match(item)) is not None:
            yield match["namespace"] or workload.object.namespace, match["name"]


def _definition(workload: Workload, namespace: str, name: str) -> Object | None:
    for item in workload.objects:
        if item.kind == "NetworkAttachmentDefinition" and (item.namespace, item.name) == (namespace, name):
            return item
    return None


def _offered(item: Object) -> Iterator[tuple[str, Spot]]:
    """The resources that a device plugin offers, as its configuration names them."""
    spec = mapping(item.data.get("spec"))
    if item.kind == "NicClusterPolicy":
        for plugin in ("rdmaSharedDevicePlugin", "sriovDevicePlugin"):
            config = text(mapping(spec.get(plugin)).get("config"))
            yield from ((name, item.at("spec", plugin, "config")) for name in _resources(config))
    elif item.kind == "ConfigMap":
        for key, config in strings(item.data.get("data")).items():
            if "resourceName" in config and ("configList" in config or "resourceList" in config):
                yield from ((name, item.at("data", key)) for name in _resources(config))


def _resources(config: str) -> Iterator[str]:
    try:
        tree: Mapping[str, Any] = mapping(json.loads(config))
    except (ValueError, RecursionError):
        return
    for field, prefix in (("configList", "rdma"), ("resourceList", "intel.com")):
        for entry in sequence(tree.get(field)):
            name = text(mapping(entry).get("resourceName"))
            if name:
                yield f"{text(mapping(entry).get('resourcePrefix')) or prefix}/{name}"


def _prefixes(offered: Mapping[str, Spot]) -> set[str]:
    return {name.partition("/")[0] for name in offered if name.startswith("rdma/")}


def _whole(value: Any) -> int:
    return digits(str(value)) or 0 if isinstance(value, int | str) else 0
