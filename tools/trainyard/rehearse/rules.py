"""Pages of what a rehearsal finds. Their findings come from a run, so the linter never raises them."""

from trainyard.findings.finding import Severity
from trainyard.rules.registry import declare

_SOURCE = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/"

FAILS = declare(
    "RHS001",
    "fails-in-rehearsal",
    Severity.ERROR,
    f"""A container of the rehearsed job ends with an error, and its controller gives up.

    The message has the exit code and the last line that names an error; the log above it has the rest.

    Bad:
        spec:
          template:
            spec:
              containers:
              - {{name: trainer, command: [torchrun, -m, trainer, stepss=100]}}

    Good:
        spec:
          template:
            spec:
              containers:
              - {{name: trainer, command: [torchrun, -m, trainer, steps=100]}}

    Source: {_SOURCE}
    """,
)

HANGS = declare(
    "RHS002",
    "hangs-in-rehearsal",
    Severity.ERROR,
    """The rehearsed job stands still: no output, no step, no processor time for as long as --patience says.

    The report shows where each rank stands and which connections wait. Ranks that wait for a peer which never comes
    stand at the rendezvous; ranks of which one takes another path stand in a collective.

    Bad:
        # two pods, and torchrun waits for three
        env: [{name: PET_NNODES, value: "3"}]

    Good:
        # two pods
        env: [{name: PET_NNODES, value: "2"}]

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """,
)

NO_NAME = declare(
    "RHS003",
    "name-does-not-resolve",
    Severity.ERROR,
    """A pod of the rehearsed job asks for a name that the cluster's DNS does not know.

    A pod has a name where its `hostname` and `subdomain` are set, a headless Service is called as the subdomain and
    selects the pod, and the pod is ready or the Service says publishNotReadyAddresses.

    Bad:
        # the pods' subdomain is trainer
        env: [{name: MASTER_ADDR, value: trainer-0.training}]

    Good:
        # the pods' subdomain is trainer
        env: [{name: MASTER_ADDR, value: trainer-0.trainer}]

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    """,
)

DROPPED = declare(
    "RHS004",
    "connection-does-not-come-about",
    Severity.ERROR,
    """A pod of the rehearsed job dials another, and no NetworkPolicy lets it through, or nobody listens there.

    Bad:
        # ranks meet on 29400
        ingress: [{ports: [{port: 29500}]}]

    Good:
        # ranks meet on 29400
        ingress: [{ports: [{port: 29400}]}]

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """,
)

MISSING = declare(
    "RHS005",
    "ranks-missing",
    Severity.ERROR,
    """Fewer ranks train than the job has, or more, though nothing fails.

    Each pod trains alone, some GPUs have no rank, or several ranks share one: the job ends well, and was slower or
    wrong.

    Bad:
        # two GPUs in a pod, and mpirun starts one rank for each of two pods
        command: [mpirun, -np, "2", python, -m, trainer]

    Good:
        command: [mpirun, -np, "4", python, -m, trainer]

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """,
)

UNSAVED = declare(
    "RHS006",
    "nothing-to-resume-from",
    Severity.ERROR,
    """A run that was started again began at its first step: it found no checkpoint of the run before it.

    Checkpoints go into a volume that outlives the pod, and each start of the run reads where the last one wrote.

    Bad:
        # /checkpoints is not a volume: it goes with the pod
        env: [{name: TRAINER_CHECKPOINT_DIR, value: /output}]

    Good:
        volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
        env: [{name: TRAINER_CHECKPOINT_DIR, value: /checkpoints}]

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/
    """,
)

DIFFERS = declare(
    "RHS007",
    "resumed-differently",
    Severity.ERROR,
    """A run that was started again took other losses than the first run took at the same steps.

    Bad:
        # the order of samples depends on the time
        env: [{name: TRAINER_SEED, value: $(NOW)}]

    Good:
        env: [{name: TRAINER_SEED, value: "1337"}]

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """,
)

KILLED = declare(
    "RHS008",
    "killed-when-its-grace-was-over",
    Severity.ERROR,
    """A pod that was told to end was still at work when terminationGracePeriodSeconds were over, and was killed.

    Either the grace is shorter than a save, or SIGTERM never reached the program: a shell that is a container's first
    process passes no signal on, and ignores it.

    Bad:
        terminationGracePeriodSeconds: 2
        containers: [{command: [sh, -c, "python -m trainer; true"]}]

    Good:
        terminationGracePeriodSeconds: 120
        containers: [{command: [sh, -c, exec python -m trainer]}]

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    """,
)

SHARED_MEMORY = declare(
    "RHS009",
    "shared-memory-full",
    Severity.ERROR,
    """A container of the rehearsed job filled its /dev/shm and was ended for it.

    A pod that mounts nothing there has 64 MiB. Data loaders and NCCL need more.

    Bad:
        volumes: []

    Good:
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory
    """,
)

BROKEN = declare(
    "RHS010",
    "did-not-survive",
    Severity.ERROR,
    """The rehearsed job did not come back from what --chaos did to it.

    A rank or node that dies, a preemption and a full disk cost steps, and never the run: the controller starts the pods
    again, and the trainer goes on from the newest complete checkpoint.

    Bad:
        backoffLimit: 0

    Good:
        backoffLimit: 16

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
    """,
)

PROBED = declare(
    "RHS011",
    "ended-by-its-probe",
    Severity.ERROR,
    """A liveness or startup probe failed often enough for the kubelet to end a container of the rehearsed job.

    A rank that waits for its peers, loads data or saves answers no probe, and to end it ends the whole run. A hang is
    what a collective's timeout finds.

    Bad:
        # nothing listens on 8080
        livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 10, failureThreshold: 3}

    Good:
        # none: training has nothing to answer with
        containers: [{name: trainer, command: [torchrun, -m, trainer]}]

    Source: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """,
)

SEPARATE = declare(
    "RHS012",
    "separate-worlds",
    Severity.ERROR,
    """The pods of the rehearsed job met in several worlds, or in none, where the job has one.

    A launcher that is told of no peers starts a world in each pod. All of them take the same samples, end well, and
    write the same checkpoints over each other: the job costs what the one that was meant costs, and trains less.

    Bad:
        # in each of two pods: a world of the ranks of one pod
        command: [deepspeed, --num_gpus=8, train.py]

    Good:
        command: [torchrun, --nnodes=2, --nproc-per-node=8, --rdzv-endpoint=trainer-0.trainer:29400, train.py]

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """,
)

AT_FULL_SIZE = declare(
    "RHS013",
    "refused-at-full-size",
    Severity.ERROR,
    """The trainer refuses the job as it is written, which a rehearsal on fewer ranks and with a smaller model hides.

    Its own check is asked, with the model, the lengths and the batch of the job and all of its ranks.

    Bad:
        # 1024 tokens are the context of gpt2-124m
        env: [{name: TRAINER_MODEL, value: gpt2-124m}, {name: TRAINER_SEQUENCE_LENGTH, value: "2048"}]

    Good:
        env: [{name: TRAINER_MODEL, value: gpt2-124m}, {name: TRAINER_SEQUENCE_LENGTH, value: "1024"}]

    Source: trainer/schedule.py
    """,
)
