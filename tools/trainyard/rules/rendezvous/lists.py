"""Whether the hosts that a launcher is given are pods of the job."""

from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.once import once
from trainyard.rules.common.starts import Start, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.hostfiles import listed_hosts
from trainyard.workload.model import Workload
from trainyard.workload.services import Means, resolve


@rule("RDV013", "listed-host-unknown", Severity.ERROR, needs=Workload)
@once
def listed_host_unknown(workload: Workload) -> Iterator[Problem]:
    """A host that mpirun, horovodrun or deepspeed is given is not a pod of the job.

    The launcher opens a shell on each host of its list, or of its hostfile, and waits for all of them. A name that no
    pod has is not resolved, and nothing starts.

    Bad:

        # on: mpijob
        metadata: {name: resnet}
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [horovodrun, -np, "16", -H, "resnet-worker-1.resnet:8,resnet-worker-2.resnet:8", ./t]

    Good:

        # on: mpijob
        metadata: {name: resnet}
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - name: launcher
                    command: [horovodrun, -np, "16", -H, "resnet-worker-0.resnet:8,resnet-worker-1.resnet:8", ./t]

    Near miss:

        # on: mpijob
        metadata: {name: resnet}
        spec:
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers:
                  - {name: launcher, command: [horovodrun, -np, "16", --hostfile, /etc/mpi/hostfile, python, t.py]}

    Source: https://horovod.readthedocs.io/en/stable/running_include.html
    """
    for start in starts(workload):
        for listed in listed_hosts(workload, start.pod_set, start.container):
            means = resolve(workload, listed.host)
            reason = _UNREACHABLE.get(means.means)
            if reason is None:
                continue
            yield Problem(
                f"{start.launch.launcher} is given host {listed.host}, which is not a pod of the job: {reason}",
                listed.spot.saying("the launcher waits for every one of its hosts"),
                help=_first_hosts(workload, start),
            )


_UNREACHABLE = {
    Means.BARE_HOSTNAME: "a host name resolves only with its subdomain",
    Means.NOTHING: "no pod or Service has this name",
    Means.NO_SUCH_INDEX: "the job has fewer pods",
    Means.WRONG_SUBDOMAIN: "the pods have another subdomain",
}


def _first_hosts(workload: Workload, start: Start) -> str:
    others = [each for each in workload.pod_sets if each is not start.pod_set and each.hostnames] or [start.pod_set]
    if not others[0].hostnames:
        return "name pods of the job"
    domain = others[0].subdomain
    first = others[0].hostnames[0]
    return f"the first of them is {first if domain is None else f'{first}.{domain.value}'}"
