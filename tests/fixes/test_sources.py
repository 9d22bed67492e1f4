"""Fixes of what the sources themselves say: job folders, generators, fields that schemas refuse."""

from pathlib import Path

import pytest

from tests.fixes.test_command import run
from tests.planted.checkout import LLAMA, Checkout
from trainyard.findings.finding import Finding
from trainyard.fixes.apply import edited
from trainyard.fixes.plan import plan
from trainyard.kustomize.render import render
from trainyard.kustomize.rendered import RenderedOrigin, rendered_folder
from trainyard.kustomize.replay import replay
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Remedy, put, remove, rename, reword
from trainyard.repository.discover import Target, TargetKind
from trainyard.yaml.sources import Sources

KUSTOMIZATION, JOB = f"{LLAMA}/kustomization.yaml", f"{LLAMA}/job.yaml"


@pytest.mark.parametrize(
    ("rule", "file", "good", "bad"),
    [
        ("CTR009", JOB, "  name: llama-8b-sft\n", "  name: llama-8b # ours\n"),
        ("CTR010", KUSTOMIZATION, "transformers:\n- ../../../base/wiring\n", "# the end\n"),
        ("CTR012", KUSTOMIZATION, "  options:\n    allowNameChange: true\n", "  # its name stays\n"),
        ("CTR013", KUSTOMIZATION, "namespace: research # the", "namespace: vision # the"),
        ("CTR013", KUSTOMIZATION, "namespace: research # the team, which is the folder\n", ""),
        ("SCH003", JOB, "  nodes: 4\n", "  nods: 4\n"),
        ("SCH003", JOB, "  nodes: 4\n", '  nodes: "4" # of 8 GPUs\n'),
    ],
)
def test_a_job_folder_is_mended(checkout: Checkout, rule: str, file: str, good: str, bad: str) -> None:
    checkout.replace(file, good, bad)
    text = (checkout.root / file).read_text()
    (found,) = _said(checkout.root)
    assert (found.rule, found.fix is not None) == (rule, True)
    assert found.fix is not None
    assert not found.fix.refused

    after = edited(text, found.fix.edits)

    (checkout.root / file).write_text(after)
    assert _said(checkout.root) == []
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in after.splitlines() if "#" in line] == comments


def _said(root: Path) -> list[Finding]:
    (rendering,) = render(root, [LLAMA])
    return rendered_folder(Sources(root), Target(LLAMA, TargetKind.JOB), rendering).findings


def test_fields_that_a_schema_refuses_are_renamed_and_requoted(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  completion: 1 # once\n  parallelism: '1'\n"
        "  template:\n    spec:\n      restartpolicy: Never\n      containers:\n"
        "      - {name: a, image: a, env: [{name: DEPTH, value: 8}, {name: ON, value: true}]}\n"
    )

    _, out, _ = run(tmp_path, "--fix", "job.yaml")

    assert "fixed 5 in job.yaml (SCH001 x5)" in out
    assert file.read_text() == (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  completions: 1 # once\n  parallelism: 1\n"
        "  template:\n    spec:\n      restartPolicy: Never\n      containers:\n"
        '      - {name: a, image: a, env: [{name: DEPTH, value: "8"}, {name: ON, value: "true"}]}\n'
    )


_WITH_BF16 = ('"stage": 2}', '"stage": 2},\n  "bf16": {"enabled": true}')
GENERATED = {
    "kustomization.yaml": (
        "resources: [pod.yaml]\nnamePrefix: dev-\n"
        'configMapGenerator:\n- name: nccl\n  literals:\n  - NCCL_IB_DISABLE=true # off\n  - "NCCL_DEBUG=INFO"\n'
        "  envs: [more.env]\n  files: [ds.json]\n  options: {disableNameSuffixHash: true}\n"
        "patches:\n- target: {kind: Pod}\n  patch: |-\n    - op: add\n      path: /spec/hostname\n      value: host-0\n"
    ),
    "more.env": "# mine\nNCCL_BUFFSIZE=8M\nNCCL_NET=IB\n",
    "ds.json": '{\n  "train_batch_size": 32,\n  "zero_optimisation": {"stage": 2}\n}\n',
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: a\n"
    '    command: [sh, -c, "exec torchrun --nnodes=2 train.py"]\n',
}


