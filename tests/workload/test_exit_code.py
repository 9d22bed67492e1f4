"""What becomes of a launcher's failure is what a real shell makes of it: scripts are run with a launcher that fails.

Every other program of the scripts succeeds, as the reading takes it to.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workload.manifests import workload
from trainyard.workload.model import HiddenFailure

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: job, namespace: team}}
spec: {{template: {{spec: {{containers: [{{name: trainer, image: trainer, command: {command}}}]}}}}}}
"""

HIDES = {
    "pipe": "torchrun train.py | tee log",
    "pipe-with-errors": "torchrun train.py 2>&1 | tee -a log",
    "both-streams": "torchrun train.py |& tee log",
    "pipe-in-two": "torchrun train.py | cat | tee log",
    "errexit-sees-the-pipe-alone": "set -e; torchrun train.py | tee log",
    "exit-0": "torchrun train.py; exit 0",
    "or-true": "torchrun train.py || true",
    "or-nothing": "torchrun train.py || :",
    "or-a-word": 'torchrun train.py || echo "training failed"',
    "or-a-group": "torchrun train.py || { echo failed; sleep 0; }",
    "background": "torchrun train.py &",
    "background-and-wait-for-all": "torchrun train.py & wait",
    "a-word-after-it": "torchrun train.py; echo done",
    "a-line-after-it": "torchrun train.py\necho done\n",
    "another-program-after-it": "torchrun train.py\nupload checkpoints\n",
    "only-if-it-succeeds-and-then": "torchrun train.py && echo good; echo done",
    "errexit-does-not-see-what-is-asked": "set -e; torchrun train.py && upload checkpoints; echo done",
    "condition": "if torchrun train.py; then echo good; fi",
    "condition-with-else": "if torchrun train.py; then echo good; else echo bad; fi",
    "negated": "! torchrun train.py",
    "a-code-that-is-kept-and-not-used": "torchrun train.py; code=$?; echo $code",
    "a-code-of-the-wrong-command": "torchrun train.py | tee log; exit $?",
    "a-code-that-came-too-late": "torchrun train.py; echo done; exit $?",
    "trap-that-exits": "trap 'exit 0' EXIT; torchrun train.py",
    "trap-of-a-function": "leave() { echo bye; exit 0; }; trap leave EXIT; torchrun train.py",
    "subshell": "(torchrun train.py; echo done)",
    "function": "main() { torchrun train.py; echo done; }; main",
    "function-that-returns": "main() { torchrun train.py; return 0; }; main",
    "errexit-in-a-condition": "set -e; main() { torchrun train.py; echo done; }; if main; then echo good; fi",
    "loop-that-gives-up": "for i in 1 2 3; do torchrun train.py && break; echo again; done",
    "retries-until-true": "n=0; until torchrun train.py || [ $n -lt 9 ]; do sleep 0; done",
    "case": "case x in x) torchrun train.py | tee log;; *) exit 1;; esac",
    "errexit-off-again": "set -e; set +e; torchrun train.py; echo done",
    "pipefail-off-again": "set -o pipefail; set +o pipefail; torchrun train.py | tee log",
    "pipefail-in-a-subshell": "(set -o pipefail); torchrun train.py | tee log",
    "nested": "bash -c 'torchrun train.py' | tee log",
    "nested-with-its-own-end": "set -e; bash -c 'torchrun train.py; exit 0'",
    "pipefail-is-not-handed-on": "set -o pipefail; bash -c 'torchrun train.py | tee log'",
    "wrapped": "timeout 60 torchrun train.py | tee log",
    "group": "{ torchrun train.py; } 2>&1 | tee log",
    "loop-that-reads": "torchrun train.py | while read line; do echo $line; done",
    "pipe-status-of-the-wrong-part": "torchrun train.py | tee log; exit ${PIPESTATUS[1]}",
    "waits-for-another": "torchrun train.py & sleep 0 & wait $!",
    "test-of-the-wrong-way": "torchrun train.py; code=$?; if [ $code -eq 0 ]; then exit 1; fi",
}
TELLS = {
    "plain": "torchrun train.py",
    "exec": "exec torchrun train.py",
    "last": "echo start; torchrun train.py",
    "errexit": "set -e; torchrun train.py; echo done",
    "errexit-among-others": "set -eux; torchrun train.py; echo done",
    "errexit-by-name": "set -o errexit; torchrun train.py; echo done",
    "pipefail": "set -o pipefail; torchrun train.py | tee log",
    "pipefail-among-others": "set -euo pipefail\ntorchrun train.py 2>&1 | tee log\necho done\n",
    "pipefail-with-errexit": "set -eo pipefail; torchrun train.py | tee log; echo done",
    "pipe-status": "torchrun train.py | tee log; exit ${PIPESTATUS[0]}",
    "pipe-status-kept": 'torchrun train.py | tee log; code="${PIPESTATUS[0]}"; echo done; exit "$code"',
    "process-substitution": "torchrun train.py > >(tee log) 2>&1",
    "all-output-to-a-process": "exec > >(tee log) 2>&1; torchrun train.py",
    "code-kept": "torchrun train.py; code=$?; echo done; exit $code",
    "code-kept-by-or": "code=0; torchrun train.py || code=$?; echo done; exit $code",
    "code-of-a-function": "code=0; note() { code=1; }; torchrun train.py || note; exit $code",
    "or-exit": "torchrun train.py || exit 1",
    "or-a-group-that-exits": "torchrun train.py || { echo failed; exit 3; }",
    "and-then": "torchrun train.py && echo done",
    "and-then-exit-0": "torchrun train.py && exit 0; exit 1",
    "if-not": "if ! torchrun train.py; then echo failed; exit 1; fi; echo done",
    "test-of-the-code": "torchrun train.py; if [ $? -ne 0 ]; then exit 1; fi; echo done",
    "test-of-a-kept-code": 'torchrun train.py; code=$?; [[ "$code" != 0 ]] && exit $code; echo done',
    "wait-for-it": "torchrun train.py & wait $!",
    "wait-for-it-by-name": 'torchrun train.py & child=$!; trap "kill -TERM $child" TERM; wait $child',
    "wait-and-keep": 'torchrun train.py & child=$!; wait "$child"; code=$?; echo $code; exit $code',
    "trap-that-only-speaks": "trap 'echo bye' EXIT; torchrun train.py",
    "trap-that-hands-on": "trap 'code=$?; echo bye; exit $code' EXIT; torchrun train.py",
    "trap-that-is-taken-back": "trap 'exit 0' EXIT; trap - EXIT; torchrun train.py",
    "exec-leaves-the-trap": "trap 'exit 0' EXIT; exec torchrun train.py",
    "subshell-with-errexit": "set -e; (torchrun train.py; echo done)",
    "function-with-errexit": "set -e; main() { torchrun train.py; echo done; }; main; echo end",
    "function-last": "main() { torchrun train.py; }; main",
    "pipe-into-it": "echo yes | torchrun train.py",
    "loop-of-tries": "for i in 1 2 3; do torchrun train.py && exit 0; sleep 0; done; exit 1",
    "nested": "bash -c 'torchrun train.py'",
    "nested-with-options": "bash -eo pipefail -c 'torchrun train.py | tee log; echo done'",
    "twice-negated": "if ! ! torchrun train.py; then echo good; else exit 2; fi",
    "group-with-pipefail": "set -o pipefail; { torchrun train.py; } 2>&1 | tee log",
    "exits-otherwise": "torchrun train.py; exit 7",
    "time": "time torchrun train.py",
    "function-of-the-other-form": "function main {\n  torchrun train.py\n}\nmain",
}
UNKNOWN = {
    "somebody-else-decides": "torchrun train.py; grep -q Traceback log && exit 1; echo done",
    "a-file-decides": "torchrun train.py; [ -f done ] || exit 1",
    "a-variable-from-outside": "torchrun train.py; exit $CODE",
    "arithmetic": "torchrun train.py; (( $? == 0 )) || exit 1; echo done",
    "an-array-of-processes": 'torchrun train.py & pids+=($!); for p in "${pids[@]}"; do wait $p || exit 1; done',
    "another-shell": "zsh -c 'torchrun train.py | tee log'",
}


