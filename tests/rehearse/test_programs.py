"""Programs that are not this repository's trainer are judged by what they do, and not for what this machine lacks."""

from pathlib import Path

import pytest
import yaml

from tests.by_day import marks, sample
from tests.rehearse.rehearsing import Rehearsed, rehearse, said

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]
PROGRAMS = Path(__file__).parent / "programs"
CLAIM = {"name": "output", "persistentVolumeClaim": {"claimName": "checkpoints"}}
MOUNT = {"name": "output", "mountPath": "/output"}


def run(folder: Path, command: list[str], *options: str, gpus: int = 1) -> Rehearsed:
    """Rehearse a Job of one pod on a claim."""
    container = {
        "name": "trainer",
        "image": "registry.example.com/trainer:v1",
        "command": command,
        "volumeMounts": [MOUNT],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": [CLAIM]}}}
    metadata = {"name": "program", "namespace": "research"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return rehearse("job.yaml", *options, cwd=folder)


HUGGING_FACE = ["--program", f"train.py={PROGRAMS / 'hugging_face.py'}"]
SAVES = ["--output_dir=/output", "--save_steps=4", "--logging_steps=2", "--per_device_train_batch_size=2"]


def test_hugging_faces_trainer_is_seen_to_train_save_and_resume(tmp_path: Path) -> None:
    """It is made to save every second step, so that nothing is being saved after the seventh."""
    command = ["python", "train.py", *SAVES, "--report_to=none", "--bf16", "--max_steps=3000"]

    found = run(tmp_path, command, *HUGGING_FACE, "--steps", "16", "--chaos", "kill-rank@7")

    rehearsal = found.document["rehearsal"]
    assert found.code == 0, said(found)
    assert rehearsal["substitutes"]["precision"] == "fp32: there is no GPU"
    assert rehearsal["substitutes"]["steps"] == "at most 47"
    assert rehearsal["seen"]["steps"].startswith("steps ")
    assert "on claim checkpoints" in rehearsal["seen"]["save"]
    assert rehearsal["seen"]["resume"].startswith("from step ")
    assert set(rehearsal["not_seen"]) == {"ranks", "devices"}


ASKS_FOR_A_GPU = """\
from transformers import TrainingArguments
TrainingArguments(output_dir="/output", bf16=True)
"""


GPU_BY_DAY = sample(("bf16", "cuda"), 1)


@pytest.mark.claim("pods-reach-nothing", "what-this-machine-lacks")
@pytest.mark.parametrize(
    ("program", "why"),
    [
        pytest.param(
            ASKS_FOR_A_GPU,
            "a rehearsal has no GPU, and program-0 said: ValueError: Your setup doesn't support bf16/gpu.",
            id="bf16",
            marks=marks("bf16", GPU_BY_DAY),
        ),
        pytest.param(
            "import torch; torch.ones(1).cuda()",
            "a rehearsal has no GPU, and program-0 said: ",
            id="cuda",
            marks=marks("cuda", GPU_BY_DAY),
        ),
        pytest.param(
            "import flash_attn",
            "the Python of a rehearsal has no flash_attn, which comes with the image",
            id="package",
        ),
        pytest.param(
            "import urllib.request; urllib.request.urlopen('https://huggingface.co')",
            "a rehearsal reaches nothing outside of the job, and program-0 said: socket.gaierror: ",
            id="download",
        ),
    ],
)
def test_what_this_machine_lacks_is_not_the_jobs_fault(tmp_path: Path, program: str, why: str) -> None:
    found = run(tmp_path, ["python", "-c", program])

    assert (found.code, found.findings) == (2, []), said(found)
    assert found.document["rehearsal"]["not_judged"].startswith(why)
    assert f"cannot be judged here: {why}" in found.log.splitlines()[-2]


PRINTS = """
import os, sys, time
path = "/output/last.pt"
last = int(open(path).read()) if os.path.exists(path) else 0
for step in range(last + 1, 60):
    print(f"step {step} loss {1 / step:.3f}", flush=True)
    time.sleep(0.05)
    if step % 3 == 0:
        open(path, "w").write(str(step))
"""


def test_a_script_that_prints_words_and_writes_one_file_survives_a_killed_rank(tmp_path: Path) -> None:
    found = run(tmp_path, ["python", "-c", PRINTS], "--chaos", "kill-rank@5")

    assert found.code == 0, said(found)
    assert found.runs[0]["chaos"] == ["kill-rank@5"]
    assert found.runs[0]["resumed_from"] in ([3], [6], [9])
    assert found.document["rehearsal"]["seen"]["steps"] == "steps 1 to 59, loss 1.0000 to 0.0170"


def test_a_script_that_begins_again_is_told_so(tmp_path: Path) -> None:
    forgets = PRINTS.replace("if os.path.exists(path)", "if False")

    found = run(tmp_path, ["python", "-c", forgets], "--chaos", "kill-rank@5")

    assert found.code == 1, said(found)
    assert found.findings[0].startswith("RHS006 after kill-rank@5 the run began again at its first step")


SLOW = """
import sys, time
sys.stderr.write("loading\\n")
for number in range(1, 10_000):
    print(sys.argv[1].format(number), flush=True)
    time.sleep(0.2)
"""


@pytest.mark.claim("long-run-is-no-hang")
@pytest.mark.parametrize(
    ("form", "options", "code", "told"),
    [
        ("step {} loss 1.0", (), 0, "it was stopped"),
        ("done with {} of many", ("--step-pattern", r"done with (\d+)"), 0, "it was stopped"),
        ("done with {} of many", (), 2, "no line that it printed is known as a step"),
    ],
)
def test_a_long_run_is_stopped_and_not_called_a_hang(
    tmp_path: Path, form: str, options: tuple[str, ...], code: int, told: str
) -> None:
    found = run(tmp_path, ["python", "-c", SLOW, form], "--timeout", "5", *options)

    assert (found.code, found.findings) == (code, []), said(found)
    rehearsal = found.document["rehearsal"]
    assert told in (rehearsal["not_judged"] or rehearsal["not_seen"]["end"])


@pytest.mark.claim("silent-program-at-work")
def test_a_silent_program_that_computes_is_at_work_and_one_that_sleeps_is_not(tmp_path: Path) -> None:
    computes = "import time; end = time.time() + 8\nwhile time.time() < end: pass"

    works = run(tmp_path, ["python", "-c", computes], "--patience", "4")
    sleeps = run(tmp_path, ["python", "-c", "import time; time.sleep(100)"], "--patience", "4")

    assert works.code == 0, said(works)
    assert sleeps.code == 1, said(sleeps)
    assert sleeps.findings[0].startswith("RHS002 the job stands still before the first step")


@pytest.mark.parametrize(
    "command",
    [["python", "-c", "import os, sys; print(os.environ['MODE'], sys.argv[1:])", "--deep"],
     ["sh", "-c", "python -c 'import os, sys; print(os.environ[\"MODE\"], sys.argv[1:])' --deep"]],
)  # fmt: skip
def test_variables_and_arguments_are_changed_for_the_rehearsal(tmp_path: Path, command: list[str]) -> None:
    found = run(tmp_path, command, "--env", "MODE=small", "--arg=--max_steps=6", "--arg=two words")

    assert found.code == 0, said(found)
    assert "small ['--deep', '--max_steps=6', 'two words']" in found.log
    assert found.document["rehearsal"]["substitutes"]["variables"] == "MODE=small"


def test_what_mpirun_says_is_quoted_by_its_cause(tmp_path: Path) -> None:
    found = run(tmp_path, ["mpirun", "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "-np", "2", "true"])

    assert found.code == 1, said(found)
    assert "unable to open the hostfile: /etc/mpi/hostfile" in found.findings[0]
    assert "ORTE" not in found.findings[0]
