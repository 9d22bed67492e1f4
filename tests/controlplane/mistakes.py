"""Wrong predictions, one a name: a comparison that is worth its name says of each what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trainyard.workload.model import Container, EnvVar, PodSet, Setting, Workload

Change = Callable[[PodSet], PodSet]


def wrong(workload: Workload, change: Change) -> Workload:
    """The workload with a mistake in every pod set; it may be none, where no pod set has what the mistake is about."""
    return replace(workload, pod_sets=tuple(map(change, workload.pod_sets)))


def _in_container(**changes: Any) -> Change:
    def change(pod_set: PodSet) -> PodSet:
        first, *rest = pod_set.containers
        return replace(pod_set, containers=(replace(first, **changes), *rest))

    return change


def _count(pod_set: PodSet) -> PodSet:
    return replace(pod_set, count=replace(pod_set.count, value=pod_set.count.value + 1))


def _role(pod_set: PodSet) -> PodSet:
    return replace(pod_set, role="trainers")


def _hostnames(pod_set: PodSet) -> PodSet:
    return replace(pod_set, hostnames=tuple(f"{name}-x" for name in pod_set.hostnames))


def _order(pod_set: PodSet) -> PodSet:
    return replace(pod_set, hostnames=pod_set.hostnames[::-1])


def _subdomain(pod_set: PodSet) -> PodSet:
    if pod_set.subdomain is None:
        return pod_set
    return replace(pod_set, subdomain=replace(pod_set.subdomain, value="elsewhere"))


def _label(pod_set: PodSet) -> PodSet:
    return replace(pod_set, labels={**pod_set.labels, "app.kubernetes.io/part-of": "x"})


def _annotation(pod_set: PodSet) -> PodSet:
    return replace(pod_set, annotations={**pod_set.annotations, "app.kubernetes.io/part-of": "x"})


def _volume(pod_set: PodSet) -> PodSet:
    volumes = pod_set.spec.get("volumes")
    return replace(pod_set, spec={**pod_set.spec, "volumes": volumes[1:]}) if volumes else pod_set


def _field(pod_set: PodSet) -> PodSet:
    return replace(pod_set, spec={**pod_set.spec, "restartPolicy": "Always"})


def _more_field(pod_set: PodSet) -> PodSet:
    return replace(pod_set, spec={**pod_set.spec, "priorityClassName": "high"})


def _amount(pod_set: PodSet) -> PodSet:
    limits = pod_set.containers[0].limits
    return _in_container(limits={name: Setting("7", limit.spot) for name, limit in limits.items()})(pod_set)


def _mount(pod_set: PodSet) -> PodSet:
    first = pod_set.containers[0]
    mounts = [*(first.data.get("volumeMounts") or []), {"name": "tmp", "mountPath": "/tmp"}]
    return _in_container(data={**first.data, "volumeMounts": mounts})(pod_set)


def _value(pod_set: PodSet) -> PodSet:
    return _in_container(env=_changed(pod_set.containers[0]))(pod_set)


def _changed(container: Container) -> Mapping[str, EnvVar]:
    return {name: each if each.value is None else replace(each, value="99") for name, each in container.env.items()}


def _more_env(pod_set: PodSet) -> PodSet:
    first = pod_set.containers[0]
    return _in_container(env={**first.env, "RANKS": EnvVar("RANKS", "8", first.spot)})(pod_set)


def _fewer_env(pod_set: PodSet) -> PodSet:
    return _in_container(env=dict(list(pod_set.containers[0].env.items())[1:]))(pod_set)


def _init_container(pod_set: PodSet) -> PodSet:
    return replace(pod_set, init_containers=(*pod_set.init_containers, pod_set.containers[0]))


MISTAKES: Mapping[str, tuple[Change, str]] = {
    "one pod more": (_count, " pods are predicted, "),
    "other roles": (_role, "roles is "),
    "other host names": (_hostnames, ": host names is "),
    "ranks in the other order": (_order, ": host names is "),
    "other subdomain": (_subdomain, "subdomain is 'elsewhere' in the prediction"),
    "one label more": (_label, "labels: app.kubernetes.io/part-of is 'x' in the prediction"),
    "one annotation more": (_annotation, "annotations: app.kubernetes.io/part-of is 'x' in the prediction"),
    "one volume less": (_volume, "volumes: "),
    "other restart policy": (_field, "restartPolicy is 'Always' in the prediction"),
    "a priority class": (_more_field, "priorityClassName is 'high' in the prediction"),
    "other limits": (_amount, ": limits: "),
    "one mount more": (_mount, ": volumeMounts is "),
    "other container": (_in_container(name="other"), "containers is ['other'"),
    "other image": (_in_container(image="other"), "image is 'other' in the prediction"),
    "other values": (_value, "variables: "),
    "one variable more": (_more_env, "variables: RANKS is '8' in the prediction"),
    "one variable less": (_fewer_env, "variables: "),
    "one init container more": (_init_container, "init containers is "),
}
"""Mistakes, and what is said of each."""
