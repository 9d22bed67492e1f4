"""batch.volcano.sh/v1alpha1 Job, as Volcano runs it with its plugins (read from v1.15.1)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.objects.objects import Object, Spot
from trainyard.workload.environment import InjectedVariable
from trainyard.workload.made import MadeObject, made_object, part_of
from trainyard.workload.made_names import MadeName
from trainyard.workload.made_services import MadeService
from trainyard.workload.model import PodSet, Setting
from trainyard.workload.plain import count, entries, mapping, sequence, text
from trainyard.workload.pods import MOST_HOSTNAMES, numbered, object_name, places, pod_set

JOB_NAME = "volcano.sh/job-name"
_TASK, _NAMESPACE, _QUEUE, _INDEX = (
    f"volcano.sh/{key}" for key in ("task-spec", "job-namespace", "queue-name", "task-index")
)
_HOSTS_FOLDER, _SSH_FOLDER = "/etc/volcano", "/root/.ssh"
_NEED_NAMES = ("tensorflow", "mpi", "pytorch", "ray")


@dataclass(frozen=True, slots=True)
class _Task:
    """One task of a job."""

    name: str
    data: Mapping[Any, Any]
    spot: Spot
    pods: Setting

    @property
    def pod(self) -> Mapping[Any, Any]:
        return mapping(mapping(self.data.get("template")).get("spec"))


class _Job:
    """A job, its tasks, and the plugins that it asks for, with those that they bring."""

    def __init__(self, job: Object) -> None:
        self.object = job
        self.name = object_name(job)
        self.spec = mapping(job.data.get("spec"))
        self.tasks = tuple(_tasks(job, self.spec))
        self.plugins = {str(name): sequence(given) for name, given in mapping(self.spec.get("plugins")).items()}
        if any(name in self.plugins for name in _NEED_NAMES):
            self.plugins.setdefault("svc", [])
        if "mpi" in self.plugins:
            self.plugins.setdefault("ssh", [])

    def flag(self, plugin: str, name: str, default: str) -> str:
        """An argument of a plugin, as Go's flags read them: `--port=22` or `--port 22`, one hyphen or two."""
        words = [str(word) for word in self.plugins.get(plugin, ())]
        found = default
        for index, word in enumerate(words):
            option, joined, value = word.lstrip("-").partition("=")
            if word.startswith("-") and option == name:
                following = words[index + 1] if index + 1 < len(words) else ""
                found = value if joined else "true" if default in ("true", "false") else following
        return found

    def task(self, name: str) -> _Task | None:
        return next((task for task in self.tasks if task.name == name), None)

    def hosts(self, task: _Task) -> tuple[str, ...]:
        """Names of a task's pods, as the plugins tell them to each other."""
        domain = text(task.pod.get("subdomain")) or self.name
        if own := text(task.pod.get("hostname")):
            return (f"{own}.{domain}",) if task.pods.value else ()
        return tuple(f"{name}.{domain}" for name in numbered(f"{self.name}-{task.name}", task.pods.value))

    def at(self, plugin: str) -> Spot:
        """Where a plugin is asked for."""
        return self.object.at("spec", "plugins", plugin)


def pod_sets(job: Object, objects: Sequence[Object]) -> tuple[PodSet, ...]:
    """One pod set a task, under its name."""
    volcano = _Job(job)
    return tuple(_pod_set(volcano, objects, task) for task in volcano.tasks)


def services(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeService, ...]:
    """The headless Service of the plugin svc, which hides pods that are not ready unless told otherwise."""
    volcano = _Job(job)
    if "svc" not in volcano.plugins or not volcano.name:
        return ()
    shows = volcano.flag("svc", "publish-not-ready-addresses", "false") == "true"
    pods = places((each.role, len(each.hostnames)) for each in pod_sets)
    return (MadeService(volcano.name, pods, publishes_unready=shows),)


def names(job: Object, pod_sets: Sequence[PodSet]) -> tuple[MadeName, ...]:
    """The name of the last pod of each task, which is its host name."""
    spot = job.at("metadata", "name")
    return tuple(MadeName(f"the last {each.role} pod", each.hostnames[-1], spot) for each in pod_sets if each.hostnames)


