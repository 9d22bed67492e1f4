"""Components, and patches of the PodTemplate, that the base of a job has no place for."""

import pytest

from tests.planted.checkout import LLAMA, Checkout, Found
from tests.planted.test_patches import PODS

pytestmark = pytest.mark.commands

FILE = f"{LLAMA}/kustomization.yaml"
TEMPLATE = "PodTemplate/research/training-job"


def on(checkout: Checkout, base: str, *components: str) -> None:
    """The job on another base, with components."""
    checkout.replace(FILE, "../../../base/torchrun ", f"../../../base/{base} ")
    if components:
        listed = "".join(f"- ../../../base/{component}\n" for component in components)
        checkout.replace(FILE, "patches:\n", f"components:\n{listed}patches:\n")


@pytest.mark.parametrize(
    ("base", "component", "wanted"),
    [
        ("jobset", "queue/coscheduling", "changes an object of kind Job, and base/jobset makes none"),
        ("torchrun", "elastic", "changes an object of kind PyTorchJob, and base/torchrun makes none"),
        ("deepspeed", "zero", "is in base/deepspeed already"),
    ],
)
def test_a_component_for_another_base(checkout: Checkout, base: str, component: str, wanted: str) -> None:
    on(checkout, base, component)

    [finding] = checkout.expect(Found("CTR030", FILE, f"- ▸../../../base/{component}"))

    assert finding["message"] == f"base/{component} {wanted}"


def test_a_component_is_right_beside_a_wrong_one(checkout: Checkout) -> None:
    on(checkout, "torchrun", "queue/kueue", "elastic")
    checkout.expect(Found("CTR030", FILE, "- ▸../../../base/elastic"))


@pytest.mark.claim("train-job-takes-a-part")
@pytest.mark.parametrize(
    ("component", "path"),
    [("dataset-cache/job", "template.spec.initContainers"), ("queue/volcano", "template.spec.schedulerName")],
)
def test_a_train_job_takes_only_a_part_of_the_pod(checkout: Checkout, component: str, path: str) -> None:
    on(checkout, "trainjob", component)

    code, document = checkout.lint(LLAMA)

    [finding] = [each for each in document["findings"] if each["rule"] == "CTR031"]
    assert code == 1
    assert (finding["file"], finding["path"]) == (FILE, path)
    assert finding["message"] == f"a TrainJob does not take {path} from the PodTemplate, where base/{component} sets it"
    assert finding["related"][0]["file"] == f"base/{component}/pod-template.yaml"


SIDECAR = """\
  spec:
    initContainers:
    - name: watch
      image: registry.example.com/tools/watch@sha256:5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c
      restartPolicy: Always
      resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 0, memory: 0}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


def test_a_sidecar_that_no_pod_gets(checkout: Checkout) -> None:
    on(checkout, "trainjob")
    patch = checkout.patch(LLAMA, PODS + SIDECAR)
    checkout.expect(Found("CTR031", patch, "- name: ▸watch", TEMPLATE, "template.spec.initContainers"))


@pytest.mark.claim("train-job-takes-a-part")
def test_a_field_of_the_rank_that_no_pod_gets(checkout: Checkout) -> None:
    on(checkout, "trainjob")
    lines = "  spec:\n    containers:\n    - name: trainer\n      workingDir: /work\n"
    patch = checkout.patch(LLAMA, PODS + lines)
    path = "template.spec.containers[0].workingDir"
    checkout.expect(Found("CTR031", patch, "workingDir: ▸/work", TEMPLATE, path))


def test_labels_of_the_pod_template(checkout: Checkout) -> None:
    patch = checkout.patch(LLAMA, PODS + "  metadata:\n    labels:\n      example.com/project: whales\n")
    path = "template.metadata.labels"
    checkout.expect(Found("CTR031", patch, "example.com/project: ▸whales", TEMPLATE, path))


@pytest.mark.parametrize("base", ["torchrun", "jobset", "pytorchjob", "mpijob", "rayjob"])
def test_a_sidecar_that_the_pods_get(checkout: Checkout, base: str) -> None:
    on(checkout, base)
    checkout.patch(LLAMA, PODS + SIDECAR)
    checkout.expect()


@pytest.mark.claim("train-job-takes-a-part")
def test_what_a_train_job_takes_of_the_pod(checkout: Checkout) -> None:
    on(checkout, "trainjob")
    lines = "    - name: trainer\n      env:\n      - name: JOB\n      - name: WHALES\n        value: $(JOB)\n"
    more = "      volumeMounts:\n      - name: local\n        mountPath: /local\n"
    volumes = "    volumes:\n    - name: local\n      emptyDir: {sizeLimit: 1Gi}\n"
    checkout.patch(LLAMA, PODS + f"  spec:\n    containers:\n{lines}{more}{volumes}")
    checkout.expect()
