"""What the replay tells of wires, patches and facts, and the positions it gives."""

from pathlib import Path

import pytest

from tests.kustomize.replay.support import Compared, compare, write
from trainyard.errors import InputError
from trainyard.findings.finding import Position
from trainyard.kustomize.replay import ObjectId, replay
from trainyard.objects.objects import Object
from trainyard.yaml.fieldpath import format_path, lookup
from trainyard.yaml.sources import Sources

TREE = """
=== base/training-job.yaml
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: training-job, annotations: {config.kubernetes.io/local-config: "true"}}
spec:
  nodes: 1
  learningRate: 0.0003
  nccl: {NCCL_DEBUG: WARN}
  command: [torchrun, -m, trainer]
=== base/job.yaml
apiVersion: batch/v1
kind: Job
metadata: {name: training-job}
spec:
  completions: 1
  template:
    spec:
      containers:
      - name: trainer
        image: trainer
        command: []
        env:
        - {name: PET_NNODES, value: "1"}
=== base/config-map.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: training-job-config}
data:
  TRAINER_LEARNING_RATE: "0.0003"
  TRAINER_NCCL: ""
  ds_config.json: |
    {
      "zero_optimization": {"stage": 3},
      "bf16": {"enabled": true}
    }
=== base/kustomization.yaml
resources: [training-job.yaml, job.yaml, config-map.yaml]
=== wiring/job.yaml
apiVersion: builtin
kind: ReplacementTransformer
metadata: {name: job}
replacements:
- source: {kind: TrainingJob, fieldPath: spec.nodes}
  targets:
  - select: {kind: Job}
    fieldPaths: [spec.completions, "spec.template.spec.containers.[name=trainer].env.[name=PET_NNODES].value"]
- source: {kind: TrainingJob, fieldPath: spec.learningRate}
  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.TRAINER_LEARNING_RATE]}]
- source: {kind: TrainingJob, fieldPath: spec.nccl}
  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.TRAINER_NCCL]}]
- source: {kind: TrainingJob, fieldPath: spec.nodes}
  targets: [{select: {kind: MPIJob}, fieldPaths: [spec.mpiReplicaSpecs.Worker.replicas]}]
- source: {kind: TrainingJob, fieldPath: spec.command}
  targets: [{select: {kind: Job}, fieldPaths: ["spec.template.spec.containers.[name=trainer].command"]}]
- source: {kind: TrainingJob, fieldPath: metadata.name}
  targets:
  - select: {kind: ConfigMap}
    options: {delimiter: "-config", index: 0}
    fieldPaths: [metadata.name]
  - {select: {kind: Job}, fieldPaths: [metadata.name]}
=== wiring/facts.yaml
apiVersion: builtin
kind: PatchTransformer
metadata: {name: facts}
target: {kind: TrainingJob}
patch: |-
  $patch: delete
  apiVersion: trainyard.dev/v1alpha1
  kind: TrainingJob
  metadata: {name: any}
=== wiring/kustomization.yaml
resources: [job.yaml, facts.yaml]
=== jobs/team/one/job.yaml
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: one}
spec:
  nodes: 4
  learningRate: 2e-5
=== jobs/team/one/kustomization.yaml
namespace: team
resources: [../../../base]
patches:
- path: job.yaml
  target: {kind: TrainingJob}
  options: {allowNameChange: true}
- target: {kind: Job}
  patch: |-
    apiVersion: batch/v1
    kind: Job
    metadata: {name: any}
    spec: {completions: 16, suspend: true}
- target: {kind: PyTorchJob}
  patch: |-
    - {op: remove, path: /spec}
transformers: [../../../wiring]
"""
JOB = "Job/team/one"
FOLDER = "jobs/team/one"


@pytest.fixture
def both(tmp_path: Path) -> Compared:
    write(tmp_path, TREE)
    return compare(tmp_path, FOLDER)


def test_all_leaves_are_equal(both: Compared) -> None:
    assert both.differences() == []


