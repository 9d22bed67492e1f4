"""What a claim asks of its storage class or volume, and whether that can give it."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.quantity import quantity
from trainyard.objects.remedy import put
from trainyard.rules.common.once import once
from trainyard.rules.common.volumes import volumes
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Workload
from trainyard.workload.plain import mapping, sequence, text

_BLOCK = {
    "ebs.csi.aws.com": "EBS",
    "kubernetes.io/aws-ebs": "EBS",
    "disk.csi.azure.com": "Azure Disk",
    "kubernetes.io/azure-disk": "Azure Disk",
    "pd.csi.storage.gke.io": "a persistent disk",
    "kubernetes.io/gce-pd": "a persistent disk",
    "cinder.csi.openstack.org": "Cinder",
    "dobs.csi.digitalocean.com": "block storage",
    "csi.hetzner.cloud": "block storage",
    "linodebs.csi.linode.com": "block storage",
    "rancher.io/local-path": "a folder of one node",
    "local.csi.openebs.io": "a volume of one node",
    "openebs.io/local": "a folder of one node",
    "topolvm.io": "a volume of one node",
    "kubernetes.io/no-provisioner": "a disk of one node",
}
"""Provisioners whose volumes one node mounts at a time, and what they are."""
_CLASSES = {
    "gp2": "ebs.csi.aws.com",
    "gp3": "ebs.csi.aws.com",
    "managed-csi": "disk.csi.azure.com",
    "managed-csi-premium": "disk.csi.azure.com",
    "managed-premium": "disk.csi.azure.com",
    "standard-rwo": "pd.csi.storage.gke.io",
    "premium-rwo": "pd.csi.storage.gke.io",
    "local-path": "rancher.io/local-path",
}
"""Names that clouds and distributions give their classes, for where the class itself is not shown."""
_ZONAL = frozenset(
    {
        "ebs.csi.aws.com",
        "disk.csi.azure.com",
        "pd.csi.storage.gke.io",
        "cinder.csi.openstack.org",
        "kubernetes.io/aws-ebs",
    }
    | {
        "kubernetes.io/gce-pd",
        "kubernetes.io/no-provisioner",
        "rancher.io/local-path",
        "local.csi.openebs.io",
        "topolvm.io",
    }
)
_STATIC_ONLY = {"s3.csi.aws.com": "Mountpoint for S3", "gcsfuse.csi.storage.gke.io": "Cloud Storage FUSE"}
_MANY = frozenset({"ReadWriteMany"})
_LARGE = 2**40
_MISSPELT = 0.85
"""How alike two names are, from 0 to 1, of which one was meant."""


@rule("STO007", "class-cannot-share", Severity.ERROR, needs=Workload)
@once
def class_cannot_share(workload: Workload) -> Iterator[Problem]:
    """A claim asks for ReadWriteMany of a storage class whose volumes one node mounts at a time.

    Block storage and folders of a node cannot be written by several nodes. The claim stays Pending, and every pod that
    mounts it with it.

    Bad:
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: gp3}
    Good:
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: fsx-lustre}
    Near miss:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: gp3}
        provisioner: efs.csi.aws.com
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: gp3}

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
    """
    for claim, spec in _claims(workload):
        name = text(spec.get("storageClassName"))
        found = _class_of(workload, name)
        provisioner = _CLASSES.get(name, "") if found is None else text(found.data.get("provisioner"))
        shared = _MANY.intersection(text(mode) for mode in sequence(spec.get("accessModes")))
        if provisioner not in _BLOCK or not shared or spec.get("volumeMode") == "Block" or spec.get("volumeName"):
            continue
        yield Problem(
            f"claim {claim.name} asks for ReadWriteMany, but class {name} gives {_BLOCK[provisioner]}",
            claim.at("spec", "accessModes", label="several nodes cannot mount it"),
            (
                claim.at("spec", "storageClassName", label=f"made by {provisioner}"),
                *(() if found is None else (found.at("provisioner", label="not for several nodes"),)),
            ),
            "use a class of a shared file system, such as NFS, Lustre or CephFS",
        )


@rule("STO014", "class-misspelt", Severity.WARNING, needs=Workload)
@once
def class_misspelt(workload: Workload) -> Iterator[Problem]:
    """A claim names a storage class that the cluster does not make, and whose name is nearly that of one that it makes.

    A claim of a class that does not exist stays Pending, and every pod that mounts it with it. Classes may come from
    elsewhere, so a name that is like no other is not told, and neither are names that differ in a digit alone.

    Bad:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: fsx-lustre}
        provisioner: fsx.csi.aws.com
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: fsx-lustr}
    Good:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: fsx-lustre}
        provisioner: fsx.csi.aws.com
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: fsx-lustre}
    Near miss:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: nfs-hall-1}
        provisioner: nfs.csi.k8s.io
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {storageClassName: nfs-hall-2}

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1
    """
    made = {_without_digits(each.name): each for each in workload.of_cluster("StorageClass")}
    for claim, spec in _claims(workload):
        name = text(spec.get("storageClassName"))
        if not name or name in _CLASSES or _class_of(workload, name) is not None or spec.get("volumeName"):
            continue
        near = get_close_matches(_without_digits(name), made, 1, _MISSPELT)
        if near and near[0] != _without_digits(name):
            meant = made[near[0]]
            yield Problem(
                f"claim {claim.name} asks for storage class {name}, which this cluster does not make",
                claim.at("spec", "storageClassName", label="no such class here"),
                (meant.at("metadata", "name", label="made here"),),
                f"did you mean {meant.name}?",
            )


def _without_digits(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


@rule("STO008", "bound-before-scheduled", Severity.WARNING, needs=Workload, fix="unsafe")
@once
def bound_before_scheduled(workload: Workload) -> Iterator[Problem]:
    """A volume that belongs to one zone or node is made before anybody knows where the pods will run.

    With `volumeBindingMode: Immediate` the provisioner picks a zone at random. Where that zone has no free GPU node,
    the pods stay Pending beside free GPUs in another.

    Bad:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: shared}
        provisioner: ebs.csi.aws.com
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {accessModes: [ReadWriteOnce]}
    Good:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: shared}
        provisioner: ebs.csi.aws.com
        volumeBindingMode: WaitForFirstConsumer
        ---
        kind: PersistentVolumeClaim
        metadata: {name: llama-sft-checkpoints}
        spec: {accessModes: [ReadWriteOnce]}
    Near miss:
        kind: StorageClass
        apiVersion: storage.k8s.io/v1
        metadata: {name: shared}
        provisioner: nfs.csi.k8s.io
        volumeBindingMode: Immediate

    Source: https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
    """
    for claim, spec in _claims(workload):
        found = _class_of(workload, text(spec.get("storageClassName")))
        if (
            found is None
            or found.data.get("volumeBindingMode") == "WaitForFirstConsumer"
            or found.data.get("allowedTopologies")
        ):
            continue
        if text(found.data.get("provisioner")) in _ZONAL and not spec.get("volumeName"):
            yield Problem(
                f"class {found.name} makes volumes before the pods that mount them are scheduled",
                found.at("volumeBindingMode", label="in a zone that nobody chose"),
                (claim.at("spec", "storageClassName", label="a claim of this class"),),
                "set volumeBindingMode: WaitForFirstConsumer",
                put(found.at("volumeBindingMode"), "WaitForFirstConsumer").unsafe(),
            )


@rule("STO009", "claim-never-binds", Severity.ERROR, needs=Workload, fix="unsafe")
@once
def claim_never_binds(workload: Workload) -> Iterator[Problem]:
    """A claim names a volume that does not fit it, or a class that makes no volumes.

    The claim stays Pending: a volume is bound only where class, access modes and size agree, and object-store drivers
    make none for a claim. An absent `storageClassName` means the default class, not none: write `""` for that.

    Bad:
        # on: job
        spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: data}
        spec: {capacity: {storage: 1Ti}, accessModes: [ReadWriteMany], storageClassName: ""}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data, namespace: research}
        spec: {accessModes: [ReadWriteMany], volumeName: data, storageClassName: "",
          resources: {requests: {storage: 2Ti}}}
    Bad:
        # on: job
        spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: data}
        spec: {capacity: {storage: 2Ti}, accessModes: [ReadWriteMany], storageClassName: lustre}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data, namespace: research}
        spec: {accessModes: [ReadWriteMany], volumeName: data, storageClassName: "",
          resources: {requests: {storage: 2Ti}}}
    Good:
        # on: job
        spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: data}
        spec: {capacity: {storage: 2Ti}, accessModes: [ReadWriteMany], storageClassName: ""}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data, namespace: research}
        spec: {accessModes: [ReadWriteMany], volumeName: data, storageClassName: "",
          resources: {requests: {storage: 2Ti}}}
    Near miss:
        # on: job
        spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}
        ---
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: other}
        spec: {capacity: {storage: 1Ti}, accessModes: [ReadWriteMany], storageClassName: ""}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data, namespace: research}
        spec: {accessModes: [ReadWriteMany], volumeName: data, storageClassName: "",
          resources: {requests: {storage: 2Ti}}}

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
    """
    for claim, spec in _claims(workload):
        volume = next(
            (each for each in workload.of_cluster("PersistentVolume") if each.name == spec.get("volumeName")), None
        )
        if volume is not None:
            yield from _unlike(claim, spec, volume)
        found = _class_of(workload, text(spec.get("storageClassName")))
        driver = "" if found is None else text(found.data.get("provisioner"))
        if found is not None and driver in _STATIC_ONLY and not spec.get("volumeName"):
            yield Problem(
                f"claim {claim.name} waits for class {found.name}, but {_STATIC_ONLY[driver]} makes no volumes",
                claim.at("spec", "storageClassName", label="nobody makes a volume for it"),
                (found.at("provisioner", label="for volumes that are there already"),),
                'write a PersistentVolume, and name it in volumeName with storageClassName: ""',
            )


def _unlike(claim: Object, spec: Mapping[Any, Any], volume: Object) -> Iterator[Problem]:
    """Where a claim and the volume that it names differ."""
    have = mapping(volume.data.get("spec"))
    wanted = text(spec.get("storageClassName")) if "storageClassName" in spec else None
    offered = text(have.get("storageClassName"))
    if wanted != offered and not (wanted is None and offered):
        said = "no class, which means the default one" if wanted is None else f"class {wanted or '(none)'}"
        yield Problem(
            f"claim {claim.name} names {said}, but its volume {volume.name} has class {offered or '(none)'}",
            claim.at("spec", "storageClassName", label="never bound"),
            (volume.at("spec", "storageClassName", label="the volume's class"),),
            f'write storageClassName: "{offered}" in both',
            put(claim.at("spec", "storageClassName"), offered).unsafe(),
        )
    lacking = [mode for mode in sequence(spec.get("accessModes")) if mode not in sequence(have.get("accessModes"))]
    if lacking:
        yield Problem(
            f"claim {claim.name} asks for {lacking[0]}, which its volume {volume.name} does not offer",
            claim.at("spec", "accessModes", label="never bound"),
            (volume.at("spec", "accessModes", label="what it offers"),),
            "ask for a mode of the volume",
        )
    asked = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    size = mapping(have.get("capacity")).get("storage")
    amount, most = quantity(asked), quantity(size)
    if amount is not None and most is not None and amount > most:
        yield Problem(
            f"claim {claim.name} asks for {asked}, but its volume {volume.name} has {size}",
            claim.at("spec", "resources", "requests", "storage", label="never bound"),
            (volume.at("spec", "capacity", "storage", label="the volume's size"),),
            f"ask for at most {size}",
        )


@rule("STO010", "owner-changed-on-every-start", Severity.WARNING, needs=Workload, fix="safe")
@once
def owner_changed_on_every_start(workload: Workload) -> Iterator[Problem]:
    """Each start of a pod changes the owner of every file on a large volume.

    With `fsGroup` the kubelet walks the whole volume before the container starts. On a terabyte of checkpoints or of
    small dataset files that takes from minutes to hours, for each pod and each restart. `OnRootMismatch` looks at the
    root folder alone.

    Bad:
        kind: Job
        spec: {template: {spec: {securityContext: {fsGroup: 1000}}}}
    Good:
        kind: Job
        spec: {template: {spec: {securityContext: {fsGroup: 1000, fsGroupChangePolicy: OnRootMismatch}}}}
    Near miss:
        kind: Job
        spec: {template: {spec: {securityContext: {supplementalGroups: [1000]}}}}

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    """
    sizes = {claim.name: (claim, _size(spec)) for claim, spec in _claims(workload)}
    for pod_set in workload.pod_sets:
        context = mapping(pod_set.spec.get("securityContext"))
        if context.get("fsGroup") is None or context.get("fsGroupChangePolicy") == "OnRootMismatch":
            continue
        for volume in volumes(pod_set):
            claim, size = sizes.get(volume.claim, (None, 0))
            if claim is not None and size >= _LARGE and volume.data.get("readOnly") is not True:
                yield Problem(
                    f"every start of a pod changes the owner of all files of claim {claim.name}",
                    pod_set.template.below("spec", "securityContext", "fsGroup", label="walks the whole volume"),
                    (claim.at("spec", "resources", "requests", "storage", label="all of this"),),
                    "set fsGroupChangePolicy: OnRootMismatch beside fsGroup",
                    put(pod_set.template.below("spec", "securityContext", "fsGroupChangePolicy"), "OnRootMismatch"),
                )
                break


def _claims(workload: Workload) -> Iterator[tuple[Object, Mapping[Any, Any]]]:
    """The claims that pods of the job mount, each with its spec."""
    mounted = {volume.claim for pod_set in workload.pod_sets for volume in volumes(pod_set)}
    for claim in workload.of_kind("PersistentVolumeClaim"):
        if claim.name in mounted:
            yield claim, mapping(claim.data.get("spec"))


def _class_of(workload: Workload, name: str) -> Object | None:
    return next((each for each in workload.of_cluster("StorageClass") if name and each.name == name), None)


def _size(spec: Mapping[Any, Any]) -> int:
    return int(quantity(mapping(mapping(spec.get("resources")).get("requests")).get("storage")) or 0)
