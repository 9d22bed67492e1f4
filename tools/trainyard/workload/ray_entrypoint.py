"""The entrypoint of a RayJob, which Ray runs on the head, as the launch of its training program."""

from collections.abc import Iterator
from dataclasses import replace

from trainyard.objects.objects import Object
from trainyard.workload.command import taken_apart
from trainyard.workload.embedded import yaml_map
from trainyard.workload.launch import launch, with_exit_code
from trainyard.workload.model import EnvVar, Launch, PodSet, Word
from trainyard.workload.plain import mapping, text
from trainyard.workload.shell import Command

LAUNCHER = "ray"


def with_runtime_environment(pod_set: PodSet, job: Object) -> PodSet:
    """A group whose Ray container has the variables of `runtimeEnvYAML`, which processes get on every node."""
    added = dict(_runtime_environment(job))
    if not added or not pod_set.containers:
        return pod_set
    ray, *others = pod_set.containers
    return replace(pod_set, containers=(replace(ray, env={**ray.env, **added}), *others))


def _runtime_environment(job: Object) -> Iterator[tuple[str, EnvVar]]:
    written = mapping(job.data.get("spec")).get("runtimeEnvYAML")
    spot = job.at("spec", "runtimeEnvYAML", "env_vars")
    for name, value in mapping(yaml_map(written).get("env_vars")).items():
        if isinstance(name, str) and isinstance(value, str):
            yield name, EnvVar(name, value, spot.below(name), raw=value)


def with_entrypoint(head: PodSet, job: Object) -> PodSet:
    """The head, with the RayJob's entrypoint as the launch of its Ray container."""
    script = text(mapping(job.data.get("spec")).get("entrypoint")).strip()
    if not script or not head.containers:
        return head
    ray, *others = head.containers
    spot = job.at("spec", "entrypoint")
    words = (Word("sh", spot), Word("-c", spot), Word(script, spot))
    whole = Command(words, ray.env)
    found = taken_apart(whole, lambda _: None)
    programs = [command for command in found if launch([command]) is not None] or [*found]
    program = programs[-1].words if programs else ()
    started = with_exit_code(Launch(LAUNCHER, spot, {}, program), whole, lambda _: None)
    return replace(head, containers=(replace(ray, launch=started), *others))
