"""Mistakes in a job's kustomization.yaml."""

import pytest

from tests.planted.checkout import GPT2, LLAMA, Checkout, Found

pytestmark = pytest.mark.commands

FILE = f"{LLAMA}/kustomization.yaml"


def test_team_is_not_the_folder(checkout: Checkout) -> None:
    checkout.replace(FILE, "namespace: research", "namespace: vision")
    checkout.expect(Found("CTR013", FILE, "namespace: ▸vision"))


def test_team_is_left_out(checkout: Checkout) -> None:
    checkout.replace(FILE, "namespace: research # the team, which is the folder\n", "")
    checkout.expect(Found("CTR013", FILE, "▸resources:"))


def test_job_file_is_not_taken(checkout: Checkout) -> None:
    text = (checkout.root / FILE).read_text()
    start, end = text.index("patches:"), text.index("transformers:")
    checkout.replace(FILE, text[start:end], "")
    checkout.expect(Found("CTR012", FILE, "▸resources:"))


def test_job_file_may_not_change_the_name(checkout: Checkout) -> None:
    checkout.replace(FILE, "  options:\n    allowNameChange: true\n", "")
    checkout.expect(Found("CTR012", FILE, "- ▸path: job.yaml"))


def test_base_does_not_exist(checkout: Checkout) -> None:
    checkout.replace(FILE, "../../../base/torchrun ", "../../../base/torchrum ")
    checkout.expect(Found("INP001", FILE, "▸../../../base/torchrum"))


def test_base_is_remote(checkout: Checkout) -> None:
    checkout.replace(FILE, "../../../base/torchrun ", "https://github.com/example/bases//torchrun?ref=v1 ")
    checkout.expect(Found("INP001", FILE, "▸https://github.com"))


def test_base_lies_outside_the_repository(checkout: Checkout) -> None:
    checkout.replace(FILE, "../../../base/torchrun ", "../../../../elsewhere ")
    checkout.expect(Found("INP001", FILE, "▸../../../../elsewhere"))


def test_facts_come_before_the_base(checkout: Checkout) -> None:
    text = (checkout.root / FILE).read_text()
    base, facts = [line for line in text.splitlines(keepends=True) if line.startswith("- ../")][:2]
    checkout.replace(FILE, base + facts, facts + base)
    checkout.expect(Found("CTR019", FILE, "- ▸../../../base/torchrun"))


def test_facts_come_after_an_object(checkout: Checkout) -> None:
    checkout.replace(FILE, "- ../../../clusters/", "- extra.yaml\n- ../../../clusters/")
    checkout.write(f"{LLAMA}/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n")
    [finding] = checkout.expect(Found("CTR019", FILE, "- ▸extra.yaml"))
    assert "../../../clusters/gpu-east/facts second" in finding["help"]


def test_facts_are_spelt_otherwise(checkout: Checkout) -> None:
    checkout.replace(FILE, "clusters/gpu-east/facts ", "clusters/gpu-east/facts/ ")
    checkout.expect(Found("CTR019", FILE, "▸../../../clusters/gpu-east/facts/"))


def test_facts_come_by_another_folder(checkout: Checkout) -> None:
    checkout.replace(FILE, "- ../../../clusters/gpu-east/facts # where it runs, and so on what fabric\n", "")
    checkout.replace(FILE, "../../../base/torchrun ", "all ")
    checkout.write(
        f"{LLAMA}/all/kustomization.yaml",
        "resources: [../../../../base/torchrun, ../../../../clusters/gpu-east/facts]\n",
    )
    checkout.expect(Found("CTR019", FILE, "▸resources:"))


def test_object_after_the_facts(checkout: Checkout) -> None:
    checkout.replace(FILE, "patches:\n", "- extra.yaml\npatches:\n")
    checkout.write(f"{LLAMA}/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n")
    checkout.expect()


@pytest.mark.parametrize("name", ["kustomization.yml", "Kustomization"])
def test_kustomization_is_called_otherwise(checkout: Checkout, name: str) -> None:
    (checkout.root / FILE).rename(checkout.root / LLAMA / name)
    checkout.expect(Found("CTR019", f"{LLAMA}/{name}", ""))


@pytest.mark.parametrize(
    ("rule", "title", "text"),
    [
        (
            "GIT004",
            "ClusterRole/reader",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: reader\nrules: []\n",
        ),
        (
            "GIT004",
            "DaemonSet/research/tuner",
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata:\n  name: tuner\n"
            "spec:\n  selector: {matchLabels: {app: tuner}}\n"
            "  template:\n    metadata: {labels: {app: tuner}}\n    spec:\n      automountServiceAccountToken: false\n"
            "      containers: [{name: tuner, image: 'tuner@sha256:" + 64 * "a" + "'}]\n",
        ),
        (
            "SEC001",
            "Secret/research/hub",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hub\n"
            "stringData:\n  token: hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n",
        ),
    ],
)
def test_object_that_no_job_may_bring(checkout: Checkout, rule: str, title: str, text: str) -> None:
    checkout.replace(FILE, "patches:\n", "- extra.yaml\npatches:\n")
    checkout.write(f"{LLAMA}/extra.yaml", text)
    where, path = ("token: ▸hf_", "stringData.token") if rule == "SEC001" else ("kind: ▸", "kind")
    checkout.expect(Found(rule, f"{LLAMA}/extra.yaml", where, title, path))


def test_field_of_the_kustomization_is_misspelt(checkout: Checkout) -> None:
    checkout.replace(FILE, "resources:\n", "resource:\n")
    checkout.expect(Found("INP001", FILE, "▸resource:"))


def test_wiring_of_one_job_says_nothing_of_the_other(checkout: Checkout) -> None:
    checkout.replace(f"{GPT2}/kustomization.yaml", "namespace: research", "namespace: vision")
    code, document = checkout.lint(LLAMA)
    assert (code, document["findings"]) == (0, [])


def test_team_without_a_namespace_on_the_cluster(checkout: Checkout) -> None:
    moved = "jobs/vision/llama-8b-sft"
    (checkout.root / "jobs/vision").mkdir()
    (checkout.root / LLAMA).rename(checkout.root / moved)
    checkout.replace(f"{moved}/kustomization.yaml", "namespace: research", "namespace: vision")
    document = checkout.lint(moved)[1]
    told = [finding for finding in document["findings"] if finding["rule"] == "GIT019"]
    assert [(f["message"], f["file"]) for f in told] == [
        ("cluster gpu-east has no namespace for team vision", f"{moved}/kustomization.yaml")
    ]
