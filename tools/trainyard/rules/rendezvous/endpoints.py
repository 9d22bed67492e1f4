"""The port where ranks meet, and the id by which they know each other."""

import re
from collections.abc import Iterator

from trainyard.findings.finding import Severity
from trainyard.rules.common.meetings import Meeting, meetings
from trainyard.rules.common.once import once
from trainyard.rules.common.places import value_at
from trainyard.rules.common.starts import Start, meets_others, starts
from trainyard.rules.registry import Problem, rule
from trainyard.workload.model import Container, Setting, Workload
from trainyard.workload.plain import entries, mapping, text
from trainyard.workload.rendezvous import rendezvous
from trainyard.workload.services import endpoint, headless, resolve

_PER_POD_COMMAND = re.compile(
    r"\$\{?(RANDOM|SRANDOM|HOSTNAME|EPOCHSECONDS|EPOCHREALTIME)\b|\$\$"
    r"|[`(]\s*(date|uuidgen|hostname|mktemp|openssl rand|shuf|cat /proc/sys/kernel/random/uuid|cat /etc/hostname)\b"
)
_REFERENCE = re.compile(r"\$[({]?([A-Za-z_][A-Za-z0-9_]*)")
_PER_POD_FIELD = re.compile(r"metadata\.(name|uid)\Z|status\.|spec\.nodeName\Z|.*(completion-index|replica-index)")


@rule("RDV006", "rendezvous-port-mismatch", Severity.ERROR, needs=Workload)
@once
def rendezvous_port_mismatch(workload: Workload) -> Iterator[Problem]:
    """Some pods cannot dial the rendezvous port.

    Port 0 lets the first pod take any port, which the others cannot know. Pods that are told different ports never
    meet. A Service with an address of its own passes on only the ports that it lists; a headless one passes all.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-0.llama-sft:0

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-0.llama-sft:29500

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                env:
                - name: PET_RDZV_ENDPOINT
                  value: llama-sft-0.llama-sft

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    first: Meeting | None = None
    for meeting in meetings(workload):
        port, spot = meeting.port.value, meeting.port.spot
        remedy = "give every pod the same port, such as 29400"
        if _has_no_port(meeting):
            written = meeting.start.launch.options["rdzv_endpoint"].value
            yield Problem(f"rendezvous endpoint {written} has no port", spot.saying("host:port"), help=remedy)
        elif port is None:
            continue
        elif not 0 < port < 65536:
            why = "lets the first pod take any port" if port == 0 else "is past 65535"
            yield Problem(f"rendezvous port {port} {why}", spot.saying("no other pod can dial it"), help=remedy)
        elif first is not None and port != first.port.value and _same_launcher(first, meeting):
            yield Problem(
                f"{meeting.start.pod_set.role} pods meet at port {port}, "
                f"but {first.start.pod_set.role} pods at {first.port.value}",
                spot.saying(f"port {port}"),
                (first.port.spot.saying(f"port {first.port.value}"),),
                remedy,
            )
        else:
            yield from _not_passed_on(meeting, port)
            first = first or meeting


def _without_id(workload: Workload, start: Start, backend: Setting) -> Problem:
    """An etcd that comes with the job is met by its next run alone, and only as long as that etcd remembers it."""
    found = rendezvous(start.launch)
    host = None if found is None else found.host.value
    is_own = isinstance(host, str) and resolve(workload, host).service is not None
    others = "the next run finds what this one left there" if is_own else "every job there shares the id none"
    return Problem(
        f"rendezvous through {backend.value} has no id, so {others}",
        backend.spot.saying("one store for many runs" if is_own else "one store for many jobs"),
        help="give each run a rendezvous id of its own" if is_own else "give each job a rendezvous id of its own",
        severity=Severity.WARNING if is_own else None,
    )


def _same_launcher(first: Meeting, second: Meeting) -> bool:
    return first.start.launch.launcher == second.start.launch.launcher


def _has_no_port(meeting: Meeting) -> bool:
    """c10d falls back on 29400 where no port is written; static does not, nor where what is written is not a port."""
    written = meeting.start.launch.option("rdzv_endpoint")
    if written is None or not isinstance(written.value, str):
        return False
    place = endpoint(written.value)
    return place.port is None and (meeting.backend == "static" or place.host != written.value)


def _not_passed_on(meeting: Meeting, port: int) -> Iterator[Problem]:
    service = meeting.means.service
    if service is None or headless(service) or mapping(service.data.get("spec")).get("type") == "ExternalName":
        return
    listed = [item.get("port") for _, item in entries(mapping(service.data.get("spec")).get("ports"))]
    if port in listed:
        return
    yield Problem(
        f"rendezvous port {port} is not among the ports of Service {service.name}: {', '.join(map(str, listed))}",
        meeting.port.spot.saying("every rank dials this port"),
        (service.at("spec", "ports", label="the only ports that are passed on"),),
        f"add port {port} to the Service, or make it headless",
    )


@rule("RDV010", "rendezvous-id-differs", Severity.ERROR, needs=Workload)
@once
def rendezvous_id_differs(workload: Workload) -> Iterator[Problem]:
    """The rendezvous id differs between pods, or is the same for all jobs of a shared etcd.

    Only pods with the same id meet. An id that each pod's shell generates, or that holds the pod's own name, leaves
    every pod alone in a rendezvous of its own. In an etcd that several jobs use, a missing id is the word `none` for
    all of them.

    Bad:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, torchrun --rdzv-id=$RANDOM -m trainer]
                args: []

    Good:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, torchrun --rdzv-id=llama-sft -m trainer]
                args: []

    Near miss:

        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, 'torchrun --rdzv-id=$JOB_ID -m trainer --seed=$RANDOM']
                args: []
                env:
                - name: JOB_ID
                  valueFrom:
                    fieldRef:
                      fieldPath: metadata.labels['batch.kubernetes.io/job-name']

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for start in starts(workload):
        id_, backend = start.launch.option("rdzv_id"), start.launch.option("rdzv_backend")
        if workload.pods == 1 or start.launch.launcher != "torchrun" or not meets_others(start):
            continue
        if backend is not None and str(backend.value).startswith("etcd") and (id_ is None or id_.implied):
            yield _without_id(workload, start, backend)
        elif id_ is not None and id_.value is None and (written := _per_pod(start, id_)):
            yield Problem(
                f"rendezvous id {written} differs from pod to pod",
                id_.spot.saying("pods with different ids never meet"),
                help=f"use one id for all pods, such as {workload.object.name or 'the name of the job'}",
            )


