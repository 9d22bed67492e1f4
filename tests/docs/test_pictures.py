"""The pictures of the first page show what commands print today."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.recorded import hold
from trainyard.docs.pictures import FOLDER, picture, recordings
from trainyard.home import HOME

JOB = "jobs/research/gpt2-124m"
LINES_OF_A_FORECAST = 22
OF_THE_MACHINE = ("bounds", "not checked", "network")
"""Lines of a rehearsal that say what this machine can do; the picture leaves them out."""


def printed(arguments: str, cwd: Path) -> str:
    environment = {"PYTHONPATH": str(HOME / "tools"), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [sys.executable, "-m", "trainyard", *arguments.split()]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.claim("pictures-are-printed")
def test_the_pictures_are_drawn_from_their_recordings() -> None:
    assert [file.name for file in recordings()] == ["finding.txt", "forecast.txt", "rehearsal.txt"]
    for file in recordings():
        assert file.with_suffix(".svg").read_text() == picture(file.read_text()), "run tools/update-docs"


@pytest.mark.claim("pictures-are-printed")
def test_the_finding_is_a_real_one(tmp_path: Path) -> None:
    for part in ("base", "overlays", "clusters", "jobs"):
        shutil.copytree(HOME / part, tmp_path / part)
    job = tmp_path / JOB / "job.yaml"
    job.write_text(job.read_text().replace("nodes: 4", "nodes: 6"))

    said = printed(f"lint-jobs --no-cache --color always {JOB}", tmp_path)

    hold(FOLDER / "finding.txt", f"$ tools/lint-jobs {JOB}\n{said}")


@pytest.mark.claim("pictures-are-printed")
def test_the_forecast_is_a_real_one() -> None:
    said = printed("plan-job jobs/research/llama-8b-sft", HOME)

    shown = "\n".join(said.splitlines()[:LINES_OF_A_FORECAST]) + "\n"
    hold(FOLDER / "forecast.txt", f"$ tools/plan-job jobs/research/llama-8b-sft\n{shown}")


@pytest.mark.claim("pictures-are-printed")
@pytest.mark.rehearsal
@pytest.mark.root
@pytest.mark.drawn
def test_the_rehearsal_is_a_real_one() -> None:
    said = printed(f"rehearse-job {JOB} --chaos kill-rank@5 --quiet", HOME)

    shown = [line for line in said.splitlines() if not line.strip().startswith(OF_THE_MACHINE)]
    now = f"$ tools/rehearse-job {JOB} --chaos kill-rank@5 --quiet\n" + "\n".join(shown) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        (FOLDER / "rehearsal.txt").write_text(now)
    recorded = (FOLDER / "rehearsal.txt").read_text()
    assert without_measures(now) == without_measures(recorded)


def without_measures(text: str) -> list[str]:
    """Its lines without what differs from run to run: times, steps, losses, which ranks the first one took along."""
    kept = (line for line in text.splitlines() if not line.strip().startswith(("replaced", "seen", "ended")))
    return [re.sub(r"[\d.,]+", "N", line) for line in kept]


def test_a_picture_holds_the_text_and_its_colours() -> None:
    drawn = picture("$ x <a>\n\x1b[1;31merror\x1b[0m & more\n\n  last\n")
    root = ET.fromstring(drawn)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]

    assert texts == ["$ x <a>", "error & more", "  last"]
    assert '<tspan fill="#ff9c94" font-weight="bold">error</tspan> &amp; more' in drawn


def test_pictures_are_read_on_their_own_ground() -> None:
    def light(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for file in recordings():
        drawn = file.with_suffix(".svg").read_text()
        [ground] = re.findall(r'<rect [^>]*fill="(#\w+)"', drawn)
        for colour in set(re.findall(r'<t(?:ext|span)[^>]* fill="(#\w+)"', drawn)):
            assert (light(colour) + 0.05) / (light(ground) + 0.05) >= 7, colour