def found(script: str, *shell: str) -> HiddenFailure | None:
    command = json.dumps([*(shell or ("bash", "-c")), script])
    launch = workload(JOB.format(command=command)).pod_sets[0].containers[0].launch
    return None if launch is None else launch.hidden


def ends_with(folder: Path, script: str, *shell: str) -> int:
    """The exit code of a script whose launcher fails and whose other programs succeed."""
    for name, code in (("torchrun", 1), ("upload", 0)):
        (folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (folder / name).chmod(0o755)
    program, *options = shell or ("bash", "-c")
    path = shutil.which(program)
    assert path is not None
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run([path, *options, script], env=environment, cwd=folder, capture_output=True, timeout=60)
    return done.returncode


@pytest.mark.parametrize("script", HIDES.values(), ids=HIDES.keys())
def test_a_failure_that_the_shell_hides_is_found(script: str, tmp_path: Path) -> None:
    assert ends_with(tmp_path, script) == 0
    assert found(script) is not None


@pytest.mark.parametrize("script", TELLS.values(), ids=TELLS.keys())
def test_a_failure_that_the_shell_tells_is_none(script: str, tmp_path: Path) -> None:
    assert ends_with(tmp_path, script) != 0
    assert found(script) is None


@pytest.mark.parametrize("script", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_only_a_running_shell_knows_is_not_said(script: str) -> None:
    assert found(script) is None


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("torchrun train.py | tee log", HiddenFailure("pipe", "tee log", True, mended_by="set -o pipefail")),
        ("torchrun train.py | grep loss", HiddenFailure("pipe", "grep loss", False, mended_by="set -o pipefail")),
        (
            "torchrun train.py | tee log; echo done",
            HiddenFailure("after", "echo done", True, mended_by="set -eo pipefail"),
        ),
        ("torchrun train.py || true", HiddenFailure("or", "true", True)),
        ("torchrun train.py || upload logs", HiddenFailure("or", "upload logs", False, True)),
        ("torchrun train.py; exit 0", HiddenFailure("exit", "exit 0", True, mended_by="set -e")),
        ("torchrun train.py; echo done", HiddenFailure("after", "echo done", True, mended_by="set -e")),
        ("torchrun train.py; upload checkpoints", HiddenFailure("after", "upload checkpoints", False, True, "set -e")),
        ("torchrun train.py &", HiddenFailure("background", "torchrun train.py", True)),
        ("torchrun train.py & wait", HiddenFailure("wait", "wait", True)),
        ("if torchrun train.py; then echo good; fi", HiddenFailure("condition", "torchrun train.py", True)),
        ("! torchrun train.py", HiddenFailure("not", "torchrun train.py", True)),
        ("trap 'exit 0' EXIT; torchrun train.py", HiddenFailure("trap", "exit 0", True)),
    ],
)
def test_what_hides_it_is_named(script: str, expected: HiddenFailure) -> None:
    assert found(script) == expected


