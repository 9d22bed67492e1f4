"""The wheel: built twice it is the same; installed where there is nothing else, it judges as the checkout does."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.wheel.building import HOME, Bare, build, built
from trainyard import __version__

pytestmark = pytest.mark.slow_build

TYPED = """\
from trainyard.api import lint, plan, render
from trainyard.findings.finding import Finding

findings: tuple[Finding, ...] = lint("train.yaml")
print(sorted({finding.rule for finding in findings if finding.severity.label == "error"}))
print(plan("jobs/research/gpt2-124m").starts, len(render("jobs/research/gpt2-124m")) > 5)
"""
NOT_TYPED = "from trainyard.api import plan\nplan(3)\n"


@pytest.mark.claim("wheel-reproducible")
def test_the_source_distribution_gives_the_same_wheel(bare: Bare, tmp_path: Path) -> None:
    source = built(HOME, "sdist", tmp_path / "source")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()

    again = built(folder, "wheel", tmp_path / "again")

    assert again.name == bare.wheel.name
    assert again.read_bytes() == bare.wheel.read_bytes()


@pytest.mark.claim("wheel-reproducible")
def test_what_the_wheel_holds(bare: Bare) -> None:
    with zipfile.ZipFile(bare.wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"trainyard-{__version__}.dist-info/METADATA").decode()
        bill = json.loads(archive.read(f"trainyard-{__version__}.dist-info/sboms/renderer.cdx.json"))
        notices = archive.read("trainyard/installed/notices.txt").decode()

    assert {name.split("/")[0] for name in names} == {"trainyard", f"trainyard-{__version__}.dist-info"}
    assert "trainyard/py.typed" in names
    assert f"trainyard-{__version__}.dist-info/licenses/LICENSE" in names
    carried = {
        str(file.relative_to(HOME))
        for part in ("schemas", "base", "overlays", "clusters", "jobs")
        for file in (HOME / part).rglob("*")
        if file.is_file()
    } | {"mkdocs.yml"}
    assert carried <= {name.removeprefix("trainyard/installed/") for name in names}
    assert "License-Expression: Apache-2.0\n" in metadata
    asked = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert [line.split()[1].partition(">")[0] for line in asked] == ["cel-expr-python", "jsonschema-rs", "pyyaml"]
    linked = {each["name"] for each in bill["components"]}
    assert {"std", "mvdan.cc/sh/v3", "sigs.k8s.io/kustomize/api"} <= linked
    assert all(f"\n{name} " in notices for name in linked)


@pytest.mark.claim("wheel-alone")
def test_it_judges_as_the_checkout_does(bare: Bare) -> None:
    paths = ("--no-cache", "--format", "json", "jobs/research/gpt2-124m", "jobs/research/llama-8b-sft", "train.yaml")
    known = subprocess.run(
        [HOME / "tools/lint-jobs", *paths], cwd=bare.repository, capture_output=True, text=True, check=False
    )

    done = bare.run("trainyard", "lint", *paths)

    assert (done.returncode, done.stderr) == (1, "")
    ours = json.loads(known.stdout.replace("tools/lint-jobs", "trainyard lint"))["findings"]
    assert ours
    assert json.loads(done.stdout)["findings"] == ours


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("lint", "train.yaml"), 1, "= see: trainyard lint explain RDV007"),
        (("lint", "--fix", "--diff", "jobs"), 1, "+  nodes: 4"),
        (("lint-jobs", "jobs/research/llama-8b-sft"), 0, "1 job passes"),
        (("explain", "RDV003"), 0, "The rendezvous host is not a pod of the job."),
        (("rules",), 0, "NET007"),
        (("plan", "jobs/research/llama-8b-sft"), 0, "memory of a GPU"),
        (("list", "lab-west"), 0, "jobs/research/gpt2-124m"),
        (("export-policy",), 0, "kind: ValidatingAdmissionPolicy"),
        (("--version",), 0, f"trainyard {__version__}"),
        (("lint", "--help"), 0, "  trainyard lint --changed main "),
    ],
)
def test_a_command_of_the_wheel(bare: Bare, words: tuple[str, ...], code: int, said: str) -> None:
    done = bare.run("trainyard", *words)

    assert done.returncode == code, done.stderr
    assert said in done.stdout
    if words[0] != "export-policy":  # which is for the people of a cluster
        assert "tools/" not in done.stdout


@pytest.mark.claim("wheel-alone")
@pytest.mark.parametrize("word", ["verify", "rehearse", "bench-report"])
def test_what_needs_more_says_where_it_runs(bare: Bare, word: str) -> None:
    done = bare.run("trainyard", word, "jobs")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"trainyard: {word} needs a checkout of Trainyard: run tools/{word}")


def test_an_editor_needs_the_extra(bare: Bare) -> None:
    done = bare.run("trainyard", "lint", "--lsp")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lint-jobs: --lsp needs pygls: start tools/lint-jobs, or install trainyard[lsp]\n"


def test_bash_completes_the_command_line(bare: Bare) -> None:
    script = bare.run("trainyard", "completion", "bash").stdout
    asks = f"""{script}
    COMP_WORDS=(trainyard "$@"); COMP_CWORD=$#
    _shtab_trainyard trainyard "${{@: -1}}" "$1" && printf '%s ' "${{COMPREPLY[@]}}"
    """

    def completed(*words: str) -> list[str]:
        done = subprocess.run(["bash", "-c", asks, "bash", *words], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert {"lint", "list"} <= set(completed("li"))
    assert completed("lint", "--form") == ["--format"]
    assert completed("plan", "--comp") == ["--compare"]
    assert completed("upgrade", "--exa") == ["--examples"]


@pytest.mark.claim("wheel-typed")
def test_other_programs_call_it_and_its_types_are_known(bare: Bare) -> None:
    file = bare.repository / "jobs/research/gpt2-124m/job.yaml"
    text = file.read_text()
    file.write_text(text.replace("  nods: 4", "  nodes: 4"))
    try:
        (bare.repository / "calls.py").write_text(TYPED)
        (bare.repository / "wrong.py").write_text(NOT_TYPED)
        done = bare.run("python", "calls.py")
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["['JOB005', 'MEM001', 'RDV003', 'RDV007']", "True True"]
    finally:
        file.write_text(text)

    for name, code, said in (("calls.py", 0, "Success"), ("wrong.py", 1, 'Argument 1 to "plan" has incompatible type')):
        judged = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", bare.repository.parent / "mypy",
             "--python-executable", bare.environment / "bin/python", name],
            cwd=bare.repository, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert judged.returncode == code, judged.stdout
        assert said in judged.stdout


HEADS = {
    "linux-x86-64": (b"\x7fELF\x02\x01", 0x12, b"\x3e\x00"),
    "linux-arm64": (b"\x7fELF\x02\x01", 0x12, b"\xb7\x00"),
    "macos-x86-64": (b"\xcf\xfa\xed\xfe", 0x04, b"\x07\x00\x00\x01"),
    "macos-arm64": (b"\xcf\xfa\xed\xfe", 0x04, b"\x0c\x00\x00\x01"),
}
"""How a program of each platform begins, and what names its processor, and where."""


@pytest.mark.long
@pytest.mark.parametrize("name", HEADS)
def test_a_wheel_of_each_platform_holds_a_program_of_it(name: str, tmp_path: Path) -> None:
    wheel = built(HOME, "wheel", tmp_path / "wheels", TRAINYARD_PLATFORM=name)

    assert wheel.name.startswith(f"trainyard-{__version__}-py3-none-{name.split('-')[0].replace('linux', 'manylinux')}")
    with zipfile.ZipFile(wheel) as archive:
        program = archive.read("trainyard/installed/bin/render")
        mode = archive.getinfo("trainyard/installed/bin/render").external_attr >> 16
    head, at, processor = HEADS[name]
    assert program.startswith(head)
    assert program[at : at + len(processor)] == processor
    assert mode & 0o111 == 0o111


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"TRAINYARD_PLATFORM": "plan9-mips"},
            "wheel: no wheel is built for plan9-mips; TRAINYARD_PLATFORM may be ",
        ),
        ({"PATH": "/nowhere"}, "wheel: go is not on PATH"),
    ],
    ids=["platform", "go"],
)
def test_what_cannot_be_built_is_told_in_a_line(settings: dict[str, str], said: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"  # a checkout has a Go of its own where PATH has none
    for part in ("pyproject.toml", "LICENSE", "tools/wheel", "tools/trainyard"):
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (HOME / part).is_dir() else shutil.copy)(HOME / part, copy / part)

    done = build(copy, "wheel", tmp_path / "wheels", **settings)

    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
