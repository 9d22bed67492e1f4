"""plan-job as its users see it, on a job and a cluster that are made up here."""

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plan.support import HERE, HOME, hold, plan

pytestmark = pytest.mark.commands

JOB = "jobs/research/whale-song"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """All that jobs are made of, and one job."""
    for folder in ("base", "overlays", "clusters"):
        shutil.copytree(HOME / folder, tmp_path / folder)
    shutil.copytree(HERE / "job", tmp_path / JOB)
    subprocess.run(["git", "init", "-q", "--template=", tmp_path], check=True)
    return tmp_path


def edit(checkout: Path, old: str, new: str, file: str = "job.yaml") -> None:
    path = checkout / JOB / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_forecast(checkout: Path) -> None:
    said = plan(JOB, "--price", "2.5", cwd=checkout)

    assert (said.code, said.errors) == (0, "")
    hold("forecast.txt", said.out)


def test_a_comparison(checkout: Path) -> None:
    said = plan(JOB, "--compare", cwd=checkout)

    assert said.code == 0
    hold("compare.txt", said.out.split("best every")[1])


def test_json_has_the_same_numbers(checkout: Path) -> None:
    said = plan(JOB, "--compare", "--format", "json", "--price", "2.5", cwd=checkout)

    hold("forecast.json", said.out)
    text = plan(JOB, "--price", "2.5", cwd=checkout).out
    found = said.json
    assert f"{found['speed']['tokens_per_second']:,.0f} tokens/s" in text
    assert f"{found['budget']['gpu_hours']:,.0f} GPU-hours, {found['budget']['cost']:,.0f}" in text
    assert sum(term["bytes"] for term in found["memory"]["terms"]) == pytest.approx(found["memory"]["bytes"], abs=20)


def test_what_does_not_fit_is_said_with_what_would(checkout: Path) -> None:
    edit(checkout, "micro: 1\n    accumulation: 4", "micro: 4\n    accumulation: 1")

    said = plan(JOB, "--compare", cwd=checkout)

    assert said.code == 1
    assert "DOES NOT FIT" in said.out
    last = said.out.splitlines()[-1]
    assert last.startswith("the job does not fit; it would with ")
    compared = plan(JOB, "--compare", "--format", "json", cwd=checkout).json
    [named] = [v for v in compared["variants"] if {"group": v["group"], "name": v["name"]} == compared["helps_most"]]
    assert named["fits"]
    assert named["global_batch"] == compared["speed"]["global_batch"]


def test_what_helps_most_saves_most(checkout: Path) -> None:
    found = plan(JOB, "--compare", "--format", "json", cwd=checkout).json
    hours = {
        (v["group"], v["name"]): v["gpu_hours_without_failures"]
        for v in found["variants"]
        if v["fits"] and v["same_global_batch"] and v["group"] not in ("nodes", "fabric")
    }

    best = found["helps_most"]
    assert hours[best["group"], best["name"]] == min(hours.values())


def test_another_cluster_is_planned_with_its_own_facts(checkout: Path) -> None:
    there = plan(JOB, "--cluster", "lab-west", "--format", "json", cwd=checkout)

    assert there.json["gpu"] == "A100-SXM-80GB"
    assert there.json["fabric"] == {"name": "ethernet", "transport": "sockets", "bytes_per_second": 25e9}
    assert there.json["quota"]["of_cluster"] == 128


def test_more_nodes_than_the_cluster_has_never_start(checkout: Path) -> None:
    edit(checkout, "nodes: 4", "nodes: 64")
    edit(checkout, "global: 128", "global: 2048")

    said = plan(JOB, cwd=checkout)

    assert said.code == 1
    assert "512 of 256 GPUs of the cluster: NEVER STARTS" in said.out


def test_a_claim_without_room_is_said(checkout: Path) -> None:
    edit(checkout, "size: 2Ti", "size: 100Gi")

    assert "THE CLAIM IS TOO SMALL" in plan(JOB, cwd=checkout).out


def test_the_cluster_s_own_facts_win_over_assumptions(checkout: Path) -> None:
    before = plan(JOB, "--format", "json", cwd=checkout).json
    facts = checkout / "clusters/gpu-east/facts/cluster.yaml"
    text = facts.read_text()
    stated = (
        "  forecast:\n    networkGbps: 400\n    failuresPer1000NodeDays: 60\n    restartMinutes: 5\n"
        "    checkpointWriteGBps: 10\n    pricePerGpuHour: 3\n    currency: EUR\n  nodeSelector:\n"
    )
    facts.write_text(text.replace("  nodeSelector:\n", stated, 1))

    after = plan(JOB, "--format", "json", cwd=checkout).json

    assert before["failures"]["assumed"]
    assert after["failures"]["assumed"] == []
    assert after["fabric"]["bytes_per_second"] == 50e9
    assert after["budget"]["currency"] == "EUR"
    assert after["budget"]["cost"] == pytest.approx(3 * after["budget"]["gpu_hours"], rel=1e-5)
    assert after["failures"]["seconds_between"] < before["failures"]["seconds_between"]


