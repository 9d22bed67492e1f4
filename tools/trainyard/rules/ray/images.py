"""The releases of Ray in one cluster: RAY011."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import PodSet, Workload

_RELEASE = re.compile(r"(?:.*/)?rayproject/ray(?:-ml|-llm)?:(?P<release>[0-9]+\.[0-9]+\.[0-9]+)(?:[-.@].*)?\Z")
_PYTHON = re.compile(r"-(?P<python>py3[0-9]+)\b")


@rule("RAY011", "ray-releases-differ", Severity.ERROR, needs=Workload)
@once
def ray_releases_differ(workload: Workload) -> Iterator[Problem]:
    """The workers of a Ray cluster have another release of Ray, or of Python, than the head.

    A node that starts compares its release of Ray and of Python with those of the cluster, and stops where they
    differ: the head waits for workers that restart for ever.

    Bad:
        # on: raycluster
        spec:
          headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.46.0-gpu"}]}}}
          workerGroupSpecs:
          - groupName: gpu
            template: {spec: {containers: [{name: ray-worker, image: "rayproject/ray:2.40.0-gpu"}]}}
    Good:
        # on: raycluster
        spec:
          headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.46.0-gpu"}]}}}
          workerGroupSpecs:
          - groupName: gpu
            template: {spec: {containers: [{name: ray-worker, image: "rayproject/ray:2.46.0-gpu"}]}}
    Near miss:
        # on: raycluster
        spec:
          headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.46.0"}]}}}
          workerGroupSpecs:
          - groupName: gpu
            template: {spec: {containers: [{name: ray-worker, image: "registry.example.com/dino:3.1.0"}]}}

    Source: https://github.com/ray-project/ray/blob/master/python/ray/_private/utils.py
    """
    head = next((pod_set for pod_set in workload.pod_sets if pod_set.role == "head"), None)
    if workload.object.group != "ray.io" or head is None:
        return
    for pod_set in workload.pod_sets:
        for what, of_head, own in zip(("Ray", "Python"), _releases(head), _releases(pod_set), strict=True):
            if pod_set.role != "submitter" and of_head and own and own != of_head:
                yield Problem(
                    f"workers of group {pod_set.role} have {what} {own}, but the head has {of_head}",
                    pod_set.containers[0].spot.below("image", label="stops when it joins the cluster"),
                    (head.containers[0].spot.below("image", label="the head"),),
                    "use one image for all groups, or images of one release",
                )


def _releases(pod_set: PodSet) -> tuple[str, str]:
    """Ray's release and Python's by the image of the Ray container; empty where its name does not tell."""
    image = pod_set.containers[0].image if pod_set.containers else ""
    found = _RELEASE.match(image)
    python = _PYTHON.search(image) if found else None
    return (found["release"] if found else "", python["python"] if python else "")