def made(job: Object, _: Sequence[Object]) -> tuple[MadeObject, ...]:
    """The hosts, the policy and the key that the plugins svc and ssh make."""
    volcano = _Job(job)
    if not volcano.name:
        return ()
    found: list[tuple[str, dict[str, Any]]] = []
    if "svc" in volcano.plugins:
        metadata = {"name": f"{volcano.name}-svc", "namespace": job.namespace}
        hosts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(_hosts_data(volcano))}
        found.append(("svc", hosts))
        if volcano.flag("svc", "disable-network-policy", "false") != "true":
            found.append(("svc", _policy(volcano)))
    if "ssh" in volcano.plugins:
        metadata = {"name": f"{volcano.name}-ssh", "namespace": job.namespace}
        found.append(("ssh", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
    return tuple(made_object(part_of(data, volcano.at(plugin)), job) for plugin, data in found)


def _tasks(job: Object, spec: Mapping[Any, Any]) -> Iterator[_Task]:
    for index, data in entries(spec.get("tasks")):
        spot = job.at("spec", "tasks", index)
        written = data.get("replicas")
        pods = Setting(1, spot, implied=True) if written is None else Setting(count(written), spot.below("replicas"))
        yield _Task(text(data.get("name")) or f"default{index}", data, spot, pods)


def _pod_set(job: _Job, objects: Sequence[Object], task: _Task) -> PodSet:
    names = numbered(f"{job.name}-{task.name}", task.pods.value) if job.name else ()
    own_name, own_domain = text(task.pod.get("hostname")), text(task.pod.get("subdomain"))
    named = "svc" in job.plugins
    subdomain = None
    if own_domain:
        subdomain = Setting(own_domain, task.spot.below("template", "spec", "subdomain"))
    elif named and job.name:
        subdomain = Setting(job.name, job.object.at("metadata", "name"), implied=True)
    labels = {_TASK: task.name, _QUEUE: text(job.spec.get("queue")) or "default"}
    labels |= {JOB_NAME: job.name} if job.name else {}
    labels |= {_NAMESPACE: job.object.namespace} if job.object.namespace else {}
    labels |= {_INDEX: "0"} if task.pods.value == 1 else {}
    return pod_set(
        role=task.name,
        count=task.pods,
        template=mapping(task.data.get("template")),
        spot=task.spot.below("template"),
        objects=objects,
        hostnames=(own_name,) * len(names) if own_name else names if named else (),
        pod_names=names,
        subdomain=subdomain,
        labels=labels,
        annotations={key: value for key, value in labels.items() if key != _NAMESPACE},
        overrides=_overrides(job, task),
        inject=lambda _, __: tuple(_environment(job, task)),
        inject_init=lambda _, __: tuple(_environment(job, task, init=True)),
    )


def _overrides(job: _Job, task: _Task) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not task.pod.get("schedulerName"):
        found["schedulerName"] = text(job.spec.get("schedulerName")) or "volcano"
    if not task.pod.get("priorityClassName") and job.spec.get("priorityClassName"):
        found["priorityClassName"] = job.spec["priorityClassName"]
    if task.pod.get("hostNetwork") is True and not task.pod.get("dnsPolicy"):
        found["dnsPolicy"] = "ClusterFirstWithHostNet"
    if not job.name:
        return found
    volumes, mounts = list(_volumes(job)), list(_mounts(job))
    claims = [(volume, mount) for volume, mount in _claims(job)]
    if volumes or claims:
        added = [*(volume for volume, _ in claims), *volumes]
        found["volumes"] = [*sequence(task.pod.get("volumes")), *added]
        for field, more in (("containers", [*(mount for _, mount in claims), *mounts]), ("initContainers", mounts)):
            found[field] = [
                {**item, "volumeMounts": [*sequence(item.get("volumeMounts")), *more]}
                if isinstance(item, dict)
                else item
                for item in sequence(task.pod.get(field))
            ]
    return found


def _volumes(job: _Job) -> Iterator[dict[str, Any]]:
    if "svc" in job.plugins:
        yield {"name": f"{job.name}-svc", "configMap": {"name": f"{job.name}-svc"}}
    if "ssh" in job.plugins:
        files = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
        items = [{"key": file, "path": f".ssh/{file}"} for file in files]
        mode = 0o600 if _ssh_folder(job) == _SSH_FOLDER else 0o644
        secret = {"secretName": f"{job.name}-ssh", "items": items, "defaultMode": mode}
        yield {"name": f"{job.name}-ssh", "secret": secret}


def _mounts(job: _Job) -> Iterator[dict[str, Any]]:
    if "svc" in job.plugins:
        yield {"name": f"{job.name}-svc", "mountPath": _HOSTS_FOLDER}
    if "ssh" in job.plugins:
        yield {"name": f"{job.name}-ssh", "mountPath": _ssh_folder(job), "subPath": ".ssh"}


def _claims(job: _Job) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The job's own volumes, whose names end in random characters, and their mounts. One claim is mounted once."""
    seen: set[str] = set()
    for index, volume in entries(job.spec.get("volumes")):
        claim = text(volume.get("volumeClaimName"))
        if not claim or claim in seen:
            continue
        seen.add(claim)
        name = f"{job.name}-{index}"
        mount = {"name": name, "mountPath": text(volume.get("mountPath"))}
        yield {"name": name, "persistentVolumeClaim": {"claimName": claim}}, mount


def _ssh_folder(job: _Job) -> str:
    return job.flag("ssh", "ssh-key-file-path", _SSH_FOLDER)


def _environment(job: _Job, task: _Task, *, init: bool = False) -> Iterator[InjectedVariable]:
    """What the plugins append; each of them whatever the others do."""
    alone = "0" if task.pods.value == 1 else None
    if "env" in job.plugins:
        for name in ("VK_TASK_INDEX", "VC_TASK_INDEX"):
            yield InjectedVariable(name, alone, job.at("env"))
    if "svc" in job.plugins and job.name:
        for name, value in _hosts_data(job):
            if name.startswith("VC_"):
                yield InjectedVariable(name, value, job.at("svc"))
    if "mpi" in job.plugins and task.name == job.flag("mpi", "master", "master"):
        worker = job.task(job.flag("mpi", "worker", "worker"))
        if worker is not None:
            known = worker.pods.value is not None and worker.pods.value <= MOST_HOSTNAMES
            yield InjectedVariable("MPI_HOST", ",".join(job.hosts(worker)) if known else None, job.at("mpi"))
    if "pytorch" in job.plugins and not init:
        yield from _pytorch(job, task)
    if "tensorflow" in job.plugins and not init and not (len(job.tasks) == 1 and task.pods.value == 1):
        yield InjectedVariable("TF_CONFIG", _tensorflow(job, task) if alone else None, job.at("tensorflow"))


def _pytorch(job: _Job, task: _Task) -> Iterator[InjectedVariable]:
    master_name, worker_name = (job.flag("pytorch", role, role) for role in ("master", "worker"))
    master, spot = job.task(master_name), job.at("pytorch")
    if master is None:
        return
    own, domain = text(master.pod.get("hostname")), text(master.pod.get("subdomain")) or job.name
    known = bool(job.name)
    yield InjectedVariable("MASTER_ADDR", f"{own or f'{job.name}-{master.name}-0'}.{domain}" if known else None, spot)
    yield InjectedVariable("MASTER_PORT", job.flag("pytorch", "port", "23456"), spot)
    counts = [each.pods for each in job.tasks if each.name in (master_name, worker_name)]
    values = [each.value for each in counts]
    place = next((each.pods.spot for each in job.tasks if each.name == worker_name), master.pods.spot)
    yield InjectedVariable("WORLD_SIZE", None if None in values else str(sum(values)), place)
    if task.name == worker_name:
        yield InjectedVariable("RANK", "1" if task.pods.value == 1 else None, task.spot)
    elif task.name == master_name:
        yield InjectedVariable("RANK", "0", task.spot)


def _tensorflow(job: _Job, task: _Task) -> str | None:
    """TF_CONFIG of the only pod of a task."""
    kinds = ("ps", "worker", "chief", "evaluator")
    roles = {job.flag("tensorflow", kind, kind): kind for kind in kinds}
    port = job.flag("tensorflow", "port", "2222")
    cluster = {}
    for kind in kinds:
        for each in job.tasks:
            if roles.get(each.name) == kind and each.pods.value:
                cluster[kind] = [f"{host}:{port}" for host in job.hosts(each)]
    task_info = {"type": roles.get(task.name, task.name), "index": 0}
    return json.dumps({"cluster": cluster, "task": task_info}, separators=(",", ":"))


def _hosts_data(job: _Job) -> Iterator[tuple[str, str]]:
    """Files and variables that name the pods of each task."""
    for task in job.tasks:
        hosts, key = job.hosts(task), task.name.replace("-", "_")
        yield f"{key}.host", "\n".join(hosts)
        yield f"VC_{key.upper()}_HOSTS", ",".join(hosts)
        yield f"VC_{key.upper()}_NUM", str(len(hosts))


def _policy(job: _Job) -> dict[str, Any]:
    """The NetworkPolicy that lets only the job's own pods in."""
    chosen = {"matchLabels": {JOB_NAME: job.name, _NAMESPACE: job.object.namespace}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": job.name, "namespace": job.object.namespace},
        "spec": {
            "podSelector": chosen,
            "ingress": [{"from": [{"podSelector": chosen}]}],
            "policyTypes": ["Ingress"],
        },
    }
