"""`python -m trainyard COMMAND` is what the commands of tools/ run."""

import re
import subprocess
import sys

import pytest

from tests.cli.command import HOME
from trainyard import __version__
from trainyard.__main__ import COMMANDS, OF_LINT, SHORT

pytestmark = pytest.mark.commands


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "trainyard", *arguments]
    return subprocess.run(command, env={"PYTHONPATH": str(HOME / "tools")}, capture_output=True, text=True, check=False)


def test_each_command_of_tools_is_one_of_the_program() -> None:
    wrappers = {file.name for file in (HOME / "tools").iterdir() if file.name.endswith(("-job", "-jobs", "-report"))}
    assert wrappers == COMMANDS.keys()
    for name in wrappers:
        assert (HOME / "tools" / name).read_text().rstrip().endswith(f'-I -m trainyard {name} "$@"')


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_its_own_help(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_paths_in_help_exist(command: str) -> None:
    """But for what a command writes."""
    folders = "base|bench|clusters|docs|jobs|overlays|schemas|tests"
    named = re.findall(rf"(?<![\w/])(?<!--out )(?:{folders})/[\w./-]*\b", run(command, "--help").stdout)

    assert [path for path in named if not (HOME / path).exists()] == []


@pytest.mark.parametrize(
    ("arguments", "words"), [((), "which command?"), (("lnt",), "no command is called lnt"), (("--all",), "--all")]
)
def test_what_is_no_command_is_refused_with_a_list(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "usage: trainyard {bench-report,diff,explain,export-policy,lint,list," in done.stderr


def test_help_lists_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in (*SHORT, *OF_LINT))


@pytest.mark.parametrize("short", SHORT)
def test_a_short_name_is_the_command(short: str) -> None:
    assert run(short, "--help").stdout == run(SHORT[short], "--help").stdout


@pytest.mark.parametrize("word", OF_LINT)
def test_a_subcommand_of_the_linter_may_stand_alone(word: str) -> None:
    assert run(word, "--help").stdout == run("lint-jobs", word, "--help").stdout


def test_the_version() -> None:
    assert run("--version").stdout == f"trainyard {__version__}\n"
