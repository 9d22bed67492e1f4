"""Where the workers' sshd listens, and whether the launcher gets there."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.counts import whole
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import PodSet, Setting, Workload
from trainyard.workload.network import reaches


@rule("MPI008", "ssh-port-closed", Severity.ERROR, needs=Workload)
def ssh_port_closed(workload: Workload) -> Iterator[Problem]:
    """NetworkPolicies keep the launcher from the port where the workers' sshd listens.

    mpirun starts nothing on a worker that it cannot reach: the launcher fails again and again until backoffLimit.

    Bad:

        # on: mpijob
        metadata: {name: allreduce}
        spec:
          mpiReplicaSpecs:
            Worker: {template: {spec: {containers: [{name: worker, command: [/usr/sbin/sshd, -De, -p, "2222"]}]}}}
        ---
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: peers, namespace: research}
        spec:
          podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}
          ingress:
          - from: [{podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}}]
            ports: [{port: 22}, {port: 32768, endPort: 65535}]

    Good:

        # on: mpijob
        metadata: {name: allreduce}
        spec:
          mpiReplicaSpecs:
            Worker: {template: {spec: {containers: [{name: worker, command: [/usr/sbin/sshd, -De, -p, "2222"]}]}}}
        ---
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: peers, namespace: research}
        spec:
          podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}
          ingress:
          - from: [{podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}}]
            ports: [{port: 2222}, {port: 32768, endPort: 65535}]

    Near miss:

        # on: mpijob
        metadata: {name: allreduce}
        spec: {mpiReplicaSpecs: {Worker: {template: {spec: {containers: [{name: worker, command: null}]}}}}}
        ---
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: peers, namespace: research}
        spec:
          podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}
          ingress:
          - from: [{podSelector: {matchLabels: {training.kubeflow.org/job-name: allreduce}}}]
            ports: [{port: 2222}, {port: 32768, endPort: 65535}]

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    by_role = {pod_set.role: pod_set for pod_set in workload.pod_sets}
    if workload.object.kind != "MPIJob" or "launcher" not in by_role or "worker" not in by_role:
        return
    worker = by_role["worker"]
    port = _sshd_port(worker)
    if port is None or worker.host_network:
        return
    answer = reaches(workload, by_role["launcher"], worker, range(port.value, port.value + 1))
    if answer.allowed is False:
        yield Problem(
            f"the launcher may not reach port {port.value} of the workers, where their sshd listens",
            answer.spots[0].saying("closes it"),
            (port.spot.saying(f"sshd listens on {port.value}"),),
            f"allow port {port.value} between the pods of the job, or all of them",
        )


@rule("MPI009", "sshd-on-the-port-of-the-node", Severity.WARNING, needs=Workload)
def sshd_on_the_port_of_the_node(workload: Workload) -> Iterator[Problem]:
    """Workers on the host's network start sshd on the port that the node's own sshd has.

    On the host's network there is one port 22, and the node's sshd listens on it: the worker's does not start, or
    mpirun speaks to the node. Two workers on one node would meet the same way.

    Bad:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template: {spec: {hostNetwork: true, containers: [{name: worker, command: [/usr/sbin/sshd, -De]}]}}

    Good:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template:
                spec: {hostNetwork: true, containers: [{name: worker, command: [/usr/sbin/sshd, -De, -p, "2222"]}]}

    Near miss:

        # on: mpijob
        spec:
          mpiReplicaSpecs:
            Worker:
              template:
                spec:
                  hostNetwork: true
                  containers: [{name: worker, command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]}]

    Source: https://github.com/kubeflow/mpi-operator/issues/593
    """
    for pod_set in workload.pod_sets:
        container = pod_set.main()
        launches = workload.object.kind == "MPIJob" and pod_set.role != "worker"
        if launches or not pod_set.host_network or container is None:
            continue
        words = [word.text for word in container.words]
        sshd = next((word for word in container.words if basename(word) == "sshd"), None)
        port = _sshd_port(pod_set)
        told = port is not None or any(text.startswith(("-f", "-o")) for text in words)
        if sshd is None or (port.value != 22 if port is not None else told):
            continue
        yield Problem(
            "sshd of the pods listens on port 22 of the node, which the node's own sshd has",
            pod_set.template.below("spec", "hostNetwork", label="the node's ports are the pod's"),
            ((port.spot if port is not None else sshd.spot).saying("no -p" if port is None else "port 22"),),
            "give sshd another port, such as -p 2222, and ssh the same",
        )


def _sshd_port(pod_set: PodSet) -> Setting | None:
    """What sshd of the first container is told by -p; None where it is told nothing, since its file may say it."""
    container = pod_set.containers[0] if pod_set.containers else None
    words = container.words if container is not None else ()
    at = next((index for index, word in enumerate(words) if basename(word) == "sshd"), None)
    for index in range(at + 1 if at is not None else len(words), len(words)):
        word = words[index]
        if word.text.startswith("-p") and word.known:
            following = words[index + 1] if word.text == "-p" and index + 1 < len(words) else None
            number = whole(word.text[2:] or (following.text if following is not None and following.known else None))
            return None if number is None or not 0 < number < 65536 else Setting(number, (following or word).spot)
    return None
