"""tools/test --all runs every phase, whatever fails before it, and ends with the code of one that failed."""

from pathlib import Path

import pytest

from tests.setup.conftest import Run

pytestmark = pytest.mark.commands

PYTHON = """\
#!/bin/sh
echo "cover ${TRAINYARD_COVER-} $*"
echo "shard ${TRAINYARD_SHARD-} in $PWD"
echo "ran $*"
case "$*" in *"$FAILS"*) exit 7 ;; esac
"""
"""Says what it would run."""

RUFF, TYPES, TRAINER_TYPES = "-m ruff check", "-m mypy --no-error-summary --exclude", "--python-executable"
TESTS, TRAIN = "-m pytest -m not torch and not long", "-m pytest -m torch and not long"
ALL = [RUFF, TYPES, TRAINER_TYPES, TESTS, TRAIN]
NIGHT = ["-m pytest -m long and not torch", "-m pytest -m long and torch", "-m pytest -m  -rs"]


@pytest.fixture
def phases(checkout: Path) -> Path:
    """A checkout whose set-up is done, with Pythons that run nothing."""
    (checkout / "tools/bootstrap.py").write_text("")
    (checkout / "tests").mkdir(exist_ok=True)
    (checkout / "tests/on_examples.py").write_text("import os\nprint(os.getcwd())\n")
    for name in ("test", "trainer"):
        python = checkout / ".tools" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(PYTHON)
        python.chmod(0o755)
    return checkout


@pytest.mark.claim("all-tests")
@pytest.mark.parametrize(
    ("fails", "code", "run_anyway"),
    [
        ("nothing", 0, ALL),
        (RUFF, 7, [RUFF]),
        (TYPES, 7, [RUFF, TYPES, TESTS]),
        (TRAINER_TYPES, 7, [RUFF, TYPES, TRAINER_TYPES, TESTS]),
        (TESTS, 7, ALL),
        (TRAIN, 7, ALL),
    ],
)
def test_every_phase_counts(fails: str, code: int, run_anyway: list[str], phases: Path, run: Run) -> None:
    done = run(phases / "tools/test", "--all", "-x", FAILS=fails)

    ran = [line for line in done.stdout.splitlines() if line.startswith("ran ")]
    assert done.returncode == code, done.stdout + done.stderr
    assert [phase for phase in ALL if any(phase in line for line in ran)] == run_anyway
    assert all(line.endswith(" -x") for line in ran if TESTS in line)


@pytest.mark.parametrize(("fails", "code"), [("nothing", 0), (TYPES, 7), ("-m pytest", 7)])
def test_without_all_types_and_tests_count(fails: str, code: int, phases: Path, run: Run) -> None:
    done = run(phases / "tools/test", FAILS=fails)

    assert done.returncode == code
    assert TRAIN not in done.stdout
    assert ("-m pytest" in done.stdout) == (fails != TYPES)


@pytest.mark.parametrize("fails", NIGHT)
def test_every_phase_of_the_night_counts(fails: str, phases: Path, run: Run) -> None:
    done = run(phases / "tools/test", "--nightly", FAILS=fails)

    assert done.returncode == 7
    assert [phase for phase in NIGHT if f"ran {phase}" in done.stdout] == NIGHT


@pytest.mark.parametrize(("option", "cover"), [((), ""), (("--all",), "some"), (("--nightly",), "all")])
def test_all_that_goes_together_is_taken_at_night_alone(
    option: tuple[str, ...], cover: str, phases: Path, run: Run
) -> None:
    lines = run(phases / "tools/test", *option, FAILS="nothing").stdout.splitlines()

    started = [line.split(" ", 2)[1:] for line in lines if line.startswith("cover ") and "-m pytest" in line]
    drawn = {each for each, words in started if "-m long" not in words}
    assert drawn == {cover}
    assert any(words.endswith(" tests/product") for _, words in started) == (option == ("--nightly",))


def test_a_shard_draws_nothing(phases: Path, run: Run) -> None:
    done = run(phases / "tools/test", "--all", "--shard", "2/4", "-x", FAILS="nothing")
    wrong = run(phases / "tools/test", "--all", "--shard", "5/4")

    said = done.stdout.splitlines()
    assert done.returncode == 0
    assert any(line.startswith("shard 2/4 in ") for line in said)
    assert not any(line.startswith("cover some") for line in said)
    assert all(line.endswith(" -x") for line in said if f"ran {TESTS}" in line)
    assert (wrong.returncode, wrong.stderr) == (2, "tools/test: --shard 5/4: there is no such part\n")


def test_it_runs_where_the_examples_are(phases: Path, run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".tools").symlink_to(phases / ".tools")
    (phases / "tests/on_examples.py").write_text(f"print({str(copy)!r})\n")
    done = run(phases / "tools/test", "tests/test_one.py", FAILS="nothing")
    (phases / "tests/on_examples.py").write_text("raise SystemExit(3)\n")
    lost = run(phases / "tools/test", "tests/test_one.py", FAILS="nothing")

    assert f"shard  in {copy}" in done.stdout.splitlines()
    assert (lost.returncode, lost.stdout) == (3, "")
