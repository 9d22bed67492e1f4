"""What a job folder and its base promise each other: names and facts that must agree."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.hashed import REMEDY, is_hashed_form
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import put
from trainyard.objects.unit import Unit
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import EnvVar, PodSet, Workload
from trainyard.workload.plain import entries, mapping
from trainyard.yaml.fieldpath import Path

DEFAULT_NAME = "training-job"
"""What every base calls its objects until the wiring names them after the job."""


@rule("CTR001", "default-name-survives", Severity.ERROR, needs=Unit)
def default_name_survives(unit: Unit) -> Iterator[Problem]:
    """A default name of the base is left in what is applied.

    The wiring renames objects field by field, and renaming updates no reference: a field that no replacement names
    keeps `training-job`. Two jobs then share the object, or a pod waits for a ConfigMap, a claim or a Service that is
    not there.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              subdomain: training-job

    Good:

        kind: Job
        spec:
          backoffLimit: 4

    Near miss:

        kind: Job
        metadata:
          annotations:
            example.com/about: the training-jobs of this team

    Source: base/wiring/
    """
    job = unit.fact("TrainingJob")
    if job is None or DEFAULT_NAME in job.name:
        return
    for rendered in unit.objects:
        for path, text in _strings(rendered.data, ()):
            if _names_default(text):
                yield Problem(
                    f"{text!r} is the base's default name, and the wiring did not replace it",
                    rendered.at(*path, label=f"expected a name made from {job.name}"),
                    help="name this field in base/wiring, or write the job's own name here",
                )


@rule("CTR008", "cluster-differs", Severity.ERROR, needs=Unit, fix="unsafe")
def cluster_differs(unit: Unit) -> Iterator[Problem]:
    """job.yaml names another cluster than the one whose facts its kustomization.yaml takes.

    The facts decide the fabric, the node shape and the storage. The name in job.yaml is what its readers believe.

    Bad:

        kind: TrainingJob
        spec:
          cluster: another-cluster

    Good:

        kind: TrainingJob
        spec:
          nodes: 4

    Near miss:

        kind: Fabric
        metadata:
          name: another-fabric

    Source: clusters/
    """
    job, cluster = unit.fact("TrainingJob"), unit.fact("Cluster")
    if job is None or cluster is None:
        return
    spec = job.data.get("spec")
    named = spec.get("cluster") if isinstance(spec, dict) else None
    if isinstance(named, str) and named != cluster.name:
        yield Problem(
            f"job.yaml says cluster {named}, but kustomization.yaml takes the facts of {cluster.name}",
            job.at("spec", "cluster", label="the job's word"),
            (cluster.at("metadata", "name", label="the facts it gets"),),
            f"name ../../../clusters/{named}/facts in kustomization.yaml, or write cluster: {cluster.name}",
            put(job.at("spec", "cluster"), cluster.name).saying(f"write cluster: {cluster.name}").unsafe(),
        )


@rule("CTR011", "more-nodes-than-cluster", Severity.ERROR, needs=Unit)
def more_nodes_than_cluster(unit: Unit) -> Iterator[Problem]:
    """A job asks for more nodes than its cluster has.

    A job's pods must all run at once. Those that find no node stay pending, and the others hold their GPUs and wait for
    them until rendezvous gives up.

    Bad:

        kind: TrainingJob
        spec:
          nodes: 40
        ---
        kind: Cluster
        spec:
          nodes: 32

    Good:

        kind: TrainingJob
        spec:
          nodes: 4
        ---
        kind: Cluster
        spec:
          nodes: 32

    Near miss:

        kind: TrainingJob
        spec:
          nodes: 32
        ---
        kind: Cluster
        spec:
          nodes: 32

    Source: clusters/
    """
    job, cluster = unit.fact("TrainingJob"), unit.fact("Cluster")
    if job is None or cluster is None:
        return
    wanted, there = _nodes(job), _nodes(cluster)
    if wanted is not None and there is not None and wanted > there:
        yield Problem(
            f"the job wants {wanted} nodes, but cluster {cluster.name} has {there}",
            job.at("spec", "nodes", label="one pod a node"),
            (cluster.at("spec", "nodes", label="training nodes in all"),),
            f"ask for {there} nodes or fewer, or take a larger cluster",
        )


@rule("CTR014", "container-without-image", Severity.ERROR, needs=Workload)
def container_without_image(workload: Workload) -> Iterator[Problem]:
    """A container has no image.

    The API server refuses it. Mostly it is a patch that misspells a container's name: kustomize finds no such container
    to merge into, and adds one that has only what the patch says.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trianer
                workingDir: /work

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                workingDir: /work

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: exporter
                image: exporter@sha256:0b6a5a4a5e2c3f4f7dfb3ff13d4b2b9f5e5b0f8f8c6f3f2d2c5d7a1e9b8c7d6a

    Source: https://kubernetes.io/docs/concepts/containers/images/
    """
    if not workload.in_job_folder:
        return
    for pod_set in workload.pod_sets:
        containers = (*pod_set.init_containers, *pod_set.containers)
        whole = [container.name for container in containers if container.image]
        for container in containers:
            if container.image:
                continue
            near = get_close_matches(container.name, whole, 1)
            yield Problem(
                f"container {container.name} has no image",
                container.spot.below("name", label=f"did you mean {near[0]}?" if near else ""),
                help=f"name one of {', '.join(whole)}, or give the container an image" if whole else "give it an image",
            )


@rule("CTR015", "own-object-missing", Severity.ERROR, needs=Workload)
def own_object_missing(workload: Workload) -> Iterator[Problem]:
    """A pod names a ConfigMap or ServiceAccount of its own job that is not there.

    Its containers are never created, and the pod stays in CreateContainerConfigError, or there is no pod at all. What
    is called after the job belongs to the job, and must be in its folder; other names may be the cluster's.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              serviceAccountName: llama-sft-runner

    Good:

        kind: Job
        spec:
          template:
            spec:
              serviceAccountName: llama-sft

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              serviceAccountName: research-runner

    Source: https://kubernetes.io/docs/concepts/configuration/configmap/
    """
    job = workload.training_job
    if job is None:
        return
    for pod_set in workload.pod_sets:
        for kind, name, spot in _references(pod_set):
            there = [each.name for each in workload.of_kind(kind)]
            if name in there or not _is_own(name, job.name):
                continue
            own = [each for each in there if _is_own(each, job.name)]
            hashed = next((each for each in own if is_hashed_form(each, name)), None)
            yield Problem(
                f"{kind} {name} is not made: its generator calls it {hashed}"
                if hashed
                else f"{kind} {name} is not among the job's objects",
                spot.saying("the hash was not carried here" if hashed else "no such object"),
                help=REMEDY if hashed else f"name {' or '.join(own)}, or add it" if own else "add it to the folder",
            )


@rule("CTR016", "deepspeed-without-policy", Severity.ERROR, needs=Workload)
def deepspeed_without_policy(workload: Workload) -> Iterator[Problem]:
    """A job is sharded by DeepSpeed and has no ZeRO policy.

    The trainer reads the policy from the file that TRAINER_DEEPSPEED_CONFIG names, and stops at its start without one.

    Bad:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: deepspeed

    Good:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: fsdp

    Near miss:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: deepspeed
          TRAINER_DEEPSPEED_CONFIG: /deepspeed/zero-3.json

    Source: base/zero/
    """
    parallelism, policy = _sharding(workload)
    if parallelism is not None and parallelism.value == "deepspeed" and policy is None:
        yield Problem(
            "parallelism is deepspeed, but the job has no ZeRO policy",
            parallelism.spot,
            help="take base/deepspeed, or list the component ../../../base/zero in kustomization.yaml",
        )


@rule("CTR017", "policy-without-deepspeed", Severity.WARNING, needs=Workload)
def policy_without_deepspeed(workload: Workload) -> Iterator[Problem]:
    """A job has a ZeRO policy and is not sharded by DeepSpeed.

    It trains as job.yaml says and not as its base promises: the policy is mounted, and nobody reads it.

    Bad:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: fsdp
          TRAINER_DEEPSPEED_CONFIG: /deepspeed/zero-3.json

    Good:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: deepspeed
          TRAINER_DEEPSPEED_CONFIG: /deepspeed/zero-3.json

    Near miss:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_PARALLELISM: ddp

    Source: base/zero/
    """
    parallelism, policy = _sharding(workload)
    if policy is not None and parallelism is not None and parallelism.value not in (None, "deepspeed"):
        yield Problem(
            f"parallelism is {parallelism.value}, so the ZeRO policy is not used",
            parallelism.spot,
            (policy.spot.saying("the policy"),),
            "write parallelism: deepspeed in job.yaml, or leave the component zero out of kustomization.yaml",
        )


def _sharding(workload: Workload) -> tuple[EnvVar | None, EnvVar | None]:
    """What the ranks are told of parallelism and of the ZeRO policy; nothing outside a job folder."""
    if not workload.in_job_folder:
        return None, None
    mains = [main for pod_set in workload.pod_sets if (main := pod_set.main()) is not None]
    for main in sorted(mains, key=lambda main: -main.gpus):  # not the driver of a Ray job first, which has no rank
        if "TRAINER_PARALLELISM" in main.env:
            return main.env["TRAINER_PARALLELISM"], main.env.get("TRAINER_DEEPSPEED_CONFIG")
    return None, None


def _references(pod_set: PodSet) -> Iterator[tuple[str, str, Spot]]:
    """(kind, name, field) of the ConfigMaps and the ServiceAccount that pods cannot start without."""
    spec = pod_set.template.below("spec")
    account = pod_set.spec.get("serviceAccountName")
    if isinstance(account, str):
        yield "ServiceAccount", account, spec.below("serviceAccountName")
    for container in (*pod_set.init_containers, *pod_set.containers):
        for index, source in entries(container.data.get("envFrom")):
            yield from _config_map(source.get("configMapRef"), container.spot.below("envFrom", index, "configMapRef"))
        for index, variable in entries(container.data.get("env")):
            key = mapping(variable.get("valueFrom")).get("configMapKeyRef")
            yield from _config_map(key, container.spot.below("env", index, "valueFrom", "configMapKeyRef"))
    for index, volume in entries(pod_set.spec.get("volumes")):
        yield from _config_map(volume.get("configMap"), spec.below("volumes", index, "configMap"))


def _config_map(reference: Any, spot: Spot) -> Iterator[tuple[str, str, Spot]]:
    name = mapping(reference).get("name")
    if isinstance(name, str) and mapping(reference).get("optional") is not True:
        yield "ConfigMap", name, spot.below("name")


def _is_own(name: str, job: str) -> bool:
    return name == job or name.startswith(f"{job}-")


def _nodes(fact: Object) -> int | None:
    spec = fact.data.get("spec")
    nodes = spec.get("nodes") if isinstance(spec, dict) else None
    return nodes if isinstance(nodes, int) else None


def _names_default(text: str) -> bool:
    start = text.find(DEFAULT_NAME)
    while start >= 0:
        before, after = text[:start], text[start + len(DEFAULT_NAME) :]
        if not before[-1:].isalnum() and not after[:1].isalnum():
            return True
        start = text.find(DEFAULT_NAME, start + 1)
    return False


def _strings(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, below in tree.items():
            yield from _strings(below, (*path, key))
    elif isinstance(tree, list):
        for index, below in enumerate(tree):
            yield from _strings(below, (*path, index))