def test_values_point_at_the_file_that_wrote_them(both: Compared) -> None:
    assert both.where(JOB, "metadata.name") == "jobs/team/one/job.yaml: metadata: {name: one} [one]"
    assert both.where(JOB, "metadata.namespace") == "jobs/team/one/kustomization.yaml: namespace: team [team]"
    assert both.where(JOB, "spec.completions") == "jobs/team/one/job.yaml: nodes: 4 [4]"
    assert (
        both.where(JOB, "spec.template.spec.containers[0].env[PET_NNODES].value")
        == "jobs/team/one/job.yaml: nodes: 4 [4]"
    )
    assert both.where(JOB, "spec.template.spec.containers[0].command[2]") == (
        "base/training-job.yaml: command: [torchrun, -m, trainer] [trainer]"
    )
    assert both.where(JOB, "spec.suspend") == (
        "jobs/team/one/kustomization.yaml: spec: {completions: 16, suspend: true} [true]"
    )
    assert both.where("ConfigMap/team/one-config", "data.TRAINER_LEARNING_RATE") == (
        "jobs/team/one/job.yaml: learningRate: 2e-5 [2e-5]"
    )


def test_positions_go_on_into_json_in_a_string(both: Compared) -> None:
    config = next(item for item in both.objects if item.kind == "ConfigMap")
    stage = ("data", "ds_config.json", "zero_optimization", "stage")
    assert both.at(config, stage) == 'base/config-map.yaml: "zero_optimization": {"stage": 3}, [3]'
    assert both.replay.position(config, stage) == Position("base/config-map.yaml", 9, 38, 1)
    assert both.at(config, ("data", "ds_config.json", "fp16", "enabled")) == (
        "base/config-map.yaml: ds_config.json: | [ds_config.json]"
    )


def test_absent_fields_point_at_the_nearest_one_above(both: Compared) -> None:
    job = next(item for item in both.objects if item.kind == "Job")
    container = ("spec", "template", "spec", "containers", 0)
    assert both.at(job, (*container, "resources", "limits")) == "base/job.yaml: - name: trainer [name]"
    assert both.at(job, ("spec", "template", "spec", "subdomain")) == "base/job.yaml: spec: [spec]"


def test_what_differs_has_no_position(both: Compared) -> None:
    job = next(item for item in both.objects if item.kind == "Job")
    data = {**job.data, "spec": {**job.data["spec"], "completions": 5}}
    assert both.replay.position(Object.of(data, 0), ("spec", "completions")) is None
    data = {**job.data, "spec": {**job.data["spec"], "completions": "4"}}
    assert both.replay.position(Object.of(data, 0), ("spec", "completions")) is None
    assert both.replay.position(Object.of({**job.data, "kind": "CronJob"}, 0), ("spec", "completions")) is None
    data = {**job.data, "spec": {**job.data["spec"], "parallelism": 4}}
    assert both.replay.position(Object.of(data, 0), ("spec", "parallelism")) is None


def test_facts_stand_as_they_did_before_the_wiring_deleted_them(both: Compared) -> None:
    (fact,) = both.replay.facts
    assert fact.plain() == {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "one",
            "namespace": "team",
            "annotations": {"config.kubernetes.io/local-config": "true"},
        },
        "spec": {
            "nodes": 4,
            "learningRate": 2e-5,
            "nccl": {"NCCL_DEBUG": "WARN"},
            "command": ["torchrun", "-m", "trainer"],
        },
    }
    assert both.at(Object.of(fact.plain(), 9), ("spec", "nodes")) == "jobs/team/one/job.yaml: nodes: 4 [4]"


def test_wires(both: Compared) -> None:
    fact = ObjectId("trainyard.dev/v1alpha1", "TrainingJob", "team", "one")
    job = ObjectId("batch/v1", "Job", "team", "one")
    config = ObjectId("v1", "ConfigMap", "team", "one-config")
    told = [
        (
            wire.source and (wire.source.object, wire.source.path, wire.source.value),
            wire.target and (wire.target.object, wire.target.path, wire.target.value),
            wire.delimited,
            wire.problem,
        )
        for wire in both.replay.wires
    ]
    nodes, rate = (fact, ("spec", "nodes"), 4), (fact, ("spec", "learningRate"), 2e-5)
    name, nccl = (fact, ("metadata", "name"), "one"), (fact, ("spec", "nccl"), {"NCCL_DEBUG": "WARN"})
    command = (fact, ("spec", "command"), ["torchrun", "-m", "trainer"])
    container = ("spec", "template", "spec", "containers", 0)
    assert told == [
        (nodes, (job, ("spec", "completions"), 4), False, ""),
        (nodes, (job, (*container, "env", 0, "value"), "4"), False, ""),
        (command, (job, (*container, "command"), ["torchrun", "-m", "trainer"]), False, ""),
        (name, (job, ("metadata", "name"), "one"), False, ""),
        (rate, (config, ("data", "TRAINER_LEARNING_RATE"), "2e-5"), False, ""),
        (nccl, (config, ("data", "TRAINER_NCCL"), ""), False, "map into text"),
        (name, (config, ("metadata", "name"), "one-config"), True, ""),
        (nodes, None, False, "no target"),
    ]
    assert both.replay.wires[0].replacement == Position("wiring/job.yaml", 5, 3, 6)
    assert both.replay.wires[0].source is not None
    assert both.replay.wires[0].source.mark == Position("jobs/team/one/job.yaml", 5, 10, 1)


