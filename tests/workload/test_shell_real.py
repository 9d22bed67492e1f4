"""What is known of a script is what bash(1) and dash(1) do with it: scripts run with programs that note their words.

They run with nothing but these programs on PATH, in an empty folder, with little time and no large files.
"""

import re
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workload.manifests import unit
from trainyard.workload.model import EnvVar
from trainyard.workload.shell import Command, Script, commands

SPOT = unit("{apiVersion: v1, kind: Pod, metadata: {name: pod}}").objects[0].at("spec")
GIVEN = {"GIVEN": "g", "EMPTY": "", "A": "x-1.y", "N": "2", "S": "p  q"}
ENV = {name: EnvVar(name, value, SPOT, raw=value) for name, value in GIVEN.items()}
NAMES = ("NNODES", "MASTER_ADDR", "A", "B")
SCRIPTS = yaml.safe_load((Path(__file__).parent / "shell_scripts.yaml").read_text())
SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]


@dataclass(frozen=True, slots=True)
class Call:
    """A program that a real shell started."""

    words: tuple[str, ...]
    env: tuple[str, ...]


@cache
def folder_of_programs(folder: Path, code: int) -> Path:
    programs = folder / f"programs-{code}"
    programs.mkdir()
    env = " ".join(f'"${{{name}-unset}}"' for name in NAMES)
    for name in ("torchrun", "prog", "f", "g"):
        note = f'printf \'%s\\0\' "$@" END {env} END >> "$0.log"\n' if name == "torchrun" else ""
        (programs / name).write_text(f"#!{shutil.which('bash')}\n{note}echo said; exit {code}\n")
        (programs / name).chmod(0o755)
    return programs


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def calls(folder: Path, script: str, shell: str, code: int) -> list[Call]:
    """The launches of a script by a real shell, whose other programs end with `code`."""
    programs = folder_of_programs(folder, code)
    log = programs / "torchrun.log"
    log.write_bytes(b"")
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    found = shutil.which(shell)
    assert found is not None
    subprocess.run(
        [found, "-c", script],
        env=GIVEN | {"PATH": str(programs)},
        cwd=empty,
        timeout=30,
        input=b"line\n" * 100,
        capture_output=True,
        preexec_fn=bounded,
    )
    parts = log.read_bytes().decode(errors="replace").split("END\0")[:-1]
    split = [tuple(part.split("\0")[:-1]) for part in parts]
    return [Call(words, env) for words, env in zip(split[::2], split[1::2], strict=True)]


def launches(script: str, shell: str) -> list[Command]:
    """What is read of a script's launches, without what stands before the program's name."""
    found = []
    for command in commands(Script(script, SPOT, shell, (), (), ENV)):
        names = [word.text for word in command.words]
        at = 1 if names[0] in ("command", "exec") and len(names) > 1 else 0
        if names[at] == "torchrun":
            found.append(replace(command, words=command.words[at + 1 :]))
    return found


def fits(command: Command, call: Call) -> bool:
    """Whether a call may be one of a command: words that are not known are any number of words."""
    names = zip(NAMES, call.env, strict=True)
    set_ = {name: (value, command.env.get(name)) for name, value in names}
    known = all(
        read is None or read.value is None or read.value == value for value, read in set_.values() if command.complete
    )
    return known and _fits([(word.text, word.known) for word in command.words], list(call.words))


def _fits(read: Sequence[tuple[str, bool]], words: Sequence[str]) -> bool:
    if not read:
        return not words
    (text, known), rest = read[0], read[1:]
    if known:
        return bool(words) and words[0] == text and _fits(rest, words[1:])
    return any(_fits(rest, words[count:]) for count in range(len(words) + 1))


def check(folder: Path, script: str, shell: str) -> None:
    read = launches(script, shell)
    whole = commands(Script(script, SPOT, shell, (), (), ENV))
    unknown_text = any(each.words[0].text == "eval" and not all(word.known for word in each.words) for each in whole)
    if unknown_text or not any(word.known for each in whole for word in each.words):
        return  # nothing is said
    may_end = re.search(r"\b(exit|return|break|continue|set -e)\b", script) is not None
    for code in (0, 1):
        real = calls(folder, script, shell, code)
        for call in real:
            assert any(fits(command, call) for command in read), (call, read)
        for command in read:
            if code == 0 and not may_end and command.certain and all(word.known for word in command.words):
                assert any(fits(command, call) for call in real), (command, real)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_what_is_known_of_a_script_is_what_a_shell_does(script: str, shell: str, tmp_path: Path) -> None:
    check(tmp_path, script, "sh" if shell == "dash" else shell)


