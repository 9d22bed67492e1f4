"""The entrypoint of a RayJob, which Ray runs on the head, as the launch of its training program."""

from dataclasses import replace

from trainyard.objects import Object
from trainyard.workload.model import Launch, PodSet
from trainyard.workload.plain import mapping, text
from trainyard.workload.shell import commands

LAUNCHER = "ray"


def with_entrypoint(head: PodSet, job: Object) -> PodSet:
    """The head, with the RayJob's entrypoint as the launch of its Ray container."""
    script = text(mapping(job.data.get("spec")).get("entrypoint")).strip()
    if not script or not head.containers:
        return head
    ray, *others = head.containers
    spot = job.at("spec", "entrypoint")
    found = commands(script, spot, ray.env)
    program = next((command.words for command in reversed(found) if command.words), ())
    return replace(head, containers=(replace(ray, launch=Launch(LAUNCHER, spot, {}, program)), *others))
