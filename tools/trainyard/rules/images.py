"""Images that nobody can pull."""

import re
from collections.abc import Iterator
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload

_EXAMPLE = re.compile(r"(?:^|[/.@])example\.(?:com|net|org)(?=[/:]|\Z)|\.(?:example|invalid)(?=[/:]|\Z)")
_DEPTH = 20


@rule("IMG001", "example-image", Severity.ERROR, needs=Workload)
@once
def example_image(workload: Workload) -> Iterator[Problem]:
    """A job runs an image of a registry that exists in examples alone, on a cluster that is not an example itself.

    The names example.com, example.net, example.org, .example and .invalid are kept free for documents (RFC 2606), so
    the image cannot be pulled: the pods wait in ImagePullBackOff and hold their nodes. A job that names no image takes
    that of its base, where such a name stands for the one that you build. Nothing is said as long as the cluster's own
    platform names such hosts too, for then it is a sample.

    Bad:
        $platform: true
        apiVersion: storage.k8s.io/v1
        kind: StorageClass
        metadata: {name: shared}
        parameters: {server: nfs.acme.io}
    Good:
        $platform: true
        apiVersion: storage.k8s.io/v1
        kind: StorageClass
        metadata: {name: shared}
        parameters: {server: nfs.acme.io}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, image: "registry.acme.io/trainer:1"}]}}}
    Near miss:
        $platform: true
        apiVersion: storage.k8s.io/v1
        kind: StorageClass
        metadata: {name: shared}
        parameters: {server: nfs.example.com}

    Source: https://www.rfc-editor.org/rfc/rfc2606
    """
    if not workload.in_job_folder or not workload.platform or any(_is_example(item) for item in workload.platform):
        return
    for pod_set in workload.pod_sets:
        for container in (*pod_set.init_containers, *pod_set.containers):
            if _EXAMPLE.search(container.image) and not container.by_controller:
                yield Problem(
                    f"the image {container.image.partition('@')[0]} is an example, which no node can pull",
                    container.spot.below("image", label="no such registry"),
                    help="build trainer/image and name its digest, in the base or as image in job.yaml",
                )


def _is_example(item: Object) -> bool:
    """Whether an object of the platform names a host that exists in examples alone."""
    return any(map(_EXAMPLE.search, _texts(item.data, _DEPTH)))


def _texts(data: Any, depth: int) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif depth and isinstance(data, dict | list):
        for below in data.values() if isinstance(data, dict) else data:
            yield from _texts(below, depth - 1)
