"""Sets up what tools/lint-jobs and tools/test run on, in the ignored folder .tools.

    python3 tools/bootstrap.py lint            the linter: kustomize, kubeconform, the renderer, a Python environment
    python3 tools/bootstrap.py lsp             the linter's programs, and a Python environment with the language server
    python3 tools/bootstrap.py test            the linter, and a Python environment for the tests
    python3 tools/bootstrap.py report          the linter's programs, and a Python environment for tools/bench-report
    python3 tools/bootstrap.py fuzz            the linter's programs, and a Python environment with the fuzzer
    python3 tools/bootstrap.py wheel           the linter's programs, and a Python environment that builds its wheels
    python3 tools/bootstrap.py controlplane    the linter, and an API server with its controllers, built from source
    python3 tools/bootstrap.py controllers     the controllers of every kind of job, built from source for the tests
    python3 tools/bootstrap.py workflows       Argo Workflows, built from source for the tests
    python3 tools/bootstrap.py judges          what Argo CD, Flux, Prometheus and GitHub judge with, built from source
    python3 tools/bootstrap.py old-kustomize   old versions of kustomize, which one test compares
    python3 tools/bootstrap.py uv              prints the path of a uv that fits, installed if need be
    python3 tools/bootstrap.py usage MODULE ARGUMENT...
                                               judges the command line of a program, and sets nothing up

The programs in tools/ run it with -I, so that no module of the current folder or of PYTHONPATH takes another's place.
Each of them first has `usage` judge what it was given, by the `parser` of its module, so that neither --help nor a slip
of the pen installs anything. That ends with 0; 2 with one line; 64 where help was printed and nothing is left to do.

Ends with 0; 3 with one line and the last output of the command that failed; 130 when interrupted.
This file is read by old Pythons too, to tell them so. The work is in set_up/.
"""

import os
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
HELPED = 64


def leave_old_python() -> None:
    """Starts again with a newer Python from PATH; without one, says so and exits with 3."""
    newer = [f"python3.{minor}" for minor in range(19, OLDEST_PYTHON[1] - 1, -1)]
    for path in filter(None, map(shutil.which, newer)):
        if subprocess.call([path, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
            os.execv(path, [path, "-I", *sys.argv])
    found = ".".join(str(number) for number in sys.version_info[:3])
    sys.stderr.write(
        f"set-up: Python 3.11 or newer is needed, but {sys.executable} is {found} and PATH has no newer one; "
        "install Python 3.11 or newer\n"
    )
    sys.exit(3)


def usage(here: str, module: str, arguments: "list[str]") -> int:
    """Exit code of a command line that is only judged: it needs no package, and leaves no file behind."""
    sys.dont_write_bytecode = True
    sys.path.insert(1, os.path.dirname(here))
    from importlib import import_module

    from trainyard.commandline import judged

    program = import_module(module)
    first = getattr(program, "SUBCOMMANDS", {}).get(arguments[0]) if arguments else None
    return judged(first() if first else program.parser(), arguments[1:] if first else arguments, HELPED)


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        leave_old_python()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    if sys.argv[1:2] == ["usage"]:
        sys.exit(usage(here, sys.argv[2], sys.argv[3:]))
    from set_up.targets import main

    sys.exit(main(sys.argv[1:]))
