"""Results that are kept: they save time and change nothing."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.by_day import by_day, sample
from tests.cli.command import GPT2, HOME, LLAMA, POD, Repository, command, environment

pytestmark = pytest.mark.commands

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: research}
spec: {hard: {requests.nvidia.com/gpu: "1"}}
"""


def unchanged(checkout: Repository, *arguments: str) -> int:
    count: int = checkout.report(*arguments)["summary"]["unchanged"]
    return count


def entries(checkout: Repository) -> list[Path]:
    return sorted(file for file in kept(checkout) if not file.name.startswith("common-"))


def common(checkout: Repository) -> list[Path]:
    """What entries depend on alike."""
    return sorted(file for file in kept(checkout) if file.name.startswith("common-"))


def kept(checkout: Repository) -> list[Path]:
    return list((checkout.root.parent / "cache/trainyard").rglob("*.json"))


def edit(file: str) -> Callable[[Repository], None]:
    def act(checkout: Repository) -> None:
        with (checkout.root / file).open("a") as out:
            out.write("# another line\n")

    return act


def same_size_and_time(checkout: Repository) -> None:
    file = checkout.root / LLAMA / "job.yaml"
    facts = file.stat()
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)


def relinked(checkout: Repository) -> None:
    (checkout.root / LLAMA / "values.env").unlink()
    (checkout.root / LLAMA / "values.env").symlink_to("other.env")


