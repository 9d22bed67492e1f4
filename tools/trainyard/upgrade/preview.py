"""What an upgrade means for jobs, told by diff-jobs before anything is written."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trainyard.diff.compare import compare
from trainyard.diff.model import Difference
from trainyard.repository.git import git
from trainyard.repository.listed import PARTS
from trainyard.upgrade.changes import Changes
from trainyard.upgrade.write import apply

_WHO = ("-c", "user.name=trainyard", "-c", "user.email=trainyard@localhost", "-c", "commit.gpgSign=false")


def preview(root: Path, changes: Changes) -> Difference:
    """What diff-jobs would say after `changes`, made in a copy of the working tree as it is."""
    with _without_git_of_others(), tempfile.TemporaryDirectory(prefix="trainyard-upgrade-") as temporary:
        copy = Path(temporary).resolve() / root.name
        copy.mkdir()
        for part in PARTS:
            if os.path.isdir(root / part) and not os.path.islink(root / part):
                shutil.copytree(root / part, copy / part, symlinks=True)
        git(copy, "init", "--quiet", "--template=")
        git(copy, "add", "--all", "--force")
        git(copy, *_WHO, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "as it is")
        apply(copy, changes)
        return replace(compare(copy, "HEAD", use_cache=False), base="the files as they are")


@contextmanager
def _without_git_of_others() -> Iterator[None]:
    """Git in here works where it is told to: GIT_DIR, GIT_INDEX_FILE and others of a hook name its repository."""
    before = {name: value for name, value in os.environ.items() if name[:4] == "GIT_" and name[:10] != "GIT_CONFIG"}
    for name in before:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(before)
