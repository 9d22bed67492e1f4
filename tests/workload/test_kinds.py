"""Rules hold for every kind of job: silent about good manifests, and they see the obvious mistakes in each."""

from collections.abc import Iterator

import pytest
import yaml

from tests.workload.manifests import INPUTS, unit
from trainyard.findings.finding import Severity
from trainyard.lint.result import found_by_rules
from trainyard.rules.index import all_rules
from trainyard.workload.made import written

GOOD = (
    "jobset",
    "jobset-one-job",
    "rayjob",
    "trainjob-mpi",
    "trainjob-torch",
    "volcano-pytorch",
)


def told(text: str) -> Iterator[str]:
    """Errors and warnings about manifests, each with the field that it points at."""
    rules = all_rules()
    for rule, problem in found_by_rules(rules, unit(text)):
        if rule.severity >= Severity.WARNING:
            at = written(problem.spot)
            yield f"{rule.id} {problem.message} @ {at.object.kind} {'.'.join(map(str, at.path))}"


@pytest.mark.parametrize("name", GOOD)
def test_good_manifests_pass(name: str) -> None:
    assert list(told((INPUTS / f"{name}.yaml").read_text())) == []


MISTAKES = [
    (
        "jobset",
        "{replicatedJob: trainer}",
        "{replicatedJob: trainer, podIndex: 9}",
        "RDV003 rendezvous host gemma-sft-trainer-0-9.gemma-sft is not a pod of the job: "
        "its index is 9, but 8 pods count from 0 @ JobSet spec.replicatedJobs.1.template.spec.template.spec",
    ),
    (
        "jobset",
        "--nnodes=8",
        "--nnodes=4",
        "RDV001 torchrun counts on 4 nodes, but 8 pods run it @ JobSet spec.replicatedJobs.1",
    ),
    (
        "jobset",
        "replicas: 2",
        "replicas: 1",
        "RDV001 torchrun counts on 8 nodes, but 4 pods run it @ JobSet spec.replicatedJobs.1",
    ),
    (
        "jobset",
        "name: gemma-sft,",
        "name: gemma-supervised-finetuning-on-instructions,",
        "NAM001 the coordinator's label would be called gemma-supervised-finetuning-on-instructions-trainer-0-0."
        "gemma-supervised-finetuning-on-instructions: 99 characters, but 63 are allowed @ JobSet metadata.name",
    ),
    (
        "jobset-one-job",
        "publishNotReadyAddresses: true",
        "publishNotReadyAddresses: false",
        "RDV005 the controller's Service vit-ranks hides pods that are not ready, but ranks meet before they are"
        " @ JobSet spec.network.publishNotReadyAddresses",
    ),
    (
        "jobset-one-job",
        "vit-node-0-0.vit-ranks:29400",
        "vit-node-0-0.vit:29400",
        "RDV003 rendezvous host vit-node-0-0.vit is not a pod of the job: the pods' subdomain is vit-ranks @ JobSet",
    ),
    (
        "jobset-one-job",
        "vit-node-0-0.vit-ranks:29400",
        "vit-ranks:29400",
        "RDV003 rendezvous host vit-ranks is not a pod of the job",
    ),
    (
        "trainjob-torch",
        "failurePolicy: {maxRestarts: 3}",
        "network: {subdomain: ranks}",
        "RDV003 rendezvous host bert-qa-node-0-0.bert-qa is not a pod of the job: the pods' subdomain is ranks",
    ),
    (
        "trainjob-torch",
        "numNodes: 3",
        "numNodes: 3\n    numProcPerNode: 16",
        "RDV002 torchrun starts 16 ranks in a pod, but the pod has 8 GPUs @ TrainJob spec.trainer.numProcPerNode",
    ),
    (
        "trainjob-torch",
        "{name: OUTPUT, value: /checkpoints/bert}",
        '{name: PET_NNODES, value: "2"}',
        "ENV028 PET_NNODES is set, but Kubeflow Trainer sets it itself and refuses or overwrites it"
        " @ TrainJob spec.trainer.env.1",
    ),
    (
        "trainjob-torch",
        '{name: EPOCHS, value: "1"}',
        '{name: PET_NNODES, value: "1"}',
        "RDV011 PET_NNODES set by hand, but torchrun sets it @ ClusterTrainingRuntime",
    ),
    (
        "trainjob-torch",
        "{name: bert-qa,",
        "{name: bert-question-answering-on-squad-v2,",
        "NAM001 the last pod would be called bert-question-answering-on-squad-v2-dataset-initializer-0-0-abcde",
    ),
    (
        "trainjob-mpi",
        "  template:\n    spec:\n      network",
        "  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 60}}\n  template:\n    spec:\n      network",
        "GNG001 label scheduling.x-k8s.io/pod-group is not read by the default scheduler: the pods start one by one"
        " @ TrainingRuntime spec.podGroupPolicy.coscheduling",
    ),
    (
        "rayjob",
        "metadata: {labels: {trainyard.dev/job: dino}}\n    spec:\n      restartPolicy",
        "spec:\n      restartPolicy",
        "NET004 the pod that submits the entrypoint may not reach port 8265 of the head @ NetworkPolicy",
    ),
    (
        "rayjob",
        "  - from: [{podSelector: {matchLabels: {trainyard.dev/job: dino}}}]",
        "  - from: [{podSelector: {matchLabels: {trainyard.dev/job: dino}}}]\n    ports: [{port: 6379}, {port: 8265}]",
        "NET001 pods of the job reach each other only on port 6379, 8265, but NCCL and Gloo use any port",
    ),
    (
        "volcano-pytorch",
        "minAvailable: 4",
        "minAvailable: 3",
        "GNG002 the pod group waits for 3 pods, but the job has 4: some pods may start without the rest",
    ),
    (
        "volcano-pytorch",
        "--nnodes=$WORLD_SIZE",
        "--nnodes=$VC_WORKER_NUM",
        "RDV001 torchrun counts on 3 nodes, but 4 pods run it",
    ),
    (
        "volcano-pytorch",
        "--master-addr=$MASTER_ADDR",
        "--master-addr=clip-master-1.clip",
        "RDV003 rendezvous host clip-master-1.clip is not a pod of the job",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "expected"), MISTAKES)
def test_a_mistake_is_seen(name: str, old: str, new: str, expected: str) -> None:
    text = (INPUTS / f"{name}.yaml").read_text()
    assert text.count(old) == 1
    changed = text.replace(old, new)
    assert list(yaml.safe_load_all(changed))

    found = list(told(changed))

    assert any(line.startswith(expected) for line in found), found
