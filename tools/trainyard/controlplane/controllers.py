"""The real controllers of training jobs on a control plane of our own, their webhooks included.

What is not as in a cluster: they have every right, since RBAC is their installation's and not a job's; they elect no
leader, serve no metrics and listen on 127.0.0.1 alone, so their webhooks are called by URL and not through a Service.
mpi-operator has no webhooks. KubeRay's are off, as they are unless one asks for them; its controllers validate the
same. Kueue takes certificates from nobody but itself: it makes them, as in a cluster, and its Service is a name for
localhost. Its server of pending workloads is off, since it would listen on every interface.
"""

import base64
import contextlib
import http.client
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.controlplane import Client, Plane, Refused
from trainyard.controlplane.definitions import load_definitions, without_descriptions
from trainyard.controlplane.programs import GOGC
from trainyard.controlplane.programs import PROGRAMS as CONTROL_PLANE
from trainyard.controlplane.supervisor import die_with, free_port
from trainyard.errors import Fault
from trainyard.home import HOME

PROGRAMS = HOME / ".tools" / "controllers"
"""Where tools/bootstrap.py builds them."""
INSTALLED = PROGRAMS / "installed"
"""What their projects install beside them, a file a controller."""
AUTHORITY = CONTROL_PLANE / "authority"

START_SECONDS = 120
"""How long a controller may take to become ready on a machine that does much else."""
END_SECONDS = 10
LOG_LINES = 40

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A controller's folder, and the ports of 127.0.0.1 where it listens."""

    folder: Path
    health: int
    webhooks: int

    @property
    def certificates(self) -> Path:
        """Where a webhook server looks for its certificate: a folder below TMPDIR."""
        return self.folder / "k8s-webhook-server" / "serving-certs"


@dataclass(frozen=True, slots=True)
class Controller:
    """How a controller is started."""

    kinds: tuple[tuple[str, str], ...]
    """Pairs of apiVersion and kind whose definitions it needs."""
    flags: Callable[[Place], Sequence[str]]
    settings: Callable[[Place], Json] | None = None
    """The file that it takes with --config."""
    settings_of_plane: Callable[[Plane], Json] | None = None
    """The same, for a scheduler."""
    ready: str = ""
    """What it logs when it is ready, where it answers no health checks."""
    wrong: tuple[Json, ...] = ()
    """Objects that its webhooks refuse, which shows that the API server asks them."""
    own_certificates: str = ""
    """Namespace and name of the Secret where it keeps the certificates that it makes; it has none from here then."""


def _health_flag(place: Place) -> list[str]:
    return [f"--health-probe-bind-address=127.0.0.1:{place.health}"]


def settings(api_version: str, *, certificates_by_setting: bool = False, **more: Any) -> Callable[[Place], Json]:
    """The configuration that the operators of Kubernetes' job working groups have in common."""

    def made(place: Place) -> Json:
        certificates = {"certDir": str(place.certificates)} if certificates_by_setting else {}
        return {
            "apiVersion": api_version,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health}"},
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": place.webhooks} | certificates,
            **more,
        }

    return made


def _object(api_version: str, kind: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"namespace": "default", "name": "wrong", **metadata},
        "spec": spec,
    }


_POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer"}]}}

COSCHEDULER = "scheduler-plugins-scheduler"
"""The schedulerName of pods that the coscheduling plugin places."""


def _scheduler(plane: Plane) -> Json:
    backoff = {"kind": "CoschedulingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1", "podGroupBackoffSeconds": 4}
    arguments = {"name": "Coscheduling", "args": backoff}
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.folder / "admin.kubeconfig")},
        "profiles": [{"schedulerName": COSCHEDULER, "plugins": plugins, "pluginConfig": [arguments]}],
    }


_TRAINER = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")