@pytest.mark.parametrize(
    ("kind", "remedy", "file", "old", "new"),
    [
        ("ConfigMap", ("put", ("data", "NCCL_IB_DISABLE"), "1"), "kustomization.yaml", "DISABLE=true #", "DISABLE=1 #"),
        ("ConfigMap", ("put", ("data", "NCCL_DEBUG"), "WARN"), "kustomization.yaml", '=INFO"', '=WARN"'),
        ("ConfigMap", ("put", ("data", "NCCL_BUFFSIZE"), "8388608"), "more.env", "=8M", "=8388608"),
        ("ConfigMap", ("put", ("data", "ds.json", "train_batch_size"), 64), "ds.json", "32", "64"),
        ("ConfigMap", ("put", ("data", "ds.json", "bf16"), {"enabled": True}), "ds.json", *_WITH_BF16),
        (
            "ConfigMap",
            ("rename", ("data", "ds.json", "zero_optimisation"), "zero_optimization"),
            "ds.json",
            "isa",
            "iza",
        ),
        ("Pod", ("put", ("spec", "hostname"), "host-1"), "kustomization.yaml", "host-0", "host-1"),
        ("Pod", ("reword", ("spec", "containers", 0, "command", 2), "--nnodes=4"), "pod.yaml", "nnodes=2", "nnodes=4"),
        ("Pod", ("put", ("metadata", "name"), "b"), "", "kustomize makes it", ""),
        ("ConfigMap", ("rename", ("data", "NCCL_DEBUG"), "NCCL_DEBUG_FILE"), "", "kustomize makes it", ""),
        ("ConfigMap", ("remove", ("data", "NCCL_BUFFSIZE"), None), "", "edit it by hand", ""),
    ],
)
def test_a_field_is_followed_to_the_file_that_holds_it(
    tmp_path: Path, kind: str, remedy: tuple[str, tuple[str | int, ...], object], file: str, old: str, new: str
) -> None:
    for name, text in GENERATED.items():
        (tmp_path / name).write_text(text)
    sources = Sources(tmp_path)
    replayed = replay(tmp_path, ".", sources)
    objects = [Object.of(node.plain(), index) for index, node in enumerate(replayed.objects)]
    spot = next(item for item in objects if item.kind == kind).at(*remedy[1])
    made: Remedy = {
        "put": lambda: put(spot, remedy[2]),
        "rename": lambda: rename(spot, str(remedy[2])),
        "reword": lambda: reword(spot, "--nnodes=2", str(remedy[2])),
        "remove": lambda: remove(spot),
    }[remedy[0]]()

    fix = plan(made, "mend it", RenderedOrigin(replayed, {}), sources)

    if not file:
        assert (fix.edits, old in fix.refused) == ((), True), fix.refused
        return
    assert [edit.file for edit in fix.edits] == [file], fix.refused
    after = edited(GENERATED[file], fix.edits)
    assert after == GENERATED[file].replace(old, new)


@pytest.mark.parametrize("sign", ["\r", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_lines_that_end_in_an_unusual_way_are_left_alone(tmp_path: Path, sign: str) -> None:
    """The parser counts a line more than an edit would: in the file of a literal, of a patch, of a manifest."""
    kustomization = f"# old{sign}# signs\n" + GENERATED["kustomization.yaml"]
    for name, text in (GENERATED | {"kustomization.yaml": kustomization}).items():
        (tmp_path / name).write_bytes(text.encode())
    sources = Sources(tmp_path)
    replayed = replay(tmp_path, ".", sources)
    objects = [Object.of(node.plain(), index) for index, node in enumerate(replayed.objects)]
    spots = [item.at("data", "NCCL_IB_DISABLE") for item in objects if item.kind == "ConfigMap"]
    spots += [item.at("spec", "hostname") for item in objects if item.kind == "Pod"]

    fixes = [plan(put(spot, "1"), "mend it", RenderedOrigin(replayed, {}), sources) for spot in spots]

    assert [(fix.edits, fix.refused) for fix in fixes] == [((), "the file ends its lines in an unusual way")] * 2


@pytest.mark.parametrize("sign", ["\r", "\x85", "\u2028"], ids=ascii)
def test_lines_of_settings_end_at_line_feeds_alone(tmp_path: Path, sign: str) -> None:
    """As kustomize reads a file of settings: any other sign is a part of a comment or of a value."""
    text = f"# old{sign} sign\nNCCL_BUFFSIZE=8M\nNCCL_NET=IB\n"
    for name, content in (GENERATED | {"more.env": text}).items():
        (tmp_path / name).write_bytes(content.encode())
    sources = Sources(tmp_path)
    replayed = replay(tmp_path, ".", sources)
    objects = [Object.of(node.plain(), index) for index, node in enumerate(replayed.objects)]
    spot = next(item.at("data", "NCCL_BUFFSIZE") for item in objects if item.kind == "ConfigMap")

    fix = plan(put(spot, "8388608"), "mend it", RenderedOrigin(replayed, {}), sources)

    assert edited(text, fix.edits) == text.replace("8M", "8388608"), fix.refused


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=ascii)
@pytest.mark.parametrize("end", ["\r\n", "\r", "\x85", "\u2028"], ids=ascii)
def test_a_fix_keeps_the_bytes_around_it(tmp_path: Path, end: str, mark: str) -> None:
    (tmp_path / "jobs").mkdir()
    text = mark + JOB_OF_ONE_LINE_EACH.replace("\n", end)
    (tmp_path / "job.yaml").write_bytes(text.encode())

    _, out, _ = run(tmp_path, "--fix", "--level=error", "job.yaml")

    after = (tmp_path / "job.yaml").read_bytes().decode()
    if end == "\r\n":
        assert after == text.replace("Always", "Never")
    else:
        assert after == text
        assert "not fixed: JOB001 at job.yaml:6:27: the file ends its lines in an unusual way" in out


JOB_OF_ONE_LINE_EACH = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a} # é
spec:
  template: # with a pod
    spec: {restartPolicy: Always, containers: [{name: a, image: a}]}
"""
