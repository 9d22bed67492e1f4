"""Whether ssh takes the keys that mpi-operator mounts, and sshd its sessions: MPI010 and up."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import Container, PodSet, Workload
from trainyard.workload.plain import mapping, sequence, text

_NEEDED = ("SYS_CHROOT", "SETUID", "SETGID")
"""What sshd that runs as root needs to shut the half of itself in that talks to strangers."""


@rule("MPI010", "ssh-key-open-to-group", Severity.ERROR, needs=Workload)
def ssh_key_open_to_group(workload: Workload) -> Iterator[Problem]:
    """The launcher runs as root, and fsGroup opens its ssh key to a group.

    mpi-operator mounts the key for its owner alone. With fsGroup the kubelet gives every file of a Secret to the group,
    which may then read it: ssh ignores such a key, asks for a password and ends with "permission denied".

    Bad:
        # on: mpijob
        spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {securityContext: {fsGroup: 1337}}}}}}
    Good:
        # on: mpijob
        spec: {mpiReplicaSpecs: {Worker: {template: {spec: {securityContext: {fsGroup: 1337}}}}}}
    Near miss:
        # on: mpijob
        spec:
          sshAuthMountPath: /home/mpiuser/.ssh
          mpiReplicaSpecs: {Launcher: {template: {spec: {securityContext: {fsGroup: 1000, runAsUser: 1000}}}}}

    Source: https://github.com/kubeflow/mpi-operator/issues/429
    """
    for pod_set, container in _roots(workload, "launcher"):
        group = mapping(pod_set.spec.get("securityContext")).get("fsGroup")
        if isinstance(group, int) and container.launch is not None and container.launch.launcher == "mpirun":
            yield Problem(
                f"group {group} may read the launcher's ssh key, so ssh does not use it",
                pod_set.template.below("spec", "securityContext", "fsGroup"),
                help="leave fsGroup out of the launcher, or run it as another user with sshAuthMountPath in their home",
            )


@rule("MPI011", "sshd-without-capabilities", Severity.ERROR, needs=Workload)
def sshd_without_capabilities(workload: Workload) -> Iterator[Problem]:
    """The sshd of the workers runs as root without the capabilities that it needs for a session.

    sshd shuts itself in an empty folder before it knows who calls, and changes its user afterwards. With all
    capabilities dropped it ends every session with "chroot: Operation not permitted".

    Bad:
        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - {name: worker, command: [/usr/sbin/sshd, -De], securityContext: {capabilities: {drop: [ALL]}}}
    Good:
        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - name: worker
                    command: [/usr/sbin/sshd, -De]
                    securityContext: {capabilities: {drop: [ALL], add: [SYS_CHROOT, SETUID, SETGID]}}
    Near miss:
        # on: mpijob
        spec:
          sshAuthMountPath: /home/mpiuser/.ssh
          mpiReplicaSpecs:
            Worker:
              template:
                spec:
                  containers:
                  - name: worker
                    command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]
                    securityContext: {runAsUser: 1000, capabilities: {drop: [ALL]}}

    Source: https://github.com/kubeflow/mpi-operator/issues/642
    """
    for _, container in _roots(workload, "worker"):
        if not any(basename(word) == "sshd" for word in container.words):
            continue
        capabilities = mapping(mapping(container.data.get("securityContext")).get("capabilities"))
        added = {str(name).removeprefix("CAP_") for name in sequence(capabilities.get("add"))}
        missing = [name for name in _NEEDED if name not in added]
        if "ALL" in sequence(capabilities.get("drop")) and "ALL" not in added and missing:
            yield Problem(
                f"sshd runs as root without {', '.join(missing)}, and ends every session",
                container.spot.below("securityContext", "capabilities"),
                help="add them, or run sshd as another user, without root's half",
            )


def _roots(workload: Workload, role: str) -> Iterator[tuple[PodSet, Container]]:
    """Main containers of a role that run as root: nobody says another user, and the keys are in root's home."""
    spec = mapping(workload.object.data.get("spec"))
    if workload.object.api_version != "kubeflow.org/v2beta1" or text(spec.get("sshAuthMountPath")) not in ("", _ROOT):
        return
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        if pod_set.role == role and container is not None and not _is_somebody(pod_set, container):
            yield pod_set, container


def _is_somebody(pod_set: PodSet, container: Container) -> bool:
    contexts = (mapping(container.data.get("securityContext")), mapping(pod_set.spec.get("securityContext")))
    users = (context[field] for context in contexts for field in ("runAsUser", "runAsNonRoot") if field in context)
    return any(user not in (0, False) for user in users)


_ROOT = "/root/.ssh"
