"""Pods that a controller makes from one template."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.containers import container
from trainyard.workload.environment import InjectedVariable, in_namespace
from trainyard.workload.model import PodSet, Setting, Word
from trainyard.workload.plain import entries, mapping, sequence, strings, text

MOST_HOSTNAMES = 20_000
"""Beyond so many pods of one role they are not listed. The largest training runs have a tenth of it."""

Inject = Callable[[int, str], Sequence[InjectedVariable]]
"""What a controller adds to the environment of the container at an index, by its name."""


def numbered(prefix: str, count: int | None) -> tuple[str, ...]:
    """`{prefix}-0` to `{prefix}-{count-1}`; empty where the count is not known or beyond all reason."""
    if count is None or count > MOST_HOSTNAMES or not prefix:
        return ()
    return tuple(f"{prefix}-{index}" for index in range(count))


def places(counts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """(role, index) of every pod of some roles; none of a role that has pods beyond all reason."""
    return tuple((role, index) for role, count in counts if count <= MOST_HOSTNAMES for index in range(count))


def indices(jobs: int, pods: int) -> tuple[tuple[int, int], ...]:
    """(job, pod) of every pod of some Jobs; none where they are beyond all reason."""
    if not 0 < jobs * pods <= MOST_HOSTNAMES:
        return ()
    return tuple((job, pod) for job in range(jobs) for pod in range(pods))


def object_name(item: Object) -> str:
    """`metadata.name`; empty where the API server makes the name up."""
    return text(mapping(item.data.get("metadata")).get("name"))


def pod_set(
    *,
    role: str,
    count: Setting,
    template: Mapping[Any, Any],
    spot: Spot,
    objects: Sequence[Object],
    hostnames: tuple[str, ...] = (),
    pod_names: tuple[str, ...] = (),
    subdomain: Setting | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    inject: Inject | None = None,
    inject_init: Inject | None = None,
    default: Mapping[int, Sequence[Word]] | None = None,
    added: Sequence[Mapping[str, Any]] = (),
    added_init: Sequence[Mapping[str, Any]] = (),
) -> PodSet:
    """The pods made from the template at `spot`.

    `hostnames` and `subdomain` are what the controller sets; where it sets none, the template's own count. `pod_names`
    are the pods' names where they are known. `labels` and `annotations` are those that the controller adds, `overrides`
    the fields of the pod's spec that it sets, `default` the command line that it gives a container that has none, by
    index, and `added` and `added_init` the containers that it adds behind the template's own.
    """
    spec = dict(mapping(template.get("spec"))) | dict(overrides or {})
    own, own_init = (len(sequence(spec.get(field))) for field in ("containers", "initContainers"))
    for field, more in (("containers", added), ("initContainers", added_init)):
        if more:
            spec[field] = [*sequence(spec.get(field)), *more]
    metadata = mapping(template.get("metadata"))
    all_labels = strings(metadata.get("labels")) | dict(labels or {})
    all_annotations = strings(metadata.get("annotations")) | dict(annotations or {})
    namespace = spot.object.namespace
    fields = {f"metadata.labels['{key}']": value for key, value in all_labels.items()}
    fields |= {f"metadata.annotations['{key}']": value for key, value in all_annotations.items()}
    if namespace:
        fields["metadata.namespace"] = namespace
    if len(pod_names) == 1:
        fields["metadata.name"] = pod_names[0]
    sources = in_namespace(objects, namespace)
    own_hostname = text(spec.get("hostname"))
    own_subdomain = text(spec.get("subdomain"))
    if not hostnames and own_hostname and isinstance(count.value, int) and count.value <= MOST_HOSTNAMES:
        hostnames = (own_hostname,) * count.value
    if subdomain is None and own_subdomain:
        subdomain = Setting(own_subdomain, spot.below("spec", "subdomain"))
    return PodSet(
        role=role,
        count=count,
        template=spot,
        hostnames=hostnames or pod_names,
        subdomain=subdomain,
        labels=all_labels,
        containers=tuple(
            container(
                data,
                spot.below("spec", "containers", index),
                sources=sources,
                fields=fields,
                injected=inject(index, text(data.get("name"))) if inject else (),
                default=(default or {}).get(index, ()),
                by_controller=index >= own,
                pod=spec,
            )
            for index, data in entries(spec.get("containers"))
        ),
        init_containers=tuple(
            container(
                data,
                spot.below("spec", "initContainers", index),
                sources=sources,
                fields=fields,
                injected=inject_init(index, text(data.get("name"))) if inject_init else (),
                by_controller=index >= own_init,
                pod=spec,
            )
            for index, data in entries(spec.get("initContainers"))
        ),
        spec=spec,
        annotations=all_annotations,
    )
