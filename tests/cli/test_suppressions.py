"""Comments that silence findings, from the command line's end."""

import pytest

from tests.cli.command import GPT2, LLAMA, POD, Repository

pytestmark = pytest.mark.commands

MISTAKE = ("micro: 15", "micro: 16")


def found(checkout: Repository, *arguments: str) -> list[tuple[str, str, int, list[str]]]:
    return [(f["rule"], f["file"], f["line"], f["jobs"]) for f in checkout.report(*arguments)["findings"]]


def test_in_job_yaml(checkout: Repository) -> None:
    checkout.replace(f"{GPT2}/job.yaml", *MISTAKE)
    ((rule, file, line, _),) = found(checkout)
    lines = (checkout.root / file).read_text().splitlines()
    lines[line - 1] += f" # lint-jobs: ignore[{rule}] a trial of the batch size"
    checkout.write(file, "\n".join(lines) + "\n")

    for _ in range(2):
        report = checkout.report()
        assert (report["findings"], report["summary"]["suppressed"]) == ([], 1)
    assert checkout.lint("--no-cache").stdout == f"2 jobs pass (1 finding suppressed: {rule})\n"
    told = checkout.report()["suppressed"]
    assert [(each["rule"], each["reason"], each["by"]["line"], each["listed"]) for each in told] == [
        (rule, "a trial of the batch size", line, False)
    ]

    checkout.replace(f"{GPT2}/job.yaml", "a trial of the batch size", "")
    assert [rule for rule, *_ in found(checkout)] == [rule, "SUP002"]


def test_one_that_silences_nothing(checkout: Repository) -> None:
    checkout.replace(f"{GPT2}/job.yaml", "nodes: 4", "nodes: 4 # lint-jobs: ignore[NET002] nothing is wrong")

    for arguments in ([], [GPT2], ["jobs"], ["--no-cache"], ["--changed", "main"]):
        assert found(checkout, *arguments) == [("SUP001", f"{GPT2}/job.yaml", 9, [GPT2])], arguments
    assert checkout.lint().stdout.splitlines()[-1].startswith("1 warning in 1 of 2 jobs")
    assert found(checkout, LLAMA) == []


def test_in_a_fact_sheet_that_two_jobs_read(checkout: Repository) -> None:
    other = "jobs/research/llama-8b-more"
    checkout.copy_job(LLAMA, other)
    sheet = "clusters/gpu-east/facts/cluster.yaml"
    text = (checkout.root / sheet).read_text()
    checkout.write(sheet, text + "# lint-jobs: ignore[NET002] no reason that holds\n")
    line = text.count("\n") + 1

    assert found(checkout) == [
        ("SUP001", sheet, line, ["clusters/gpu-east/argocd", "clusters/gpu-east/platform", other, LLAMA])
    ]
    assert found(checkout, "jobs/research") == []
    assert found(checkout, LLAMA) == []
    checkout.replace(f"{other}/job.yaml", "  nodes: 4", "  nodes: [")
    assert [rule for rule, *_ in found(checkout)] == ["INP001"]


def test_in_plain_manifests(empty: Repository) -> None:
    pod = POD.replace("Never", "4")
    empty.write("some/pod.yaml", pod.replace("spec:", "# lint-jobs: ignore[SCH001] it is refused\nspec:"))

    assert [rule for rule, *_ in found(empty, "some") if rule != "SEC004"] == []
    assert [rule for rule, *_ in found(empty, "-") if rule == "SUP001"] == []
    stdin = "# lint-jobs: ignore[NET002] nothing is wrong here\n" + POD
    assert [f["rule"] for f in empty.report("-", stdin=stdin)["findings"] if f["rule"] == "SUP001"] == ["SUP001"]


PATCH = """\
apiVersion: v1
kind: PodTemplate
metadata: {{name: training-job}}
template:
  spec:
    hostPID: true{comment}
"""
LIST = "clusters/lab-west/suppressions.yaml"
LISTED = """\
apiVersion: trainyard.dev/v1alpha1
kind: SuppressionList
metadata: {{name: lab-west}}
suppressions:
- rule: {rule}
  job: {job}
  reason: {reason}
"""


def test_a_rule_on_security_is_silenced_by_the_owners_of_the_cluster(checkout: Repository) -> None:
    checkout.patch(
        GPT2, PATCH.format(comment=" # lint-jobs: ignore[SEC005, PSA001] the profiler of this week needs it")
    )

    assert [rule for rule, *_ in found(checkout)] == ["SEC005", "SUP005"]

    checkout.write(f"{GPT2}/patch.yaml", PATCH.format(comment=" # lint-jobs: ignore[PSA001] it is let in by hand"))
    checkout.write(LIST, LISTED.format(rule="SEC005", job=GPT2, reason="the profiler of this week needs it"))
    report = checkout.report()
    assert report["findings"] == []
    assert [(each["rule"], each["by"]["file"], each["listed"]) for each in report["suppressed"]] == [
        ("PSA001", f"{GPT2}/patch.yaml", False),
        ("SEC005", LIST, True),
    ]
    assert checkout.lint().stdout.endswith("2 findings suppressed: PSA001, SEC005)\n")


def test_a_list_that_is_wrong(checkout: Repository) -> None:
    checkout.patch(GPT2, PATCH.format(comment=" # lint-jobs: ignore[PSA001] it is let in by hand"))

    def said(rule: str = "SEC005", job: str = GPT2, reason: str = "the profiler of this week needs it") -> list[str]:
        checkout.write(LIST, LISTED.format(rule=rule, job=job, reason=reason))
        told = sorted(found(checkout), key=lambda each: each[1] != LIST)
        return [rule for rule, *_ in told]

    assert said(job=LLAMA) == ["SUP001", "SEC005"]
    assert said(job="jobs/research/gone") == ["SEC005"]
    assert said(reason="profiler") == ["SUP002", "SEC005"]
    assert said(rule="SEC999") == ["SUP003", "SEC005"]
    assert said(rule="INP001") == ["SUP003", "SEC005"]
    assert said(rule="sec005") == ["SCH003", "SEC005"]
    assert said(rule="SEC005\n  more: x") == ["SCH003", "SEC005"]
    assert said(reason="[") == ["INP001", "SEC005"]
    assert said(rule="NET002") == ["SUP001", "SEC005"]


def test_what_the_list_silences_no_more_is_found_among_what_changed(checkout: Repository) -> None:
    checkout.patch(GPT2, PATCH.format(comment=" # lint-jobs: ignore[PSA001] it is let in by hand"))
    checkout.write(LIST, LISTED.format(rule="SEC005", job=GPT2, reason="the profiler of this week needs it"))
    base = checkout.commit()
    assert found(checkout) == []

    (checkout.root / LIST).unlink()

    assert [rule for rule, *_ in found(checkout, "--changed", base)] == ["SEC005"]
    assert [rule for rule, *_ in found(checkout, "--changed", base, "--no-cache")] == ["SEC005"]
