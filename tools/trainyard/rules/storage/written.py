"""What the volume under a job's output directory does with what is written there."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.remedy import put
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import Mount, Volume, mounts, volumes
from trainyard.rules.registry import Problem, rule
from trainyard.rules.storage.claims import output_directory
from trainyard.workload.model import Setting, Workload
from trainyard.workload.plain import mapping, sequence, text

_OBJECT_STORES = {"s3.csi.aws.com": "Mountpoint for S3"}
_FUSE_DRIVER, _FUSE_ANNOTATION = "gcsfuse.csi.storage.gke.io", "gke-gcsfuse/volumes"


@rule("STO011", "output-on-read-only", Severity.ERROR, needs=Workload)
@once
def output_on_read_only(workload: Workload) -> Iterator[Problem]:
    """The program writes its output to a volume that is mounted read-only.

    The first checkpoint fails with "Read-only file system", hours after the start.

    Bad:
        kind: ConfigMap
        metadata: {name: llama-sft-trainer}
        data: {TRAINER_CHECKPOINT_DIR: /data/llama-sft}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, volumeMounts: [
          {name: dataset, mountPath: /data, readOnly: true}]}]}}}
    Good:
        kind: ConfigMap
        metadata: {name: llama-sft-trainer}
        data: {TRAINER_CHECKPOINT_DIR: /checkpoints/llama-sft}
    Near miss:
        kind: ConfigMap
        metadata: {name: llama-sft-trainer}
        data: {TRAINER_CHECKPOINT_DIR: /checkpoints/llama-sft}
        ---
        kind: Job
        spec: {template: {spec: {containers: [{name: trainer, volumeMounts: [
          {name: dataset, mountPath: /data, readOnly: true}]}]}}}

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#read-only-mounts
    """
    for output, mount in _outputs(workload):
        claim = _claim(workload, mount.volume)
        modes = [] if claim is None else sequence(mapping(claim.data.get("spec")).get("accessModes"))
        if not mount.read_only and modes != ["ReadOnlyMany"]:
            continue
        where = mount.spot.below("readOnly") if mount.read_only else mount.volume.spot
        spots = (where.saying("read-only"),)
        if not mount.read_only and claim is not None:
            spots = (claim.at("spec", "accessModes", label="read-only for every pod"),)
        yield Problem(
            f"output directory {output.value} is on volume {mount.volume.name}, which is read-only",
            output.spot.saying("cannot be written"),
            spots,
            "write to another volume, or mount this one for writing",
        )


@rule("STO012", "checkpoints-without-rename", Severity.WARNING, needs=Workload)
@once
def checkpoints_without_rename(workload: Workload) -> Iterator[Problem]:
    """Checkpoints go to a bucket that is mounted as a folder and cannot rename files.

    Trainers write a checkpoint under another name and rename it when it is whole, or write into a file twice. On
    general-purpose buckets Mountpoint for S3 has neither: it writes new files from front to back, and nothing else.

    Bad:
        kind: PersistentVolume
        apiVersion: v1
        metadata: {name: bucket}
        spec: {csi: {driver: s3.csi.aws.com, volumeHandle: bucket}}
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {volumeName: bucket, storageClassName: ""}
    Good:
        kind: PersistentVolume
        apiVersion: v1
        metadata: {name: bucket}
        spec: {csi: {driver: fsx.csi.aws.com, volumeHandle: fs-0}}
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {volumeName: bucket, storageClassName: ""}
    Near miss:
        kind: PersistentVolume
        apiVersion: v1
        metadata: {name: bucket}
        spec: {csi: {driver: s3.csi.aws.com, volumeHandle: bucket}}
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-dataset}
        spec: {volumeName: bucket, storageClassName: ""}

    Source: https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md
    """
    for output, mount in _outputs(workload):
        driver, spot = _driver(workload, mount.volume)
        if driver in _OBJECT_STORES and spot is not None:
            yield Problem(
                f"output directory {output.value} is on {_OBJECT_STORES[driver]}, which cannot rename files",
                output.spot.saying("checkpoints are renamed when they are whole"),
                (spot.at("spec", "csi", "driver", label="no rename"), mount.spot.below("mountPath")),
                "write checkpoints to a file system, and copy them to the bucket",
            )


@rule("STO013", "bucket-without-its-sidecar", Severity.ERROR, needs=Workload, fix="safe")
@once
def bucket_without_its_sidecar(workload: Workload) -> Iterator[Problem]:
    """Pods mount a bucket through Cloud Storage FUSE and do not ask for the sidecar that serves it.

    GKE adds the sidecar to pods with the annotation `gke-gcsfuse/volumes: "true"`. Without it the volume is not
    mounted, and the pods stay in ContainerCreating. The annotation belongs on the pod template, not on the job.

    Bad:
        kind: Job
        spec: {template: {spec: {volumes: [{name: bucket, csi: {driver: gcsfuse.csi.storage.gke.io}}]}}}
    Good:
        kind: Job
        spec: {template: {
          metadata: {annotations: {gke-gcsfuse/volumes: "true"}},
          spec: {volumes: [{name: bucket, csi: {driver: gcsfuse.csi.storage.gke.io}}]}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {volumes: [{name: secrets, csi: {driver: secrets-store.csi.k8s.io}}]}}}

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar
    """
    for pod_set in workload.pod_sets:
        if pod_set.annotations.get(_FUSE_ANNOTATION) == "true":
            continue
        for volume in volumes(pod_set):
            if _driver(workload, volume)[0] == _FUSE_DRIVER:
                yield Problem(
                    f"volume {volume.name} is a bucket, but the pods do not ask for the sidecar that serves it",
                    pod_set.template.below("metadata", "annotations", _FUSE_ANNOTATION, label="not there"),
                    (volume.spot.saying("needs the sidecar"),),
                    f'add the annotation {_FUSE_ANNOTATION}: "true" to the pod template',
                    put(pod_set.template.below("metadata", "annotations", _FUSE_ANNOTATION), "true"),
                )


def _outputs(workload: Workload) -> Iterator[tuple[Setting, Mount]]:
    """Each output directory that a program is told, with the volume that it lies on."""
    for pod_set in workload.pod_sets:
        every = list(mounts(pod_set))
        for container in pod_set.containers:
            output = output_directory(container)
            if output is None:
                continue
            path = PurePosixPath(output.value)
            own = [each for each in every if each.container is container and path.is_relative_to(each.path)]
            if own:
                yield output, max(own, key=lambda each: len(each.path.parts))


def _claim(workload: Workload, volume: Volume) -> Object | None:
    claims = workload.of_kind("PersistentVolumeClaim")
    return next((each for each in claims if volume.claim and each.name == volume.claim), None)


def _driver(workload: Workload, volume: Volume) -> tuple[str, Object | None]:
    """The CSI driver of a volume, and the PersistentVolume that says so, where one does."""
    if volume.source == "csi":
        return text(volume.data.get("driver")), None
    claim = _claim(workload, volume)
    name = None if claim is None else mapping(claim.data.get("spec")).get("volumeName")
    for each in workload.of_cluster("PersistentVolume"):
        if name and each.name == name:
            return text(mapping(mapping(each.data.get("spec")).get("csi")).get("driver")), each
    return "", None
