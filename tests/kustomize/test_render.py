"""The renderer gives what kustomize gives, in order, many folders at once, and leaves nothing behind."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainyard import limits
from trainyard.errors import Fault
from trainyard.kustomize.render import PROGRAM, Rendering, render

HERE = Path(__file__).parent / "render"
INPUTS = HERE / "inputs"
TOOLS = Path(__file__).parents[2] / ".tools"
JOBS = ("jobs/speech/conformer-ctc", "jobs/vision/vit-base")
FOLDERS = (
    *JOBS,
    "base/elastic",
    "base/wiring",
    "clusters/south",
    "fabrics/infiniband",
    "platform/queue",
    "platform/quota",
    "schema/with",
    "schema/without",
)


def stock(folder: str, kustomize: Path = TOOLS / "bin" / "kustomize") -> str:
    return subprocess.run(
        [kustomize, "build", folder], cwd=INPUTS, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout.decode()


def one(folder: str, root: Path = INPUTS) -> Rendering:
    (rendering,) = render(root, [folder], with_yaml=True)
    return rendering


@pytest.mark.parametrize("folder", FOLDERS)
def test_prints_the_bytes_of_kustomize(folder: str) -> None:
    rendering = one(folder)

    assert rendering.error == ""
    assert rendering.yaml == stock(folder)
    assert rendering.objects == list(filter(None, yaml.safe_load_all(rendering.yaml)))


@pytest.mark.slow_build
@pytest.mark.parametrize("version", ["5.0.3", "5.4.3"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_prints_the_bytes_of_older_kustomize(folder: str, version: str) -> None:
    kustomize = TOOLS / "old" / f"kustomize-{version}"
    if not kustomize.exists():
        pytest.skip(f"{kustomize} is not built")

    assert one(folder).yaml == stock(folder, kustomize)


@pytest.mark.parametrize("folder", JOBS)
def test_jobs_render_to_their_snapshots(folder: str) -> None:
    assert one(folder).yaml == (HERE / "snapshots" / f"{Path(folder).name}.yaml").read_text()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_many_folders_in_one_process_equal_one_process_each(workers: int) -> None:
    folders = [*FOLDERS, *reversed(FOLDERS)]

    together = list(render(INPUTS, folders, workers=workers, with_yaml=True))

    alone = {folder: one(folder) for folder in FOLDERS}
    assert together == [alone[folder] for folder in folders]


def test_a_schema_of_one_folder_does_not_reach_the_next() -> None:
    _, without = render(INPUTS, ["schema/with", "schema/without"], workers=1)

    containers = without.objects[0]["spec"]["containers"]
    assert containers == [{"name": "second", "image": "three"}]


def test_reads_are_all_that_was_looked_at() -> None:
    def digest(path: str) -> str:
        return hashlib.sha256((INPUTS / path).read_bytes()).hexdigest()

    files = [
        *(f"jobs/vision/vit-base/{name}.yaml" for name in ("job", "kustomization")),
        *(f"base/elastic/{name}.yaml" for name in ("claim", "job", "kustomization", "run", "service", "settings")),
        *(f"base/wiring/{name}.yaml" for name in ("fabric", "facts", "kustomization", "names", "shape")),
        *(f"clusters/south/{name}.yaml" for name in ("cluster", "kustomization")),
        *(f"fabrics/tcp/{name}.yaml" for name in ("fabric", "kustomization")),
    ]
    folders = ["jobs/vision/vit-base", "base/elastic", "base/wiring", "clusters/south", "fabrics/tcp"]
    other_names = [f"{folder}/{name}" for folder in folders for name in ("kustomization.yml", "Kustomization")]

    assert one("jobs/vision/vit-base").reads == (
        {path: digest(path) for path in files} | dict.fromkeys(folders, "folder") | dict.fromkeys(other_names, "absent")
    )


def test_a_link_within_the_repository_is_followed_and_kept(tmp_path: Path) -> None:
    shutil.copytree(INPUTS, tmp_path, dirs_exist_ok=True)
    shutil.move(tmp_path / "base", tmp_path / "shared")
    (tmp_path / "base").symlink_to("shared")

    rendering = one(JOBS[0], tmp_path)

    assert rendering.yaml == one(JOBS[0]).yaml
    assert rendering.reads["base"] == "link:shared"
    assert rendering.reads["shared/elastic"] == "folder"
    assert "shared/elastic/job.yaml" in rendering.reads


def test_results_come_in_order_with_errors_between() -> None:
    folders = [JOBS[0], "jobs/none", JOBS[1], "jobs/vision\n", "../inputs/platform/quota", "platform//quota"]

    rendered = list(render(INPUTS, folders))

    assert [(rendering.folder, rendering.error) for rendering in rendered] == [
        (JOBS[0], ""),
        ("jobs/none", "jobs/none does not exist"),
        (JOBS[1], ""),
        ("jobs/vision\n", "the folder's name has characters that cannot be printed"),
        ("../inputs/platform/quota", "not a plain path below the root"),
        ("platform//quota", "not a plain path below the root"),
    ]


def test_nothing_to_render_starts_nothing() -> None:
    assert list(render(INPUTS, [])) == []


def test_a_missing_program_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="render is missing: run tools/lint-jobs"):
        render(INPUTS, [JOBS[0]], program=tmp_path / "render")


def test_a_program_that_cannot_run_is_a_fault(tmp_path: Path) -> None:
    program = tmp_path / "render"
    program.write_text("not a program")

    with pytest.raises(Fault, match="does not start"):
        list(render(INPUTS, [JOBS[0]], program=program))


def test_a_program_of_another_version_is_a_fault(tmp_path: Path) -> None:
    program = tmp_path / "render"
    program.write_text(f"#!/bin/sh\nexec {PROGRAM} -flag-of-another-version\n")
    program.chmod(0o755)

    with pytest.raises(Fault, match="was it built from another version"):
        list(render(INPUTS, [JOBS[0]], program=program))


def test_a_root_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="is not a folder"):
        render(tmp_path / "none", [JOBS[0]])


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A repository whose folder `slow` takes kustomize minutes, beside two that it renders at once."""
    for folder in ("first", "slow", "last"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kustomization.yaml").write_text("resources: [objects.yaml]\n")
    for folder, count in {"first": 1, "slow": 30_000, "last": 1}.items():
        objects = (f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\n" for number in range(count))
        (tmp_path / folder / "objects.yaml").write_text("---\n".join(objects))
    return tmp_path


def test_a_slow_folder_is_given_up_and_the_rest_goes_on(slow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RENDER_SECONDS", 2)
    start = time.monotonic()

    rendered = list(render(slow, ["first", "slow", "last"], workers=1))

    assert [rendering.error for rendering in rendered] == ["", "took longer than 2 s", ""]
    assert time.monotonic() - start < 15
    assert children() == set()


def test_a_caller_that_takes_its_time_is_not_a_slow_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RENDER_SECONDS", 2)

    rendered = render(INPUTS, [*JOBS, *JOBS], workers=1)
    first = next(rendered)
    time.sleep(2.5)

    assert [first.error, *(rendering.error for rendering in rendered)] == ["", "", "", ""]


def test_a_folder_that_ends_the_program_does_not_end_the_rest(slow: Path) -> None:
    rendered = render(slow, ["first", "slow", "last"], workers=1)
    next(rendered)
    for process in children():
        os.kill(process, signal.SIGKILL)

    assert [rendering.error for rendering in rendered] == ["stopped the renderer (signal 9)", ""]


def test_nothing_survives_a_caller_that_stops_early(slow: Path) -> None:
    rendered = render(slow, ["first", "slow", "slow"], workers=2)
    next(rendered)
    assert len(children()) == 2
    assert isinstance(rendered, Iterator)

    del rendered

    assert children() == set()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives_a_caller_that_is_killed(slow: Path, how: signal.Signals) -> None:
    program = """
        import sys
        from pathlib import Path
        from trainyard.kustomize.render import render
        for rendering in render(Path(sys.argv[1]), ["first", "slow"], workers=1):
            print(rendering.folder, flush=True)
    """
    caller = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), slow],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "tools")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert caller.stdout
    assert caller.stdout.readline() == b"first\n"
    renderers = children(caller.pid)
    assert len(renderers) == 1

    caller.send_signal(how)
    caller.wait(timeout=5)
    caller.stdout.close()

    deadline = time.monotonic() + 5
    while any(map(alive, renderers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, renderers))


def children(parent: int | None = None) -> set[int]:
    """Renderers of folders that a process, by default this one, has started."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True).stdout
    rows = (line.split(maxsplit=2) for line in listing.splitlines())
    started = [(int(pid), args) for pid, ppid, args in rows if int(ppid) == (parent or os.getpid())]
    return {pid for pid, args in started if str(PROGRAM) in args and "-scripts" not in args}


def alive(process: int) -> bool:
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], check=False, capture_output=True, text=True)
    return listing.stdout.strip()[:1] not in ("", "Z")


def test_the_program_keeps_its_output_apart_from_warnings(tmp_path: Path) -> None:
    shutil.copytree(INPUTS / "schema" / "without", tmp_path / "old")
    (tmp_path / "old" / "kustomization.yaml").write_text(
        "resources: [fleet.yaml]\npatchesStrategicMerge: [patch.yaml]\n"
    )

    finished = subprocess.run([PROGRAM, "-root", tmp_path], input=b"old\nold\n", capture_output=True, check=True)

    assert b"deprecated" in finished.stderr
    assert [json.loads(line)["folder"] for line in finished.stdout.splitlines()] == ["old", "old"]