def test_patches(both: Compared) -> None:
    job_file, to_job, to_nothing, deletion = both.replay.patches
    assert (job_file.file, job_file.kind, job_file.matched) == ("jobs/team/one/job.yaml", "strategic", 1)
    assert [(write.path, write.value, write.overwritten) for write in job_file.writes] == [
        (("metadata", "name"), "one", False),
        (("spec", "nodes"), 4, False),
        (("spec", "learningRate"), 2e-5, False),
    ]
    assert [(write.path, write.value, write.overwritten) for write in to_job.writes] == [
        (("spec", "completions"), 16, True),
        (("spec", "suspend"), True, False),
    ]
    assert to_job.writes[0].mark == Position("jobs/team/one/kustomization.yaml", 12, 25, 2)
    assert (to_nothing.matched, to_nothing.writes, to_nothing.kind) == (0, (), "json")
    assert to_nothing.entry == Position("jobs/team/one/kustomization.yaml", 13, 3, 6)
    assert (deletion.file, deletion.matched) == ("wiring/facts.yaml", 1)


def test_losses_of_a_replaced_list(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
=== over/job.yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - {name: pytorch, image: trainer, command: [torchrun]}
          - {name: side, image: side}
=== over/patch.yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            env: []
=== over/kustomization.yaml
resources: [job.yaml]
patches: [{path: patch.yaml}]
""",
    )
    both = compare(tmp_path, "over")
    assert both.differences() == []
    (patch,) = both.replay.patches
    containers = ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers")
    assert [(loss.path, loss.name, loss.fields) for loss in patch.losses] == [
        ((*containers, 0), "pytorch", ("image", "command")),
        ((*containers, 1), "side", ("name", "image")),
    ]
    assert patch.losses[0].mark == Position("over/patch.yaml", 9, 11, 10)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  nodes: 1\n", "", "no source field"),
        ("[training-job.yaml, job.yaml", "[job.yaml", "no source"),
        (
            "=== base/job.yaml\n",
            "---\n{apiVersion: trainyard.dev/v1alpha1, kind: TrainingJob, metadata: {name: b}}\n=== base/job.yaml\n",
            "several sources",
        ),
        ("        - {name: PET_NNODES", "        - {name: NNODES", "no target field"),
    ],
)
def test_wires_that_stop_kustomize(old: str, new: str, problem: str, tmp_path: Path) -> None:
    tree = TREE.replace(old, new).replace("  nodes: 4\n", "")
    assert tree != TREE
    write(tmp_path, tree)
    wires = replay(tmp_path, FOLDER, Sources(tmp_path)).wires
    problems = {wire.problem: wire for wire in wires}
    assert problem in problems
    found = problems[problem].replacement
    assert found is not None
    assert found.file == "wiring/job.yaml"


def test_jobs_that_share_a_base_do_not_see_one_another(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    write(
        tmp_path,
        TREE.replace("jobs/team/one", "jobs/team/two")
        .replace("name: one", "name: two")
        .replace("nodes: 4", "nodes: 2"),
    )
    sources = Sources(tmp_path)
    first = replay(tmp_path, FOLDER, sources)
    second = replay(tmp_path, "jobs/team/two", sources)
    again = replay(tmp_path, FOLDER, Sources(tmp_path))
    assert [node.plain() for node in first.objects] == [node.plain() for node in again.objects]
    assert [node.plain()["spec"]["completions"] for node in second.objects if node.plain()["kind"] == "Job"] == [2]
    assert len(first.wires) == len(second.wires) == len(again.wires)


def test_a_broken_file_is_an_input_error(tmp_path: Path) -> None:
    write(tmp_path, TREE.replace("  nodes: 4\n", "  nodes: 4\n  nodes: 5\n"))
    with pytest.raises(InputError) as caught:
        replay(tmp_path, FOLDER)
    assert str(caught.value) == (
        'jobs/team/one/job.yaml:6:3: key "nodes" stands twice in one map; the first stands on line 5'
    )


_MOVED = """
=== base/pods.yaml
apiVersion: v1
kind: PodTemplate
metadata: {name: pods}
template:
  spec:
    containers:
    - name: trainer
      args: [--port, ""]
      env:
      - {name: PORT, value: "0"}
      ports:
      - {name: ssh, containerPort: 2222}
=== base/job.yaml
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: train}
spec:
  containers:
  - {name: trainer, image: trainer}
