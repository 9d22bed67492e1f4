"""Scripts are taken apart as bash itself does it: each is run for real, with a launcher that prints its words."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.workload.manifests import unit
from trainyard.workload import interpreter
from trainyard.workload.model import EnvVar, Word
from trainyard.workload.shell import Command, Script, commands

SPOT = unit("{apiVersion: v1, kind: Pod, metadata: {name: pod}}").objects[0].at("spec")
GIVEN = {"NODES": "4", "JOB": "vit", "EMPTY": "", "FLAGS": "--amp  --seed 1", "SPACED": " a "}
ENV = {name: EnvVar(name, value, SPOT, raw=value) for name, value in GIVEN.items()}

SCRIPTS = {
    "plain": "torchrun --nnodes=2 train.py",
    "quotes": """torchrun 'a b' "c d" e\\ f "g'h" 'i"j' k"l"'m' "" ''""",
    "escapes": r"""torchrun "a\$b" "a\"b" "a\nb" a\$b '\n' "x\\y" """,
    "continuation": "torchrun --a \\\n  --b=\\\n1 \\\n  train.py",
    "variables": 'torchrun --nnodes=$NODES --x="$JOB-0.${JOB}:29400" $EMPTY "$EMPTY" $NODES$NODES',
    "splitting": 'torchrun $FLAGS "$FLAGS" x$FLAGS z$SPACED-y $SPACED',
    "defaults": 'torchrun ${NODES:-9} ${EMPTY:-none} ${EMPTY-none} ${ABSENT:-8} "${ABSENT:-a b}" ${ABSENT-"$JOB"}',
    "alternative": "torchrun ${NODES:+yes} ${EMPTY:+no} ${EMPTY+set} ${ABSENT+no}",
    "assignment": "PORT=29501; NAME=$JOB-x\ntorchrun $PORT ${NAME}",
    "assignment-keeps-blanks": 'A=$FLAGS; torchrun "$A"',
    "export": "export A=1 B=two; torchrun $A $B",
    "chain": "true && torchrun a && torchrun b; torchrun c",
    "comment": "# not this: torchrun no\ntorchrun a # nor this\ntorchrun b#c",
    "redirect": "torchrun a > /dev/null; torchrun b 2>&1; torchrun c 2>/dev/null d; torchrun </dev/null e",
    "here-document": "cat <<EOF > /dev/null\ntorchrun no\nEOF\ntorchrun yes",
    "here-string": "cat <<< text > /dev/null; torchrun yes",
    "arguments": 'torchrun "$@" $1 "$0"; torchrun $@',
    "literal-dollar": "torchrun a$ $, 5$",
    "glob-like": "torchrun 'a*' \"b?\"",
    "tilde-inside": "torchrun a~b",
    "subshell": "(torchrun a; torchrun b)",
    "pipe": "torchrun a | cat",
    "arithmetic": "torchrun $((NODES * 2))",
    "suffix": "torchrun ${NODES%%:*}",
    "condition": "if [ -n x ]; then A=1; else A=2; fi; torchrun $A",
    "condition-of-a-variable": "A=1; [ $NODES = 4 ] && A=2; torchrun $A",
    "or": "false || A=1; torchrun $A",
    "unset": "unset NODES; torchrun $NODES",
}
ARGUMENTS = ("name", "first arg", "second")


def launches(found: tuple[Command, ...]) -> list[list[str]]:
    return [[word.text for word in each.words[1:]] for each in found if each.words[0].text == "torchrun"]


def taken_apart(script: str) -> tuple[Command, ...]:
    return commands(Script(script, SPOT, "bash", (), tuple(Word(text, SPOT) for text in ARGUMENTS), ENV))


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_words_are_those_that_bash_passes(script: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    log = tmp_path / "log"
    stub = tmp_path / "torchrun"
    stub.write_text(f"#!{bash}\nprintf '%s\\0' \"$@\" END >> {log}\n")
    stub.chmod(0o755)
    environment = GIVEN | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([bash, "-c", script, *ARGUMENTS], env=environment, check=True, capture_output=True, cwd=tmp_path)
    real = [part.split("\0")[:-1] for part in log.read_text().split("END\0")[:-1]]
    assert launches(taken_apart(script)) == real


@pytest.mark.parametrize(
    "script",
    [
        "torchrun --rdzv_id=$RANDOM",
        "torchrun $(nproc)",
        "torchrun `nproc`",
        "torchrun $ABSENT",
        "torchrun ${HOSTNAME:-x}",
        "for A in 1 2; do torchrun $A; done",
        "read A; torchrun $A",
        "A=$(hostname); torchrun $A",
        "source /etc/settings; torchrun ${ABSENT:-1}",
    ],
)
def test_what_only_a_running_shell_knows_is_not_known(script: str) -> None:
    (found,) = [each for each in taken_apart(script) if each.words[0].text == "torchrun"]
    assert [word.known for word in found.words] == [True, False]


def test_only_exported_variables_reach_a_command() -> None:
    found = taken_apart("A=1; export B=2; C=3 torchrun; set -a; D=4; torchrun")
    first, second = (each.env for each in found if each.words[0].text == "torchrun")
    assert set(first) - set(GIVEN) == {"B", "C"}
    assert set(second) - set(GIVEN) == {"B", "D"}


GROWING = {
    "long": "x" * 100_000,
    "doubling": "A=aaaaaaaaaaaaaaaa;" + "A=$A$A;" * 100 + "torchrun $A",
    "nested": "${A:-" * 5000,
    "splitting": "A='" + "a " * 8000 + "';torchrun " + "$A " * 3000,
    "open": "torchrun $(" * 3000,
    "megabyte": "torchrun x\n" * 90_000,
    "braces": "torchrun {1..1000000000}",
    "braces-of-braces": "torchrun " + "{1..100}" * 9,
    "recursion": "f() { f; }; f",
    "fork-bomb": ":(){ :|:& };:",
    "tree-of-calls": "f() { g; g; }; g() { h; h; }; h() { f; f; }; f",
    "nested-arithmetic": "torchrun " + "$(($(" * 6000,
    "brackets": "torchrun $((" + "(" * 10_000 + "1" + ")" * 10_000 + "))",
    "signs": "torchrun $((" + "-" * 30_000 + "1))",
    "subshells": "(" * 16_000,
    "conditions": "if a; then " * 2500,
    "else-if": "if a; then b; " + "elif a; then b; " * 1900 + "fi",
    "chain": "a || " * 6000 + "b",
    "pipe": "a|" * 16_000 + "b",
    "loops-in-loops": "for i in 1 2 3 4 5 6 7 8; do " * 8 + "torchrun x; " + "done; " * 8,
    "variables": "".join(f"A{i}=1;" for i in range(3000)) + "if x; then y; fi;" * 500,
    "power": "torchrun $((2**99999999999))",
    "format": "torchrun $(printf '%999999999d' 1)",
    "eval": """A='eval "$A"'; eval "$A" """,
    "private-runes": "torchrun \U000f0000 \U000f0001",
}


@pytest.mark.parametrize("script", GROWING.values(), ids=GROWING.keys())
def test_a_script_made_to_grow_ends_soon_and_the_renderer_goes_on(script: str) -> None:
    taken_apart("torchrun first")
    process, start = interpreter._renderer._process, time.monotonic()

    found = taken_apart(script)

    assert len(launches(found)) <= 1
    assert time.monotonic() - start < 15
    assert interpreter._renderer._process is process


def test_a_renderer_that_was_ended_has_a_successor() -> None:
    taken_apart("torchrun first")
    process = interpreter._renderer._process
    assert process
    process.kill()
    process.wait()

    assert launches(taken_apart("torchrun after that")) == [["after", "that"]]


def test_a_loop_without_end_is_followed_for_some_rounds() -> None:
    assert launches(taken_apart("while :; do torchrun a; done; torchrun b")) == [["a"]]


def test_nothing_of_this_machine_is_read_written_or_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("torchrun from-a-file")
    script = f"""
    cd {tmp_path}; source ./file; A=$(<file); B=$(cat file); echo text > written; mkfifo pipe; exec 3<>file
    torchrun * {tmp_path}/f* ~root "$A" "$B" <(cat file) $(command -v torchrun) $HOME $PWD $$ $UID $RANDOM $HOSTNAME
    """

    (found,) = [each for each in taken_apart(script) if each.words[0].text == "torchrun"]

    assert not any(word.known for word in found.words[1:])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
