"""The hosts that mpirun, horovodrun and deepspeed are given, in words or in a hostfile that a ConfigMap holds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainyard.objects.objects import Object, Spot
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import digits, entries, mapping, sequence, text
from trainyard.workload.script_files import written

_LISTED = {"mpirun": "host", "horovodrun": "hosts"}
_NAMING = ("app", "config_file", "host", "host_discovery_script", "hostfile", "hosts", "jsrun")
_OF_DEEPSPEED = "/job/hostfile"
"""Where deepspeed looks for a hostfile that it is not told of."""
_OF_SCHEDULERS = re.compile(r"(LSB|PBS|PMIX?|SLURM)_|.*host_?file", re.IGNORECASE)
"""Variables from which an MPI takes its hosts."""
_ITEM = re.compile(r"(?P<host>[A-Za-z0-9.-]{1,253})(?::(?P<slots>[0-9]{1,6}))?\Z")
_SLOTS = re.compile(r"(?:^|\s)slots[ \t]*=[ \t]*(?P<slots>[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class ListedHost:
    """One host of a launcher's list."""

    host: str
    slots: int | None
    """Ranks that it takes; None where the list does not say."""
    spot: Spot
    """The option, or the file's key in its ConfigMap."""


def listed_hosts(workload: Workload, pod_set: PodSet, container: Container) -> tuple[ListedHost, ...]:
    """The hosts of a launcher, as far as manifests and controllers show them; empty where nothing is known of them."""
    launch = container.launch
    if launch is None:
        return ()
    listed = launch.option(_LISTED.get(launch.launcher, ""))
    if listed is not None:
        return tuple(_in_words(listed.value, listed.spot)) if isinstance(listed.value, str) else ()
    if launch.launcher not in (*_LISTED, "deepspeed"):
        return ()
    named = launch.option("hostfile")
    variable = container.env.get("OMPI_MCA_orte_default_hostfile") if launch.launcher == "mpirun" else None
    path = named.value if named is not None else variable.value if variable is not None else None
    found = None
    if isinstance(path, str):
        made = (file for file in written(container) if file.path == path)
        found = next(((file.text, file.spot) for file in made), None) or _file(workload, pod_set, container, path)
    return () if found is None else tuple(_in_file(*found))


def hosts_may_be_known(pod_set: PodSet, container: Container) -> bool:
    """Whether a launcher may know of other hosts: by an option, a variable, or a file that a volume or a script brings.

    False for one that surely starts the ranks of its own pod alone.
    """
    launch = container.launch
    if launch is None or not launch.complete or any(map(_OF_SCHEDULERS.match, container.env)):
        return True
    given = (launch.option(name) for name in _NAMING)
    if any(option is not None and not option.implied for option in given):
        return True
    if launch.launcher != "deepspeed":
        return False
    path = PurePosixPath(_OF_DEEPSPEED)
    mounts = (mount for each in pod_set.containers for _, mount in entries(each.data.get("volumeMounts")))
    if any(PurePosixPath(text(mount.get("mountPath"))) in (path, *path.parents) for mount in mounts):
        return True
    every = (*pod_set.containers, *pod_set.init_containers)
    words = (item for each in every for field in ("command", "args") for item in sequence(each.data.get(field)))
    return any(path.name in str(word) for word in words)


def _in_words(words: str, spot: Spot) -> Iterator[ListedHost]:
    for item in words.split(","):
        if match := _ITEM.match(item.strip()):
            yield ListedHost(match["host"], digits(match["slots"]), spot)


def _in_file(content: str, spot: Spot) -> Iterator[ListedHost]:
    for line in content.splitlines():
        host, _, rest = line.partition("#")[0].strip().partition(" ")
        if match := _ITEM.match(host):
            found = _SLOTS.search(rest) or match
            yield ListedHost(match["host"], digits(found["slots"]), spot)


def _file(workload: Workload, pod_set: PodSet, container: Container, path: str) -> tuple[str, Spot] | None:
    """The content of a file that a ConfigMap holds, and the key that holds it."""
    wanted = PurePosixPath(path)
    maps = {item.name: item for item in workload.of_kind("ConfigMap")}
    for _, mount in entries(container.data.get("volumeMounts")):
        at = PurePosixPath(text(mount.get("mountPath")))
        below = text(mount.get("subPath"))
        if wanted != at and (below or at not in wanted.parents):
            continue
        name = below or wanted.relative_to(at).as_posix()
        for _, volume in entries(pod_set.spec.get("volumes")):
            source = mapping(volume.get("configMap"))
            found = maps.get(text(source.get("name")))
            if volume.get("name") == mount.get("name") and found is not None:
                return _content(found, name, sequence(source.get("items")))
    return None


def _content(found: Object, name: str, items: list[object]) -> tuple[str, Spot] | None:
    keys = {text(item.get("path")): text(item.get("key")) for _, item in entries(items)} if items else {name: name}
    content = mapping(found.data.get("data")).get(keys.get(name, ""))
    return (content, found.at("data", keys[name])) if isinstance(content, str) else None