def _per_pod(start: Start, id_: Setting) -> str:
    """The id as it is written, where something in it is known to differ from pod to pod; else empty."""
    container = start.container
    variable = container.env.get("PET_RDZV_ID")
    if variable is not None and variable.spot == id_.spot and variable.origin == "field":
        return "from the pod itself" if _varies(container, "PET_RDZV_ID", id_) else ""
    written = variable.raw if variable is not None else None
    words = [word.text for word in container.words if word.spot == id_.spot and not word.known]
    flags = ("--rdzv_id", "--rdzv-id")
    for index, word in enumerate(container.words):
        if word.text in flags and index + 1 < len(container.words):
            written = container.words[index + 1].text
        elif word.text.startswith(flags) and word.text in words:
            written = word.text.partition("=")[2]
    if written is None:
        return ""
    varies = any(_varies(container, name, id_) for name in _REFERENCE.findall(written))
    return written if varies or _PER_POD_COMMAND.search(written) else ""


def _varies(container: Container, name: str, id_: Setting) -> bool:
    """Whether a variable is known to differ from pod to pod."""
    variable = container.env.get(name)
    if variable is not None:
        if variable.origin == "controller":
            return variable.value is None
        return variable.origin == "field" and _PER_POD_FIELD.match(text(value_at(variable.spot))) is not None
    script = text(value_at(id_.spot))
    return any(_PER_POD_COMMAND.search(value) for value in re.findall(rf"\b{name}=([^\n;&]+)", script))