def test_a_pipe_in_sh_has_no_option_that_every_image_knows() -> None:
    assert found("torchrun train.py | tee log", "sh", "-c") == HiddenFailure("pipe", "tee log", True)


@pytest.mark.parametrize("script", HIDES.values(), ids=HIDES.keys())
def test_what_would_let_it_through_does(script: str, tmp_path: Path) -> None:
    said = found(script)

    assert said is not None
    assert not said.mended_by or ends_with(tmp_path, f"{said.mended_by}\n{script}") != 0


@pytest.mark.parametrize("shell", [("sh", "-c"), ("dash", "-c"), ("sh", "-ec"), ("bash", "-eo", "pipefail", "-c")])
@pytest.mark.parametrize("script", [*HIDES.values(), *TELLS.values()], ids=[*HIDES.keys(), *(f"{k}." for k in TELLS)])
def test_every_shell_and_its_options_are_told_apart(script: str, shell: tuple[str, ...], tmp_path: Path) -> None:
    code, said = ends_with(tmp_path, script, *shell), found(script, *shell)

    assert said is None or code == 0


JOINED = (
    "{}; {}",
    "{}\n{}",
    "{} && {}",
    "{} || {}",
    "{} | {}",
    "if {}; then {}; fi",
    "if {}; then true; else {}; fi",
    "{}; c=$?; {}; [ $c = 0 ] || exit $c",
)
NESTED = (
    "{}",
    "{}",
    "( {} )",
    "{{ {}; }}",
    "! {{ {}; }}",
    "{{ {}; }} | cat",
    "{{ {{ {}; }} & wait $!; }}",
    "{{ {{ {}; }} & wait; }}",
    "{{ {name}() {{ {}; }}; {name}; }}",
)
OPTIONS = ("", "set -e; ", "set -o pipefail; ", "set -eo pipefail\n", "trap 'exit 0' EXIT; ")


@st.composite
def scripts(draw: st.DrawFn, commands: tuple[str, ...]) -> str:
    """A script of these commands, joined and nested in every way that a shell has, without loops."""
    parts = draw(st.lists(st.sampled_from(commands), min_size=2, max_size=6))
    parts.append("torchrun train.py")
    while len(parts) > 1:
        first = draw(st.integers(0, len(parts) - 2))
        joined = draw(st.sampled_from(JOINED)).format(*parts[first : first + 2])
        parts[first : first + 2] = [draw(st.sampled_from(NESTED)).format(joined, name=f"f{len(parts)}")]
    return draw(st.sampled_from(OPTIONS)) + parts[0]


NO_LIMIT = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PLAIN = ("torchrun train.py", "torchrun train.py", "true", "false", "echo a >&2", "exit 0", "exit 3", "exit", "set +e")


@NO_LIMIT
@given(script=scripts(PLAIN))
def test_any_script_of_known_commands_is_read_as_bash_runs_it(tmp_path: Path, script: str) -> None:
    code, ran = run_and_ran(tmp_path, script, "bash")

    assert (found(script) is not None) == (ran and code == 0)


@NO_LIMIT
@given(script=scripts((*PLAIN, "upload a", "upload b")), shell=st.sampled_from(["bash", "dash"]))
def test_no_script_is_said_to_hide_what_a_shell_tells(tmp_path: Path, script: str, shell: str) -> None:
    code, ran = run_and_ran(tmp_path, script, shell)

    assert found(script, shell, "-c") is None or code == 0 or not ran


def run_and_ran(folder: Path, script: str, shell: str) -> tuple[int, bool]:
    """The exit code of a script, and whether its launcher ran at all."""
    mark = folder / "mark"
    mark.unlink(missing_ok=True)
    marked = script.replace("torchrun train.py", f"{{ echo ran >> {mark}; torchrun train.py; }}")
    return ends_with(folder, marked, shell, "-c"), mark.exists()
