"""Keys from file, environment and command line, and what is made of them."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

import trainer
from trainer import manual, sources
from trainer.errors import ConfigError, TrainerError
from trainer.sources import KEYS, VARIABLES

HOME = Path(__file__).resolve().parents[2]


def test_command_line_wins_over_environment_wins_over_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("micro_batch: 2\naccumulation: 2\nsteps: 20\ncheckpoint: {keep: 7}\nlearning_rate: 2e-5\n")

    config = sources.read([str(file), "steps=40"], {"TRAINER_ACCUMULATION": "4", "TRAINER_STEPS": "30", "PATH": "x"})

    assert (config.micro_batch, config.accumulation, config.steps) == (2, 4, 40)
    assert config.checkpoint.keep == 7
    assert config.learning_rate == 2e-5


def test_base_sets_only_keys_that_there_are() -> None:
    for path in sorted((HOME / "base").rglob("config-map-trainer.yaml")):
        data = yaml.safe_load(path.read_text())["data"]
        sources.read([], data)
        assert data.keys() <= VARIABLES.keys()


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["micro_bach=4"], {}, "command line: unknown key micro_bach; did you mean micro_batch?"),
        ([], {"TRAINER_MICROBATCH": "4"},
         "environment: unknown key TRAINER_MICROBATCH; did you mean TRAINER_MICRO_BATCH?"),
        (["checkpoint.kep=4"], {}, "command line: unknown key checkpoint.kep; did you mean checkpoint.keep?"),
        (["zzz=1"], {}, "command line: unknown key zzz; --help lists the keys"),
        (["micro_batch=four"], {}, "command line: micro_batch is a whole number, not 'four'"),
        (["micro_batch=0"], {}, "command line: micro_batch is at least 1, not 0"),
        (["learning_rate=0"], {}, "command line: learning_rate is above 0, not 0.0"),
        (["learning_rate=nan"], {}, "command line: learning_rate is a finite number, not nan"),
        (["compile=yes"], {}, "command line: compile is true or false, not 'yes'"),
        ([], {"TRAINER_PRECISION": "fp8"},
         "environment TRAINER_PRECISION: precision is one of bf16, fp16, fp32, not 'fp8'"),
        (["metrics.port=70000"], {}, "command line: metrics.port is at most 65535, not 70000"),
        (["a.yaml", "b.yaml"], {}, "one config file can be read, not 2: a.yaml, b.yaml"),
        (["absent.yaml"], {}, "absent.yaml: No such file or directory"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_one_line(arguments: list[str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        sources.read(arguments, environment)

    assert str(error.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps: '20'", "steps is int, not '20'"),
        ("steps: 20.0", "steps is int, not 20.0"),
        ("compile: 1", "compile is bool, not 1"),
        ("steps: true", "steps is int, not True"),
        ("checkpoint: {keeep: 1}", "unknown key checkpoint.keeep; did you mean checkpoint.keep?"),
        ("- 1", "expected keys and values, found list"),
        ("a: [", "not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_files_are_strict_about_types(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)

    with pytest.raises(ConfigError) as error:
        sources.read([str(file)], {})

    assert str(error.value) == f"{file}: {message}"


@pytest.mark.claim("help-lists-every-key")
def test_help_lists_every_key_with_type_unit_default_and_variable() -> None:
    text = manual.help_text()

    for name, key in KEYS.items():
        kind = "|".join(key.choices) or manual.TYPES[key.type]
        unit = f", {key.unit}" if key.unit else ""
        assert f"  {name} ({kind}{unit}; default {json.dumps(key.default)})  {key.variable}\n      {key.text}\n" in text
    assert max(map(len, text.splitlines())) <= 160


def test_schema_is_the_generated_one_and_agrees_with_the_reader() -> None:
    written = json.loads((HOME / "schemas/trainer.schema.json").read_text())
    assert written == manual.schema()

    validator = jsonschema.Draft7Validator(written)
    assert validator.is_valid({"micro_batch": 4, "checkpoint": {"keep": 2}, "learning_rate": 0.1})
    for wrong in (
        {"micro_batch": 0},
        {"learning_rate": 0},
        {"micro_bach": 1},
        {"checkpoint": {"kep": 1}},
        {"precision": "x"},
    ):
        assert not validator.is_valid(wrong)


def test_variables_of_keys_are_unique_and_plain() -> None:
    assert len(VARIABLES) == len(KEYS)
    assert all(re.fullmatch(r"TRAINER_[A-Z0-9_]+", name) for name in VARIABLES)


def test_page_and_help_tell_every_exit_code() -> None:
    codes = {0, TrainerError.code} | {kind.code for kind in TrainerError.__subclasses__()}

    page = (HOME / "docs/trainer.md").read_text()

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes
    assert {
        int(code) for code in re.findall(r"(?<=[ \n])(\d+) [a-z]", manual.USAGE.partition("Exit codes:")[2])
    } == codes


def test_package_names_its_modules_in_order() -> None:
    named = re.findall(r"[a-z_]+", " ".join(line[:25] for line in (trainer.__doc__ or "").splitlines()[2:]))

    modules = {path.stem for path in (HOME / "trainer").glob("*.py")} - {"__init__"}
    assert sorted(named) == sorted(modules)