CONTROLLERS: Mapping[str, Controller] = {
    "jobset": Controller(
        kinds=(("jobset.x-k8s.io/v1alpha2", "JobSet"),),
        flags=lambda _: [],
        settings=settings("config.jobset.x-k8s.io/v1alpha1", internalCertManagement={"enable": False}),
        wrong=(
            _object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                {"replicatedJobs": [{"name": "worker", "template": {"spec": {"template": _POD}}}]},
                name="n" * 63,
            ),
        ),
    ),
    "trainer": Controller(
        kinds=(
            *(("trainer.kubeflow.org/v1alpha1", kind) for kind in _TRAINER),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ),
        flags=lambda _: [],
        settings=settings("config.trainer.kubeflow.org/v1alpha1", certManagement={"enable": False}),
        wrong=(_object("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "none"}}),),
    ),
    "training-operator": Controller(
        kinds=(("kubeflow.org/v1", "PyTorchJob"), ("kubeflow.org/v1", "TFJob")),
        flags=lambda place: [*_health_flag(place), f"--webhook-server-port={place.webhooks}"],
        wrong=(
            _object("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"template": _POD}}}),
            _object("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {"Chief": {"template": _POD}}}),
        ),
    ),
    "mpi-operator": Controller(
        kinds=(("kubeflow.org/v2beta1", "MPIJob"),), flags=lambda _: [], ready="Started workers"
    ),
    "ray-operator": Controller(kinds=(("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob")), flags=_health_flag),
    "coscheduling": Controller(
        kinds=(("scheduling.x-k8s.io/v1alpha1", "PodGroup"), ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota")),
        # A gang that let go of its places is tried again when nothing in the cluster changes either.
        flags=lambda _: ["--secure-port=0", "--pod-max-in-unschedulable-pods-duration=2s"],
        settings_of_plane=_scheduler,
        ready="Starting Kubernetes Scheduler",
    ),
    "kueue": Controller(
        kinds=(),
        flags=lambda _: [],
        settings=settings(
            "config.kueue.x-k8s.io/v1beta2",
            certificates_by_setting=True,
            featureGates={"VisibilityOnDemand": False},
            integrations={"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        ),
        wrong=(
            _object(
                "batch/v1",
                "Job",
                {"template": _POD},
                labels={"kueue.x-k8s.io/queue-name": "queue"},
                annotations={"kueue.x-k8s.io/job-min-parallelism": "few"},
            ),
        ),
        own_certificates="kueue-system/kueue-webhook-server-cert",
    ),
}


WEBHOOKS_OF: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("jobset.x-k8s.io", "JobSet"): ("jobset",),
    ("kubeflow.org", "PyTorchJob"): ("training-operator",),
    ("kubeflow.org", "TFJob"): ("training-operator",),
    ("trainer.kubeflow.org", "TrainJob"): ("jobset", "trainer"),
}
"""Which of CONTROLLERS have webhooks that are asked about a kind, by its group."""


@contextlib.contextmanager
def controller(name: str, plane: Plane) -> Iterator[None]:
    """Run a controller against a control plane until the block ends, however it ends.

    It serves, and the API server asks its webhooks, before the block begins. Its log is `plane.log(name)`. Fault with
    the end of that log where it is not built or does not become ready.
    """
    known = CONTROLLERS[name]
    if not (PROGRAMS / "stamp").is_file():
        raise Fault(f"{PROGRAMS} is missing: run python3 tools/bootstrap.py controllers, which builds it")
    place = Place(plane.folder / name, free_port(), free_port())
    place.certificates.mkdir(parents=True)
    with contextlib.closing(plane.client()) as client:
        load_definitions(client, known.kinds)
        if known.own_certificates:
            install(client, name, place)
        else:
            subprocess.run([AUTHORITY, place.certificates, "tls"], check=True, stdin=subprocess.DEVNULL)
        with _process(name, known, plane, place) as process:
            try:
                client.until(f"ready {name}", lambda: _is_ready(client, known, process, plane, place), START_SECONDS)
                if not known.own_certificates:
                    for configuration in webhooks_of(name, place):
                        client.create(configuration)
                client.until(f"webhook of {name} that is asked", lambda: _are_asked(client, known.wrong))
            except Fault as fault:
                raise Fault(f"{fault}\n{log_of(plane, name)}") from None
            yield


def log_of(plane: Plane, name: str) -> str:
    """The end of a controller's log, under its name."""
    lines = plane.log(name).splitlines()[-LOG_LINES:]
    return "\n".join([f"-- {name}.log", *lines])


def webhooks_of(name: str, place: Place) -> Iterator[Json]:
    """The webhook configurations that a controller is installed with, asked at its port."""
    if not (INSTALLED / f"{name}.yaml").is_file():
        return
    trusted = base64.b64encode((place.certificates / "ca.crt").read_bytes()).decode()
    for item in _installed(name, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        item["metadata"]["name"] = f"{name}.{item['metadata']['name']}"
        for webhook in item["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{place.webhooks}{path}", "caBundle": trusted}
        yield item


def install(client: Client, name: str, place: Place) -> None:
    """Create what a controller is installed with but for itself and its rights; its Services lead to its port."""
    for item in _installed(name, "Namespace", "Secret", "Service"):
        if item["kind"] == "Service":
            item["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        client.create(item)
    for item in _installed(name, "CustomResourceDefinition"):
        conversion = item["spec"].get("conversion", {}).get("webhook")
        if conversion:
            conversion["clientConfig"]["service"]["port"] = place.webhooks
        client.create(without_descriptions(item))
    for item in _installed(name, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in item["webhooks"]:
            webhook["clientConfig"]["service"]["port"] = place.webhooks
        client.create(item)


def _installed(name: str, *kinds: str) -> list[Json]:
    """Objects of some kinds among those that a controller is installed with, in the order of the kinds."""
    items = list(yaml.load_all((INSTALLED / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader))
    return [item for kind in kinds for item in items if item["kind"] == kind]


def _mount(client: Client, secret: str, folder: Path) -> None:
    """Write a Secret's data to the folder where its pod would have it, as far as there is any.

    As with the kubelet, who reads a file meanwhile finds the whole of it, and what did not change is not written.
    """
    namespace, _, name = secret.partition("/")
    found = client.get({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}})
    for key, value in found.get("data", {}).items():
        file, content = folder / key, base64.b64decode(value)
        if not file.exists() or file.read_bytes() != content:
            written = folder / f".{key}"
            written.write_bytes(content)
            written.replace(file)


@contextlib.contextmanager
def _process(name: str, known: Controller, plane: Plane, place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    flags = list(known.flags(place))
    settings = known.settings(place) if known.settings else known.settings_of_plane and known.settings_of_plane(plane)
    if settings:
        (place.folder / "config.json").write_text(json.dumps(settings))
        flags.append(f"--config={place.folder / 'config.json'}")
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(place.folder),
        "KUBECONFIG": str(plane.folder / "admin.kubeconfig"),
        "TMPDIR": str(place.folder),
        "GOGC": GOGC,
    }
    with (plane.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAMS / name, *flags],
            cwd=place.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # an interrupt is this process's to answer
            preexec_fn=die_with(os.getpid()),
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()


def _is_ready(
    client: Client, known: Controller, process: "subprocess.Popen[bytes]", plane: Plane, place: Place
) -> bool:
    if (code := process.poll()) is not None:
        raise Fault(f"{place.folder.name} ended with {code}")
    if known.own_certificates:
        _mount(client, known.own_certificates, place.certificates)
    if known.ready:
        return known.ready in plane.log(place.folder.name)
    connection = http.client.HTTPConnection("127.0.0.1", place.health, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _are_asked(client: Client, wrong: Sequence[Json]) -> bool:
    """Whether webhooks refuse what they should. A mutating webhook is asked before: it was created before."""
    for item in wrong:
        try:
            client.create(item, dry_run=True)
        except Refused as refused:
            if "admission webhook" in str(refused):
                continue
        return False
    return True