def test_settings_under_env_count(checkout: Path) -> None:
    plain = plan(JOB, "--format", "json", cwd=checkout).json
    edit(checkout, "checkpoint:", "env:\n    TRAINER_ACTIVATION_CHECKPOINTING: full\n  checkpoint:")

    full = plan(JOB, "--format", "json", cwd=checkout).json

    assert full["memory"]["bytes"] < plain["memory"]["bytes"]
    assert full["step"]["recompute"] > 0 == plain["step"]["recompute"]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [(["--tokens", "1e12"], 1e12), (["--epochs", "2", "--dataset-tokens", "3e11"], 6e11)],
)
def test_budgets(checkout: Path, options: list[str], tokens: float) -> None:
    found = plan(JOB, "--format", "json", *options, cwd=checkout).json

    assert found["budget"]["tokens"] == pytest.approx(tokens, rel=1e-4)


def test_the_curve_as_svg(checkout: Path) -> None:
    said = plan(JOB, "--svg", "curve.svg", cwd=checkout)

    assert said.code == 0
    hold("curve.svg", (checkout / "curve.svg").read_text())
    root = ElementTree.parse(checkout / "curve.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 3


@pytest.mark.claim("own-program-is-not-forecast")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model: llama-3-8b", "model: llama-9-8b", r"jobs/research/whale-song/job.yaml:8:\d+: model llama-9-8b is not"),
        ("steps: 2000", "steps: many", r"job.yaml:\d+:\d+: .*steps"),
        (
            "steps: 2000",
            "steps: 2000\n  command: [python, -m, trainer.bench]",
            r"job.yaml:\d+:\d+: command python -m trainer.bench is not the trainer",
        ),
        (
            "steps: 2000",
            "steps: 2000\n  command: [torchrun, sft.py, --dataset=/datasets/speech, --output=/checkpoints, --lr=1e-5]",
            r"command torchrun sft.py --dataset=/datasets/speech \.\.\. is not the trainer",
        ),
    ],
)
def test_a_job_that_cannot_be_planned_is_told_where(checkout: Path, old: str, new: str, message: str) -> None:
    edit(checkout, old, new)

    said = plan(JOB, cwd=checkout)

    assert said.code == 2
    assert said.out == ""
    assert re.search(message, said.errors), said.errors


def test_a_job_file_that_is_no_map_is_told_where(checkout: Path) -> None:
    (checkout / JOB / "job.yaml").write_text("- a: 1\n")

    said = plan(JOB, cwd=checkout)

    assert (said.code, said.out) == (2, "")
    assert said.errors == f"plan-job: {JOB}/job.yaml:1:1: expected a TrainingJob, found a list\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name one job folder"),
        (("base/run",), "base/run holds no jobs"),
        ((JOB, "--score", "x.yaml"), "name one job folder"),
        (("jobs/research/none",), "does not exist"),
        ((JOB, "--cluster", "mars"), "--cluster mars: there are aws-oregon"),
        ((JOB, "--tokens", "-1"), "--tokens"),
        ((JOB, "--epochs", "1"), "give --tokens alone"),
        ((JOB, "--svg", "none/curve.svg"), "cannot write none/curve.svg"),
        ((JOB, "--what"), "unrecognized arguments"),
    ],
)
def test_bad_usage_is_one_line(checkout: Path, arguments: tuple[str, ...], message: str) -> None:
    said = plan(*arguments, cwd=checkout)

    assert said.code == 2
    assert message in said.errors
    assert len(said.errors.splitlines()) <= 2


def test_help_names_the_exit_codes_and_only_options_that_are() -> None:
    done = subprocess.run([HOME / "tools" / "plan-job", "--help"], capture_output=True, text=True, check=True)

    options = set(re.findall(r"^  (--[a-z-]+)", done.stdout, re.MULTILINE)) | {"--help"}
    examples = done.stdout[done.stdout.index("examples:") : done.stdout.index("exit codes:")]
    assert set(re.findall(r" (--[a-z-]+)", examples)) <= options
    for code in ("0  ", "1  ", "2  ", "3  ", "130"):
        assert f"\n  {code}" in done.stdout
