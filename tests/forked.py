"""lint-jobs as a process of its own, without the time that its imports take: forked from one that has done them."""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tests.imported  # noqa: F401


def forked(
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes,
) -> subprocess.CompletedProcess[bytes]:
    """What the `main` of a command answers in a process with its own folder, environment and standard streams."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        process = os.fork()
        if process == 0:
            code = 70
            try:
                for number, file in enumerate((given, out, errors)):
                    os.dup2(file.fileno(), number)
                code = _run(main, arguments, cwd, environment)
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        out.seek(0)
        errors.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(list(arguments), code, out.read(), errors.read())


def _run(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> int:
    gc.disable()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))
    try:
        return main(arguments)
    except SystemExit as ended:  # by argparse
        return int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
