"""Sets up what tools/lint-jobs and tools/test run on, in the ignored folder .tools.

    python3 tools/bootstrap.py lint            the linter: kustomize, kubeconform, the renderer, a Python environment
    python3 tools/bootstrap.py test            the linter, and a Python environment for the tests
    python3 tools/bootstrap.py report          the linter's programs, and a Python environment for tools/bench-report
    python3 tools/bootstrap.py fuzz            the linter's programs, and a Python environment with the fuzzer
    python3 tools/bootstrap.py controlplane    the linter, and an API server with its controllers, built from source
    python3 tools/bootstrap.py controllers     the controllers of every kind of job, built from source for the tests
    python3 tools/bootstrap.py workflows       Argo Workflows, built from source for the tests
    python3 tools/bootstrap.py judges          what Argo CD, Flux, Prometheus and GitHub judge with, built from source
    python3 tools/bootstrap.py old-kustomize   old versions of kustomize, which one test compares
    python3 tools/bootstrap.py uv              prints the path of a uv that fits, installed if need be

The programs in tools/ run it with -I, so that no module of the current folder or of PYTHONPATH takes another's place.
Ends with 0; 3 with one line and the last output of the command that failed; 130 when interrupted.
This file is read by old Pythons too, to tell them so. The work is in set_up/.
"""

import os
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)


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


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        leave_old_python()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from set_up.targets import main

    sys.exit(main(sys.argv[1:]))