def test_most_scripts_are_known() -> None:
    known = [
        name
        for name, script in SCRIPTS.items()
        if (read := launches(script, "bash")) and all(word.known for command in read for word in command.words)
    ]
    assert len(known) > len(SCRIPTS) * 2 // 3


VALUES = (
    "a", "'b c'", '""', "$A", '"$A"', "$N", "$S", '"$S"', "$B", "$C", "${A:-x}", "${B-y}", '"${C:-d e}"', "${A%.*}",
    "${A#*-}", "${#A}", "$((N+1))", "$((N*2-1))", "$(echo hi)", "$(prog)", '"$(printf %s "$A")"', "${GIVEN:+set}",
    "${EMPTY:+no}", "${EMPTY:-none}", "$1", '"$@"', "$#", "$?", "x$A-y", "a{b,c}", "${A/x/z}", "${S:1:2}", "$RANDOM",
    "${B:=new}", "'q'\"r\"\\s", "~", "a*b",
)  # fmt: skip
SIMPLE = (
    "torchrun {0} {1}", "torchrun --a={0}", "A={0}", "B={0}", "C={0}", "export B={0}", "export A", "unset A", "N=3",
    "prog {0}",
    "true", "false", ":", "A={0} torchrun {1}", "B={0} C={1}", "set -- {0} {1}", "shift", "f {0}", "g", "local A={0}",
    "eval \"torchrun {1}\"", "read B", "A+={0}", "set -e", "set +e", "[ {0} = {1} ]", "[ -n \"{0}\" ]", "test $N -gt 1",
    "exit", "exit 3", "return", "return 1", "break", "continue", "trap 'torchrun trap' EXIT",
    "torchrun ${{PIPESTATUS[@]}}",
    "export NNODES={0}", "readonly R={0}", "N=$((N+1))", "torchrun \"${{A}}\" $?", "cd /", "echo {0}", "((N+=1))",
    "wait", "A=(a {0} 'c d')", "torchrun \"${{A[@]}}\" $A", "set -a", "set -o pipefail", "B=$(false)", "declare B={0}",
)  # fmt: skip
COMPOUND = (
    "{0}; {1}", "{0}\n{1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "! {0}", "( {0} ); {1}", "{{ {0}; }} && {1}",
    "if {0}; then {1}; fi", "if {0}; then {1}; else {2}; fi", "for i in {v} 2; do {0}; done; {1}", "{0} & wait; {1}",
    "case {v} in a|$A) {0} ;; *b*) {1} ;; *) {2} ;; esac", "f() {{ {0}; {1}; }}; {2}", "g() {{ {0}; }}; g; {1}",
    "i=0; while [ $i -lt 2 ]; do i=$((i+1)); {0}; done; {1}", "C=$({0}; {1}); torchrun $C", "{0} > file; {1}",
    "until {0}; do {1}; break; done", "[[ {v} == a* ]] && {0}; {1}", "{0} && {1} || {2}", "({0}) || {1}",
)  # fmt: skip


@st.composite
def generated(draw: st.DrawFn) -> str:
    """A script that is harmless in itself: assignments, tests, short loops, functions, and calls of two programs."""

    def value() -> str:
        return draw(st.sampled_from(VALUES))

    def part(depth: int) -> str:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(SIMPLE)).format(value(), value())
        whole, parts = draw(st.sampled_from(COMPOUND)), [part(depth - 1) for _ in range(3)]
        if "$({" in whole:  # what runs there is no launch of the container
            parts = [each.replace("torchrun", "prog") for each in parts]
        return whole.format(*parts, v=value())

    return "\n".join(part(2) for _ in range(draw(st.integers(1, 4)))) + "\ntorchrun --a=$A $B $#"


QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@QUICK
@given(script=generated())
def test_what_is_known_of_any_script_is_what_bash_does(script: str, tmp_path: Path) -> None:
    check(tmp_path, script, "bash")


@pytest.mark.long
@settings(QUICK, max_examples=5_000)
@given(script=generated(), shell=st.sampled_from(SHELLS))
def test_what_is_known_of_very_many_scripts_is_what_shells_do(script: str, shell: str, tmp_path: Path) -> None:
    check(tmp_path, script, "sh" if shell == "dash" else shell)
