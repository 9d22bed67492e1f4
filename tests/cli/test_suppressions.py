"""Comments that silence findings, from the command line's end."""

from tests.cli.command import GPT2, LLAMA, POD, Repository

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
    assert checkout.lint("--no-cache").stdout == "2 jobs pass (1 finding suppressed)\n"

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

    assert found(checkout) == [("SUP001", sheet, line, ["clusters/gpu-east/argocd", other, LLAMA])]
    assert found(checkout, "jobs/research") == []
    assert found(checkout, LLAMA) == []
    checkout.replace(f"{other}/job.yaml", "  nodes: 4", "  nodes: [")
    assert [rule for rule, *_ in found(checkout)] == ["INP001"]


def test_in_plain_manifests(empty: Repository) -> None:
    pod = POD.replace("Never", "4")
    empty.write("some/pod.yaml", pod.replace("spec:", "# lint-jobs: ignore[SCH001] it is refused\nspec:"))

    assert [rule for rule, *_ in found(empty, "some") if rule != "SEC004"] == []
    assert [rule for rule, *_ in found(empty, "-") if rule == "SUP001"] == []
    stdin = "# lint-jobs: ignore[NET002] nothing\n" + POD
    assert [f["rule"] for f in empty.report("-", stdin=stdin)["findings"] if f["rule"] == "SUP001"] == ["SUP001"]
