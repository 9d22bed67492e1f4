"""Where a job reads and writes: claims, and the directories that must be on them."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.rules.common.counts import number
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import Mount, mounts, volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.launch import argument
from trainyard.workload.model import Container, PodSet, Setting, Workload
from trainyard.workload.plain import entries, mapping, sequence, text
from trainyard.workload.templates import SERVING

_OUTPUT_FLAGS = (
    "output_dir",
    "out_dir",
    "checkpoint_dir",
    "checkpoint_path",
    "ckpt_dir",
    "save_dir",
    "save_folder",
    "save_path",
    "save",
    "default_root_dir",
)
_OUTPUT_VARIABLE = "TRAINER_CHECKPOINT_DIR"
_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


@rule("STO001", "claim-missing", Severity.ERROR, needs=Workload)
@once
def claim_missing(workload: Workload) -> Iterator[Problem]:
    """A pod of a job folder names a claim that is neither among the job's objects nor one of its cluster's datasets.

    The pod waits for the claim and is never scheduled. A name that is off by a suffix, or a claim that was left in
    another namespace, looks the same.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: checkpoints
                persistentVolumeClaim:
                  claimName: llama-checkpoints

    Good:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: checkpoints
                persistentVolumeClaim:
                  claimName: llama-sft-checkpoints

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: scratch
                ephemeral:
                  volumeClaimTemplate:
                    spec:
                      accessModes: [ReadWriteOnce]
                      resources:
                        requests:
                          storage: 1Ti

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#claims-as-volumes
    """
    if workload.in_job_folder:
        yield from _missing_claims(workload, _dataset_claims(workload))


@rule("STO005", "claim-not-shown", Severity.INFO, needs=Workload)
@once
def claim_not_shown(workload: Workload) -> Iterator[Problem]:
    """A pod of a plain manifest names a claim that is not among the manifests, though other claims are.

    It may be in the cluster already. If it is not, the pod waits for it and is never scheduled.

    Bad:

        # on: job
        spec: {template: {spec: {volumes: [{name: dataset, persistentVolumeClaim: {claimName: dataset}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: datasets, namespace: research}

    Good:

        # on: job
        spec: {template: {spec: {volumes: [{name: dataset, persistentVolumeClaim: {claimName: datasets}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: datasets, namespace: research}

    Near miss:

        # on: job
        spec: {template: {spec: {volumes: [{name: dataset, persistentVolumeClaim: {claimName: dataset}}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#claims-as-volumes
    """
    if not workload.in_job_folder and workload.of_kind("PersistentVolumeClaim"):
        yield from _missing_claims(workload, ())


def _missing_claims(workload: Workload, shared: Sequence[str]) -> Iterator[Problem]:
    claims = [*(claim.name for claim in workload.of_kind("PersistentVolumeClaim")), *shared]
    for pod_set in workload.pod_sets:
        for volume in volumes(pod_set):
            if not volume.claim or volume.claim in claims:
                continue
            elsewhere = _claim_elsewhere(workload, volume.claim)
            if elsewhere is not None and not workload.in_job_folder:
                continue
            place = f", only in {elsewhere.namespace or 'no namespace'}" if elsewhere is not None else ""
            yield Problem(
                f"claim {volume.claim} does not exist in namespace {workload.object.namespace or 'default'}{place}",
                volume.spot.below("persistentVolumeClaim", "claimName", label="no such PersistentVolumeClaim"),
                () if elsewhere is None else (elsewhere.at("metadata", "namespace", label="pods cannot reach this"),),
                _known_claims(volume.claim, claims),
            )


def _dataset_claims(workload: Workload) -> list[str]:
    """Claims that the cluster puts into every team's namespace."""
    cluster = workload.cluster
    storage = mapping(mapping(cluster.data.get("spec")).get("storage")) if cluster is not None else {}
    return [claim for claim in sequence(storage.get("datasetClaims")) if isinstance(claim, str)]


def _claim_elsewhere(workload: Workload, name: str) -> Object | None:
    found = (o for o in workload.objects if o.kind == "PersistentVolumeClaim" and o.name == name)
    return next(found, None)


def _known_claims(name: str, claims: list[str]) -> str:
    near = get_close_matches(name, claims, 1, 0.8)
    if near:
        return f"did you mean {near[0]}?"
    return (
        f"add the claim, or use one of {', '.join(dict.fromkeys(claims))}" if claims else "add the claim beside the job"
    )


@rule("STO002", "claim-single-node", Severity.ERROR, needs=Workload)
def claim_single_node(workload: Workload) -> Iterator[Problem]:
    """A claim that one node can mount is mounted by the pods of several.

    ReadWriteOnce attaches a volume to one node, ReadWriteOncePod gives it to one pod. The other pods stay in
    ContainerCreating, and the ranks that did start wait for them until the rendezvous times out.

    Bad:

        kind: PersistentVolumeClaim
        metadata:
          name: llama-sft-checkpoints
        spec:
          accessModes: [ReadWriteOnce]

    Good:

        kind: PersistentVolumeClaim
        metadata:
          name: llama-sft-checkpoints
        spec:
          accessModes: [ReadWriteMany]

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: scratch
                ephemeral:
                  volumeClaimTemplate:
                    spec:
                      accessModes: [ReadWriteOnce]
                      resources:
                        requests:
                          storage: 1Ti

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
    """
    for claim in workload.of_kind("PersistentVolumeClaim"):
        modes = [text(mode) for mode in sequence(mapping(claim.data.get("spec")).get("accessModes"))]
        users = [
            (pod_set, volume)
            for pod_set in workload.pod_sets
            for volume in volumes(pod_set)
            if volume.claim == claim.name and pod_set.count.value and not _kept_on_one_node(pod_set)
        ]
        pods = sum(pod_set.count.value for pod_set, _ in users)
        if pods < 2 or not modes or _SHARED_MODES.intersection(modes):
            continue
        yield Problem(
            f"claim {claim.name} is {' or '.join(modes)}, but {pods} pods mount it",
            claim.at("spec", "accessModes", label=f"one {'node' if 'ReadWriteOnce' in modes else 'pod'} at a time"),
            tuple(volume.spot.saying(f"mounted by {number(pod_set.count.value, 'pod')}") for pod_set, volume in users),
            "use ReadWriteMany and a storage class that offers it, or a volume of its own for each pod",
        )


def _kept_on_one_node(pod_set: PodSet) -> bool:
    affinity = mapping(mapping(pod_set.spec.get("affinity")).get("podAffinity"))
    terms = entries(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return bool(pod_set.spec.get("nodeName")) or any(
        term.get("topologyKey") == "kubernetes.io/hostname" for _, term in terms
    )


@rule("STO003", "no-persistent-output", Severity.INFO, needs=Workload)
def no_persistent_output(workload: Workload) -> Iterator[Problem]:
    """A training job on several nodes mounts nothing that outlives its pods.

    Checkpoints go to the container's own disk and are gone with the pod: at the end, at the first preemption, at the
    first broken node. The rule is silent where the program is told of an object store, and about benchmarks and pods
    that serve: those of a Deployment, say, in which no launcher of training starts.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: checkpoints
                $patch: delete
              - name: dataset
                $patch: delete

    Good:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: checkpoints
                persistentVolumeClaim:
                  claimName: llama-sft-checkpoints

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              volumes:
              - name: checkpoints
                $patch: delete
              - name: dataset
                $patch: delete
              containers:
              - name: trainer
                args: [-m, trainer, "--output_dir=s3://checkpoints/llama-sft"]

    Source: https://kubernetes.io/docs/concepts/storage/volumes/
    """
    pods = workload.pods
    training = [pod_set for pod_set in workload.pod_sets if any(container.gpus for container in pod_set.containers)]
    if pods is None or pods < 2 or not training or _serves(workload):
        return
    kept = any(volume.outlives_pod for pod_set in workload.pod_sets for volume in volumes(pod_set))
    if kept or any(_writes_elsewhere(container) for container in _containers(workload)):
        return
    yield Problem(
        f"none of the {pods} pods mounts a volume that outlives it, so checkpoints are lost with the pod",
        training[0].template.below("spec", "volumes", label="only volumes that end with the pod"),
        help="mount a claim that all pods can write, and write the checkpoints there",
    )


def _serves(workload: Workload) -> bool:
    """True of pods that are made again for ever and that no launcher starts to train."""
    launches = (each.launch for each in _containers(workload))
    return workload.object.kind in SERVING and all(each is None or each.launcher == "python" for each in launches)


def _containers(workload: Workload) -> Iterator[Container]:
    for pod_set in workload.pod_sets:
        yield from pod_set.containers


def _writes_elsewhere(container: Container) -> bool:
    """True where the program is told of a remote store, or is a benchmark that keeps nothing."""
    told = [word.text for word in container.words] + [env.value or "" for env in container.env.values()]
    return any("://" in item and not item.startswith(("tcp://", "http://", "file://")) for item in told) or any(
        word.text.endswith("_perf") for word in container.words
    )


@rule("STO004", "output-beside-mount", Severity.ERROR, needs=Workload)
def output_beside_mount(workload: Workload) -> Iterator[Problem]:
    """The program writes its output to a directory that is on no volume, though a claim is mounted elsewhere.

    The output lands on the container's own disk: it fills the node until the pod is evicted, and is gone afterwards,
    while the claim that was meant for it stays empty.

    Bad:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_CHECKPOINT_DIR: /checkpoint/llama-sft

    Good:

        kind: ConfigMap
        metadata:
          name: llama-sft-trainer
        data:
          TRAINER_CHECKPOINT_DIR: /checkpoints/llama-sft

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                args: [-m, trainer, "--output_dir=/dev/shm/scratch"]

    Source: https://kubernetes.io/docs/concepts/storage/volumes/
    """
    for pod_set in workload.pod_sets:
        for container in pod_set.containers:
            mounted = list(_where_it_runs(workload, pod_set, container))
            writable = [mount for mount in mounted if mount.volume.claim and not mount.read_only]
            output = output_directory(container)
            if output is None or not writable or _on_a_volume(PurePosixPath(output.value), mounted):
                continue
            yield Problem(
                f"output directory {output.value} is on no volume of container {container.name}",
                output.spot.saying("lost with the pod"),
                tuple(mount.spot.below("mountPath", label=f"claim {mount.volume.claim} is here") for mount in writable),
                f"write below {' or '.join(str(mount.path) for mount in writable)}",
            )


def _where_it_runs(workload: Workload, pod_set: PodSet, container: Container) -> Iterator[Mount]:
    """The mounts that a container's program sees. mpirun starts it in the workers."""
    over = container.launch is not None and container.launch.launcher == "mpirun" and pod_set.role == "launcher"
    for each in workload.pod_sets:
        main = each.main() if over and each.role == "worker" else container if each is pod_set and not over else None
        yield from (mount for mount in mounts(each) if main is not None and mount.container.name == main.name)


def output_directory(container: Container) -> Setting | None:
    """The directory that the program is told to write to, where it is an absolute path."""
    flag, variable = argument(container.words, _OUTPUT_FLAGS), container.env.get(_OUTPUT_VARIABLE)
    settings = [flag, None if variable is None else Setting(variable.value, variable.spot)]
    told = [setting for setting in settings if setting is not None and isinstance(setting.value, str)]
    return next((setting for setting in told if setting.value.startswith("/")), None)


def _on_a_volume(path: PurePosixPath, mounted: list[Mount]) -> bool:
    return any(path.is_relative_to(mount.path) for mount in mounted)