=== base/kustomization.yaml
resources: [pods.yaml, job.yaml]
replacements:
- source:
    kind: PodTemplate
    fieldPath: template.spec.containers.[name=trainer].ports.[name=ssh].containerPort
  targets:
  - select: {kind: PodTemplate}
    fieldPaths:
    - template.spec.containers.[name=trainer].env.[name=PORT].value
    - template.spec.containers.*.args.1
- source: {kind: PodTemplate, fieldPath: metadata.name}
  targets:
  - {select: {kind: MPIJob}, fieldPaths: ["spec.containers.[name=trainer].image"]}
=== over/kustomization.yaml
resources: [../base]
patches:
- {target: {kind: Nothing}, patch: "- {op: remove, path: /spec}"}
"""
_JSON_PATCH = "- {target: {kind: %s}, patch: '- {op: add, path: %s, value: %s}'}\n"
_MERGED = """\
- target: {kind: PodTemplate}
  patch: |-
    {apiVersion: v1, kind: PodTemplate, metadata: {name: any}, template: {spec: {containers: [%s]}}}
"""


def _ends(root: Path, patches: str) -> list[tuple[str, object, object]]:
    """For each wire: the field that it filled, and what its source and that field hold in the end."""
    write(root, _MOVED + patches)
    both = compare(root, "over")
    assert both.differences() == []
    objects = {item.kind: item.data for item in both.objects}
    found = []
    for wire in both.replay.wires:
        if wire.source is None or wire.target is None:
            continue
        source = lookup(objects[wire.source.object.kind], wire.source.path)
        target = lookup(objects[wire.target.object.kind], wire.target.path)
        found.append((format_path(objects[wire.target.object.kind], wire.target.path), source, target))
    return found


@pytest.mark.parametrize(
    ("patches", "at", "in_mpi_job"),
    [
        ("", 0, 0),
        (_MERGED % "{name: trainer, env: [{name: NEW, value: x}], ports: [{name: new, containerPort: 1}]}", 0, 0),
        (_MERGED % "{name: sidecar, image: sidecar}", 1, 0),
        (_JSON_PATCH % ("PodTemplate", "/template/spec/containers/0", "{name: sidecar, args: [a, b]}"), 1, 0),
        (_JSON_PATCH % ("PodTemplate", "/template/spec/containers/0/env/0", "{name: NEW}"), 0, 0),
        (_JSON_PATCH % ("PodTemplate", "/template/spec/containers/0/ports/0", "{name: new, containerPort: 1}"), 0, 0),
        (_JSON_PATCH % ("MPIJob", "/spec/containers/0", "{name: sidecar, image: sidecar}"), 0, 1),
        (_JSON_PATCH % ("MPIJob", "/spec/containers", "[{name: sidecar}, {name: trainer, image: pods}]"), 0, 1),
    ],
    ids=["none", "merged", "container", "container in front", "variable", "port", "custom", "custom list"],
)
def test_a_wire_is_followed_where_other_items_come_in_front(
    patches: str, at: int, in_mpi_job: int, tmp_path: Path
) -> None:
    container = f"template.spec.containers[{at}]"
    assert sorted(_ends(tmp_path, patches)) == [
        (f"spec.containers[{in_mpi_job}].image", "pods", "pods"),
        (f"{container}.args[1]", 2222, "2222"),
        (f"{container}.env[PORT].value", 2222, "2222"),
    ]


def test_a_wire_whose_item_was_taken_out_ends_nowhere(tmp_path: Path) -> None:
    patch = _JSON_PATCH % ("PodTemplate", "/template/spec/containers/0/env", "[{name: OTHER, value: x}]")
    assert [place for place, _, _ in _ends(tmp_path, patch)] == [
        "template.spec.containers[0].args[1]",
        "spec.containers[0].image",
    ]