EDITS: dict[str, tuple[Callable[[Repository], object], int]] = {
    "nothing": (lambda _: None, 2),
    "a file that no job reads": (edit("README.md"), 2),
    "a file's time": (lambda checkout: os.utime(checkout.root / LLAMA / "job.yaml"), 2),
    "its job.yaml": (edit(f"{LLAMA}/job.yaml"), 1),
    "a base": (edit("base/torchrun/job.yaml"), 0),
    "a fact sheet": (edit("overlays/rdma/fabric.yaml"), 1),
    "a new file in its folder": (lambda checkout: checkout.write(f"{LLAMA}/patch.yaml", POD), 1),
    "a second kustomization": (lambda checkout: checkout.write("overlays/rdma/kustomization.yml", "{}"), 1),
    "same size, same time": (same_size_and_time, 1),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_was_not_touched_is_not_judged_again(name: str, checkout: Repository) -> None:
    act, count = EDITS[name]
    assert unchanged(checkout) == 2

    act(checkout)

    kept = checkout.report()
    fresh = checkout.report("--no-cache")
    assert kept["summary"]["unchanged"] == count
    assert kept["findings"] == fresh["findings"]


def test_a_symlink_that_leads_elsewhere(checkout: Repository) -> None:
    for name, value in (("one", "1"), ("two", "2")):
        checkout.write(f"made/{name}/kustomization.yaml", "resources: [pod.yaml]\n")
        checkout.write(f"made/{name}/pod.yaml", POD.replace("Never", value))
    (checkout.root / "made/now").symlink_to("one")
    checkout.write("made/all/kustomization.yaml", "resources: [../now]\n")
    assert [unchanged(checkout, "made/all"), unchanged(checkout, "made/all")] == [0, 1]

    (checkout.root / "made/now").unlink()
    (checkout.root / "made/now").symlink_to("two")

    assert unchanged(checkout, "made/all") == 0


def test_plain_manifests_are_kept_too(checkout: Repository) -> None:
    file = checkout.write("manifests/pod.yaml", POD)
    assert [unchanged(checkout, "manifests"), unchanged(checkout, "manifests")] == [0, 1]

    checkout.write("manifests/pod.yaml", POD.replace("Never", "4"))
    assert unchanged(checkout, "manifests") == 0
    assert unchanged(checkout, "manifests") == 1
    checkout.write("manifests/second.yaml", POD)
    assert unchanged(checkout, "manifests") == 0
    file.unlink()
    assert unchanged(checkout, "manifests") == 0


def test_cold_and_warm_runs_say_the_same(unjudged: Repository) -> None:
    unjudged.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3 # lint-jobs: ignore[NCCL001] never needed")
    unjudged.write("manifests/pod.yaml", POD.replace("Never", "4"))
    targets = (LLAMA, GPT2, "manifests")
    formats = ("text", "github", "sarif", "junit", "json")

    def run(name: str) -> dict[str, bytes]:
        files = {form: unjudged.root.parent / f"{name}.{form}" for form in formats}
        arguments = [word for form, file in files.items() for word in ("--format", f"{form}={file}")]
        assert unjudged.lint(*arguments, *targets).returncode == 1
        return {form: file.read_bytes() for form, file in files.items()}

    def without_counts(text: bytes) -> bytes:
        lines = text.replace(b"3 unchanged since the last run, ", b"").split(b"\n")
        return b"\n".join(line for line in lines if b'"seconds"' not in line and b'"unchanged"' not in line)

    cold, warm = run("cold"), run("warm")

    assert cold["sarif"] == warm["sarif"]
    for form in ("text", "github", "json"):
        assert without_counts(cold[form]) == without_counts(warm[form])
    assert cold["junit"].partition(b"<testcase")[2] == warm["junit"].partition(b"<testcase")[2]
    assert b"3 unchanged" in warm["text"]


def sealed(entry: object) -> bytes:
    kept = json.dumps(entry).encode()
    return hashlib.sha256(kept).hexdigest().encode() + b"\n" + kept


def other(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def act(content: bytes) -> bytes:
        entry = json.loads(content.partition(b"\n")[2])
        change(entry)
        return sealed(entry)

    return act


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda content: content[: len(content) // 2],
    "edited": lambda content: content.replace(b'"findings":[]', b'"findings":[ ]'),
    "binary": lambda _: b"\x00\xff" * 100,
    "a list": lambda _: sealed([]),
    "hollow": lambda _: sealed({}),
    "another tool's": other(lambda entry: entry.update(tool="another")),
    "another job's": other(lambda entry: entry.update(key="job\x00jobs/research/other")),
    "wrong inside": other(lambda entry: entry.update(result={"findings": [{"rule": 4}], "suppressions": []})),
    "without a result": other(lambda entry: entry.update(result=None)),
    "without reads": other(lambda entry: entry.update(reads=[])),
}


@pytest.mark.parametrize("damage", by_day(DAMAGES, *sample(sorted(DAMAGES), 3)))
def test_an_entry_that_is_damaged_or_foreign_is_made_anew(damage: str, checkout: Repository) -> None:
    for entry in entries(checkout):
        entry.write_bytes(DAMAGES[damage](entry.read_bytes()))

    assert [unchanged(checkout), unchanged(checkout)] == [0, 2]


@pytest.mark.parametrize("damage", by_day(["empty", "half", "binary", "a list", "hollow"], "half", "hollow"))
def test_what_entries_have_in_common_is_made_anew_where_it_is_damaged(damage: str, checkout: Repository) -> None:
    # Of two jobs, and of the platform and what Argo CD starts from in each of two clusters.
    assert len(common(checkout)) == 6
    for file in common(checkout):
        file.write_bytes(DAMAGES[damage](file.read_bytes()))

    assert [unchanged(checkout), unchanged(checkout)] == [0, 2]


def test_what_entries_have_in_common_decides_nothing_in_anothers_place(checkout: Repository) -> None:
    one, *others = common(checkout)
    checkout.replace("base/torchrun/service.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false")
    checkout.lint()
    for file in common(checkout):
        if file not in (one, *others):
            file.write_bytes(one.read_bytes())

    assert checkout.report()["findings"] == checkout.report("--no-cache")["findings"] != []


def test_what_entries_have_in_common_does_not_pile_up(checkout: Repository) -> None:
    folder = common(checkout)[0].parent
    for number in range(300):
        (folder / f"common-{number}.json").write_bytes(b"[]")
        os.utime(folder / f"common-{number}.json", (number, number))
    checkout.replace("base/torchrun/service.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false")
    checkout.lint()

    assert len(common(checkout)) == 256
    assert unchanged(checkout) == 2


def test_entries_in_one_anothers_place_decide_nothing(checkout: Repository) -> None:
    """A broken job's entry and another cluster's platform, each whole and sealed, under names that are not theirs."""
    sound = {entry.name: entry.read_bytes() for entry in entries(checkout)}
    checkout.replace(f"{LLAMA}/job.yaml", "micro: 2", "micro: 3")
    broken = checkout.report()

    for entry, content in zip(entries(checkout), [*sound.values()][1:] + [*sound.values()][:1], strict=True):
        entry.write_bytes(content)

    assert checkout.report()["findings"] == broken["findings"] == checkout.report("--no-cache")["findings"] != []


def test_what_another_branch_left_behind_decides_nothing(checkout: Repository) -> None:
    checkout.git("checkout", "--quiet", "-b", "other")
    checkout.replace("base/torchrun/service.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false")
    checkout.write("clusters/gpu-east/platform/broken.yaml", "a: [")
    checkout.commit()
    there = checkout.report()
    checkout.git("checkout", "--quiet", "main")
    here = checkout.report()
    checkout.git("checkout", "--quiet", "other")

    assert there["findings"] == checkout.report()["findings"] == checkout.report("--no-cache")["findings"] != []
    assert here["findings"] == []


def test_the_platform_is_rendered_once_for_all_runs(checkout: Repository) -> None:
    """With its entry only the job is rendered; a finding about the platform still knows its place."""
    checkout.write("clusters/gpu-east/platform/quota.yaml", QUOTA)
    checkout.replace("clusters/gpu-east/platform/kustomization.yaml", "resources:\n", "resources:\n- quota.yaml\n")
    fresh = checkout.report(LLAMA)["findings"]
    with (checkout.root / LLAMA / "job.yaml").open("a") as out:
        out.write("# again\n")

    again = checkout.report(LLAMA)

    assert again["summary"]["unchanged"] == 0
    assert again["findings"] == fresh
    assert {place["file"] for finding in fresh for place in [finding, *finding["related"]]} >= {
        "clusters/gpu-east/platform/quota.yaml"
    }


@pytest.mark.root
@pytest.mark.parametrize("options", by_day(["size=64k", "size=64m,ro"], "size=64k"))
def test_a_disk_that_is_full_or_read_only_costs_time_only(options: str, checkout: Repository, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        for _ in range(2):
            done = checkout.lint(XDG_CACHE_HOME=str(disk))
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("2 jobs pass")
        assert list(disk.rglob(".new-*")) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_entries_that_cannot_be_read_or_written_cost_time_only(checkout: Repository) -> None:
    makes: list[Callable[[Path], None]] = [os.mkfifo, lambda entry: entry.symlink_to("/dev/zero"), Path.mkdir]
    for make in makes:
        for entry in kept(checkout):
            entry.unlink()
            make(entry)

        assert checkout.lint().stdout == "2 jobs pass\n"
    assert list((checkout.root.parent / "cache").rglob(".new-*")) == []


@pytest.mark.parametrize("place", by_day(["/proc/nothing", "/dev/null", "/dev/full", "relative/folder"], "/dev/full"))
def test_a_cache_that_cannot_be_written(place: str, checkout: Repository) -> None:
    for _ in range(2):
        done = checkout.lint(XDG_CACHE_HOME=place, HOME="/dev/null")

        assert (done.returncode, done.stdout, done.stderr) == (0, "2 jobs pass\n", "")
    assert not (checkout.root / "relative").exists()


def test_input_that_could_not_be_judged_is_not_kept(checkout: Repository) -> None:
    checkout.replace(f"{LLAMA}/kustomization.yaml", "base/torchrun", "base/none")

    assert [unchanged(checkout), unchanged(checkout)] == [1, 1]


def test_no_cache_reads_and_writes_nothing(unjudged: Repository) -> None:
    unjudged.lint("--no-cache")

    assert not (unjudged.root.parent / "cache").exists()


def test_two_runs_at_once(unjudged: Repository) -> None:
    runs = [
        subprocess.Popen(
            command(),
            cwd=unjudged.root,
            env=environment(unjudged.root.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]

    for run in runs:
        out, err = run.communicate(timeout=60)
        assert (run.returncode, err) == (0, b"")
        assert out.startswith(b"2 jobs pass")
    assert unjudged.lint().stdout == "2 jobs pass (2 unchanged since the last run)\n"


def test_another_version_of_the_linter_judges_anew(checkout: Repository, tmp_path: Path) -> None:
    for part in ("tools/trainyard", "schemas"):
        shutil.copytree(HOME / part, tmp_path / "linter" / part)
    (tmp_path / "linter/.tools").mkdir()
    (tmp_path / "linter/.tools/bin").symlink_to(HOME / ".tools/bin")
    tools = {"PYTHONPATH": str(tmp_path / "linter/tools")}
    assert [checkout.report(**tools)["summary"]["unchanged"] for _ in range(2)] == [0, 2]

    with (tmp_path / "linter/tools/trainyard/rules/gang/requests.py").open("a") as rule:
        rule.write("\n")
    assert checkout.report(**tools)["summary"]["unchanged"] == 0
