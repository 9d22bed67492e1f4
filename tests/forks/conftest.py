"""What the tests of forks begin with."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forks.forking import HOME, run, with_the_set_up


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A clone with this working tree, and with the set-up done."""
    root = tmp_path / "fork"
    subprocess.run(["git", "clone", "--quiet", HOME, root], check=True)
    run(root, "git rm -rq --cached .")
    listed = run(HOME, "git ls-files --cached --others --exclude-standard -z").split("\0")[:-1]
    for file in listed:
        (root / file).unlink(missing_ok=True)
        if os.path.lexists(HOME / file):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HOME / file, root / file, follow_symlinks=False)
    with_the_set_up(root)
    run(root, "git add --all && git commit -q --allow-empty -m 'upstream as it is now'")
    return root
