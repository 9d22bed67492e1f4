"""A target that asks for more than the judge has: one line about it, exit code 2, and all others are judged."""

import re
from pathlib import Path

import pytest

from tests.by_day import by_day
from tests.cli.command import GPT2, LLAMA, POD, Repository, copied_linter

pytestmark = pytest.mark.commands

RULE = """

@rule("XXX001", "harms", Severity.ERROR, needs=Object)
def harms(item):
    '''Page.'''
    if "harm" in item.name:
        {}
    yield from ()
"""
HARM = {
    "memory": ("bytearray(1 << 40)", "needs more than 200 MiB of memory to judge (at XXX001)"),
    "memory, bit by bit": (
        "held = [bytearray(1 << 20) for _ in range(1 << 20)]",
        "needs more than 200 MiB of memory to judge (at XXX001)",
    ),
    "time": ("while True: pass", "takes longer than 2 s of processor time to judge (at XXX001)"),
    "time in a library": ("7 ** 10**9", "takes longer than 2 s of processor time to judge (at XXX001)"),
}
CRASH = {
    "a crash": ("import ctypes; ctypes.string_at(0)", "stopped the process that judges it (signal 11) (at XXX001)"),
    "an exit": ("import os; os._exit(9)", "stopped the process that judges it (exit code 9) (at XXX001)"),
    "an exception": ("1 / 0", "XXX001 broke: ZeroDivisionError: division by zero (LINT_JOBS_TRACEBACK=1 shows where)"),
}


def harming(place: Path, harm: str) -> dict[str, str]:
    """Variables for a linter that does something at objects whose name says so, with bounds that are soon hit."""
    linter = copied_linter(place / "linter")
    with (linter / "tools/trainyard/rules/names.py").open("a") as module:
        module.write("\nfrom trainyard.objects.objects import Object" + RULE.format(harm))
    limits = linter / "tools/trainyard/limits.py"
    text = re.sub("(?m)^JUDGE_SECONDS = .*", "JUDGE_SECONDS = 2", limits.read_text())
    limits.write_text(re.sub("(?m)^JUDGE_BYTES = .*", "JUDGE_BYTES = 200 << 20", text))
    return {"PYTHONPATH": str(linter / "tools")}


@pytest.fixture
def harmful(checkout: Repository) -> Repository:
    """Two jobs and two manifests, one each that does harm; the others have a mistake that is to be told."""
    checkout.write(f"{LLAMA}/harm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: harm}\n")
    checkout.replace(f"{LLAMA}/kustomization.yaml", "patches:\n", "- harm.yaml\npatches:\n")
    checkout.replace(f"{GPT2}/job.yaml", "micro: 15", "micro: 16")
    checkout.write("some/harm.yaml", POD.replace("name: trainer}", "name: harm}", 1))
    checkout.write("more/pod.yaml", POD.replace("kind: Pod", "kind: Podd"))
    return checkout


@pytest.mark.parametrize("name", by_day(HARM | CRASH, "memory", "time", "a crash", "an exception"))
def test_what_the_others_come_to_is_told(name: str, harmful: Repository, tmp_path: Path) -> None:
    harm, words = (HARM | CRASH)[name]
    code = 2 if name in HARM else 3

    report = harmful.report("jobs", "some/harm.yaml", "more/pod.yaml", **harming(tmp_path, harm))

    ended = [finding for finding in report["findings"] if finding["input_error"]]
    assert [(each["jobs"], each["message"]) for each in ended] == [([LLAMA], words), (["some/harm.yaml"], words)]
    assert {each["rule"] for each in ended} == {"INP001" if name in HARM else "INP002"}
    others = {job for each in report["findings"] if not each["input_error"] for job in each["jobs"]}
    assert others == {GPT2, "more/pod.yaml"}
    assert report["summary"]["exit_code"] == code


def test_what_was_judged_in_part_is_not_kept(harmful: Repository, tmp_path: Path) -> None:
    variables = harming(tmp_path, "while True: pass")
    first = harmful.lint("jobs", **variables)
    again = harmful.lint("jobs", **variables)

    assert first.returncode == again.returncode == 2
    assert again.stdout == first.stdout.replace("2 of 2 jobs (", "2 of 2 jobs (1 unchanged since the last run, ")


def test_a_platform_that_asks_for_too_much_is_told_of_its_jobs(checkout: Repository, tmp_path: Path) -> None:
    """It is looked at once, not once for each of its jobs."""
    checkout.copy_job(LLAMA, f"{LLAMA}-2")
    linter = copied_linter(tmp_path / "linter")
    cluster = linter / "tools/trainyard/gitops/cluster.py"
    tried = tmp_path / "tried"
    spoilt = f'        if "east" in folder:\n            open({str(tried)!r}, "a").write(".")\n'
    spoilt += "            bytearray(1 << 40)\n"
    text = cluster.read_text()
    head = '        """Keep what a platform folder came to."""\n'
    assert head in text
    cluster.write_text(text.replace(head, head + spoilt))

    report = checkout.report(LLAMA, f"{LLAMA}-2", PYTHONPATH=str(linter / "tools"))

    assert [finding["message"] for finding in report["findings"]] == ["needs more than 2048 MiB of memory to judge"]
    (finding,) = report["findings"]
    assert (finding["file"], finding["jobs"]) == ("clusters/gpu-east/platform", [LLAMA, f"{LLAMA}-2"])
    assert report["summary"]["exit_code"] == 2
    assert tried.read_text() == "."
